#include "adapters/torch_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "adapters/strided_tensors.h"
#include "adapters/tensor_pickle.h"
#include "adapters/zip_entries.h"
#include "base/file.h"
#include "model/model_test_util.h"
#include "model/safetensors.h"

namespace graft {
namespace torch_weights_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::SourcePath;

// Files that torch wrote (tests/goldens/make_form_goldens.py).
std::string Corpus(const std::string& name) {
  return *ReadFile(SourcePath("tests/fuzz_corpus/torch_weights_fuzz/" + name));
}
std::string Form(const std::string& name) {
  return *ReadFile(SourcePath("tests/goldens/forms/" + name));
}

std::string Refusal(const std::string& file) {
  const Result<FileBytes> written = SafetensorsOfTorch(file);
  return written.ok() ? "accepted" : written.status().ToString();
}

// The same bytes as PEFT's own file have, so that the content hash is the same.
TEST(TorchWeightsTest, BecomeThePeftFileOfTheSameTensors) {
  for (const std::string name : {"plain", "strided"}) {
    const Result<FileBytes> written = SafetensorsOfTorch(Corpus(name));
    ASSERT_TRUE(written.ok()) << name << written.status().ToString();
    EXPECT_EQ(written->view(), Form("small.safetensors")) << name;
  }
  EXPECT_EQ(SafetensorsOfTorch(Corpus("shared"))->view(), Form("shared.safetensors"));
}

TEST(TorchWeightsTest, ParametersAndModulesAreTensors) {
  const SafetensorsFile file =
      *SafetensorsFile::FromBytes(*SafetensorsOfTorch(Corpus("parameter")), "parameter");
  EXPECT_THAT(file.Tensor("x")->shape, ElementsAre(2, 3));
  EXPECT_THAT(file.Tensor("none")->shape, ElementsAre(0, 3));
  EXPECT_THAT(file.Tensor("one")->shape, ElementsAre());
  float one = 0;
  std::memcpy(&one, file.Tensor("one")->data, sizeof(one));
  EXPECT_EQ(one, 5.0f);
  EXPECT_TRUE(SafetensorsFile::FromBytes(*SafetensorsOfTorch(Corpus("module")), "module")
                  ->Contains("whole"));
  const SafetensorsFile other =
      *SafetensorsFile::FromBytes(*SafetensorsOfTorch(Corpus("other_dtypes")), "other");
  EXPECT_EQ(other.entries().at("x").dtype, "F64");
  EXPECT_EQ(other.entries().at("n").dtype, "I64");
}

TEST(TorchWeightsTest, WhatIsNoTensorIsRefusedByName) {
  struct Case {
    std::string name;
    std::string why;
  };
  for (const Case& one : std::vector<Case>{{"legacy", "before 1.6"},
                                           {"number", "\"epoch\" is no tensor"},
                                           {"list", "no dictionary of tensors"},
                                           {"object", "__main__.Module"},
                                           {"fp8", "_rebuild_tensor_v3"},
                                           {"runs", "posix.system"},
                                           {"compressed", "compressed"},
                                           {"protocol4", "protocol 4"}}) {
    EXPECT_THAT(Refusal(Corpus(one.name)), AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr(one.why)))
        << one.name;
  }
  EXPECT_THAT(Refusal(std::string(257, '\0') + "ustar"), HasSubstr("before 1.6"));
  EXPECT_TRUE(LooksLikeTorch(Corpus("plain")) && LooksLikeTorch(Corpus("legacy")));
  EXPECT_FALSE(LooksLikeTorch(Form("small.safetensors")));
}

// Cut short at every byte it is refused, and nothing is read beyond its end.
TEST(TorchWeightsTest, HalfAFileIsRefused) {
  const std::string whole = Corpus("shared");
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    const std::string half(whole.data(), bytes);
    ASSERT_FALSE(SafetensorsOfTorch(half).ok()) << bytes;
  }
}

// ---- pickles by hand ----

std::string Text(const std::string& text) {
  std::string bytes = "X";
  const auto length = static_cast<uint32_t>(text.size());
  bytes.append(reinterpret_cast<const char*>(&length), sizeof(length));
  return bytes + text;
}
std::string Number(int32_t number) {
  return "J" + std::string(reinterpret_cast<const char*>(&number), sizeof(number));
}
std::string Tuple(const std::vector<int32_t>& numbers) {
  std::string bytes = "(";
  for (const int32_t number : numbers) bytes += Number(number);
  return bytes + "t";
}
std::string Storage(const std::string& key, int32_t elements) {
  return "(" + Text("storage") + "ctorch\nFloatStorage\n" + Text(key) + Text("cpu") +
         Number(elements) + "tQ";
}
std::string Tensor(const std::string& storage, int32_t offset, const std::vector<int32_t>& shape,
                   const std::vector<int32_t>& strides) {
  return "ctorch._utils\n_rebuild_tensor_v2\n(" + storage + Number(offset) + Tuple(shape) +
         Tuple(strides) + "\x89" + "ccollections\nOrderedDict\n)RtR";
}
const std::string kProtocol2 = "\x80\x02";
std::string Pickle(const std::string& tensor) {
  return kProtocol2 + "}" + Text("x") + tensor + "s.";
}

// A zip file of stored entries.
std::string Zip(const std::vector<std::pair<std::string, std::string>>& entries) {
  const auto number = [](auto value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  std::string file, directory;
  for (const auto& [name, bytes] : entries) {
    const auto size = static_cast<uint32_t>(bytes.size());
    const auto length = static_cast<uint16_t>(name.size());
    const std::string facts = number(uint16_t{20}) + number(uint16_t{0}) + number(uint16_t{0}) +
                              number(uint32_t{0}) + number(uint32_t{0}) + number(size) +
                              number(size) + number(length) + number(uint16_t{0});
    directory += "PK\x01\x02" + number(uint16_t{20}) + facts + number(uint16_t{0}) +
                 number(uint16_t{0}) + number(uint16_t{0}) + number(uint32_t{0}) +
                 number(static_cast<uint32_t>(file.size())) + name;
    file += "PK\x03\x04" + facts + name + bytes;
  }
  const auto count = static_cast<uint16_t>(entries.size());
  return file + directory + "PK\x05\x06" + number(uint32_t{0}) + number(count) + number(count) +
         number(static_cast<uint32_t>(directory.size())) +
         number(static_cast<uint32_t>(file.size())) + number(uint16_t{0});
}

std::string RefusalOf(const std::string& tensor, const std::string& bytes = std::string(24, 'x')) {
  return Refusal(Zip({{"a/data.pkl", Pickle(tensor)}, {"a/data/0", bytes}}));
}

TEST(TorchWeightsTest, TensorsLieInTheirStorage) {
  EXPECT_EQ(RefusalOf(Tensor(Storage("0", 6), 0, {2, 3}, {3, 1})), "accepted");
  EXPECT_EQ(RefusalOf(Tensor(Storage("0", 6), 6, {0, 3}, {3, 1})), "accepted");
  EXPECT_EQ(RefusalOf(Tensor(Storage("0", 6), 1, {2, 3}, {2, 1})), "accepted");
  for (const std::string& tensor :
       {Tensor(Storage("0", 6), 1, {2, 3}, {3, 1}), Tensor(Storage("0", 6), 0, {2, 3}, {4, 1}),
        Tensor(Storage("0", 6), 7, {0}, {1}), Tensor(Storage("0", 6), 0, {7}, {1})}) {
    EXPECT_THAT(RefusalOf(tensor), HasSubstr("reaches beyond its storage"));
  }
  const int32_t most = std::numeric_limits<int32_t>::max();
  EXPECT_THAT(RefusalOf(Tensor(Storage("0", 6), 0, {most, most, most}, {most, most, most})),
              HasSubstr("past 63 bits"));
  EXPECT_THAT(RefusalOf(Tensor(Storage("0", 5), 0, {2}, {1})), HasSubstr("another size"));
  EXPECT_THAT(RefusalOf(Tensor(Storage("0", -1), 0, {2}, {1})), HasSubstr("storage"));
  EXPECT_THAT(RefusalOf(Tensor(Storage("1", 6), 0, {2}, {1})), HasSubstr("not there"));
  EXPECT_THAT(RefusalOf(Tensor(Storage("0", 6), -1, {2}, {1})), HasSubstr("another form"));
  EXPECT_THAT(RefusalOf(Tensor(Storage("0", 6), 0, {2}, {-1})), HasSubstr("shape"));
  EXPECT_THAT(RefusalOf(Tensor(Storage("0", 6), 0, {2, 1}, {1})), HasSubstr("strides"));
  EXPECT_THAT(
      RefusalOf(Tensor(Storage("0", 6), 0, std::vector<int32_t>(9, 1), std::vector<int32_t>(9, 1))),
      HasSubstr("too many dimensions"));
}

// One number, read a million times, would fill the memory.
TEST(TorchWeightsTest, ASmallFileBecomesNoLargeOne) {
  EXPECT_EQ(RefusalOf(Tensor(Storage("0", 6), 0, {40}, {0})), "accepted");
  EXPECT_THAT(RefusalOf(Tensor(Storage("0", 6), 0, {1'000'000, 1'000}, {0, 0})),
              HasSubstr("bytes together"));
}

TEST(TorchWeightsTest, APickleThatMakesNoSenseIsRefused) {
  const auto refusal = [](const std::string& pickle) {
    const Result<std::vector<PickledTensor>> read = ReadTensorPickle(pickle);
    return read.ok() ? "accepted" : read.status().ToString();
  };
  EXPECT_EQ(refusal(kProtocol2 + "}."), "accepted");
  EXPECT_THAT(refusal(""), HasSubstr("ends early"));
  EXPECT_THAT(refusal("\x80"), HasSubstr("ends early"));
  for (const std::string steps : {"",
                                  "}",
                                  ".",
                                  "}}.",
                                  "t.",
                                  "R.",
                                  "}s.",
                                  "(u.",
                                  "q",
                                  "qA.",
                                  "hA.",
                                  "(qA.",
                                  "X\xFF\xFF\xFF\xFF.",
                                  "(tQ.",
                                  "NQ.",
                                  "\x8A\x09\x31\x32\x33\x34\x35\x36\x37\x38\x39.",
                                  "NNR.",
                                  ")a.",
                                  "]}u.",
                                  "}NNs.",
                                  "ctorch\nFloatStorage\n)R.",
                                  "ccollections\nOrderedDict\nN\x85R.",
                                  "}.}",
                                  "cno line"}) {
    EXPECT_THAT(refusal(kProtocol2 + steps), HasSubstr("INVALID_ARGUMENT")) << steps;
  }
  EXPECT_THAT(refusal(kProtocol2 + "o."), AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr("111")));
  EXPECT_THAT(refusal(kProtocol2 + "cbuiltins\neval\n."), HasSubstr("builtins.eval"));
  EXPECT_LT(refusal(kProtocol2 + "c" + std::string(5000, 'x') + "\n\n.").size(), 400u);
}

TEST(TorchWeightsTest, APicklesStepsAreBounded) {
  const std::string steps(static_cast<size_t>(kPickleStepsMax) + 1, 'N');
  EXPECT_THAT(ReadTensorPickle(kProtocol2 + steps).status().message(), HasSubstr("steps"));
}

// Numbers of more than 32 bits, as torch writes them.
TEST(TorchWeightsTest, LongNumbers) {
  const std::string pickle =
      Pickle(Tensor("(" + Text("storage") + "ctorch\nFloatStorage\n" + Text("0") + Text("cpu") +
                        "\x8A\x05" + std::string("\0\0\0\0\x01", 5) + "tQ",
                    0, {1}, {1}));
  EXPECT_EQ(ReadTensorPickle(pickle)->front().storage.num_elements, int64_t{1} << 32);
}

TEST(ZipEntriesTest, ArePiecesOfTheFile) {
  const std::string file = Zip({{"a", "one"}, {"b/c", ""}, {"d", "three"}});
  const auto entries = *ReadZipEntries(file);
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries.at("a"), "one");
  EXPECT_EQ(entries.at("b/c"), "");
  EXPECT_EQ(entries.at("d"), "three");
  EXPECT_GE(entries.at("d").data(), file.data());
  EXPECT_TRUE(ReadZipEntries(Zip({})).ok());
}

// Each byte of the file's records in turn: nothing outside of the file is read (the sanitizers
// look).
TEST(ZipEntriesTest, DamagedRecordsAreRefusedOrHarmless) {
  const std::string whole = Zip({{"a", "one"}, {"d", "three"}});
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const char byte : {'\0', '\x7F', '\xFF'}) {
      std::string damaged = whole;
      damaged[at] = byte;
      const auto entries = ReadZipEntries(damaged);
      if (!entries.ok()) continue;
      for (const auto& [name, bytes] : *entries) {
        ASSERT_LE(bytes.data() + bytes.size(), damaged.data() + damaged.size());
      }
    }
  }
  EXPECT_THAT(ReadZipEntries(Zip({{"a", "1"}, {"a", "2"}})).status().message(),
              HasSubstr("there twice"));
}

TEST(StridedTensorsTest, ANameTwiceIsRefused) {
  const float one = 1.0f;
  const StridedTensor tensor{.name = "x",
                             .dtype = "F32",
                             .element_bytes = 4,
                             .shape = {1},
                             .strides = {1},
                             .data = reinterpret_cast<const char*>(&one)};
  EXPECT_TRUE(WriteStridedTensors({tensor}, 100).ok());
  EXPECT_THAT(WriteStridedTensors({tensor, tensor}, 100).status().message(), HasSubstr("twice"));
  EXPECT_THAT(WriteStridedTensors({tensor}, 3).status().message(), HasSubstr("more than 3 bytes"));
}

}  // namespace torch_weights_test
}  // namespace graft
