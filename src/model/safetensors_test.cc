#include "model/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/random.h"
#include "model/model_test_util.h"

namespace graft {
namespace safetensors_test {

using ::testing::AllOf;
using testing::BytesOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::SafetensorsBytes;
using testing::TempDir;
using testing::WithHeader;
using testing::WriteFile;

// How a file with this header and `data_bytes` of data is refused, as "CODE: message".
std::string Refusal(const std::string& header, size_t data_bytes = 0) {
  const Result<SafetensorsFile> file =
      SafetensorsFile::FromBytes(WithHeader(header, std::string(data_bytes, 'x')), "hostile");
  return file.ok() ? "accepted" : file.status().ToString();
}

TEST(SafetensorsTest, ReadsWhatWasWritten) {
  const std::vector<float> floats = {1.0f, -2.0f, 3.5f, 0.0f, 5.0f, 6.0f};
  const std::vector<int32_t> ints = {7, 8};
  const std::string bytes = SafetensorsBytes({{"b", "F32", {2, 3}, BytesOf(floats)},
                                              {"a", "I32", {2}, BytesOf(ints)},
                                              {"empty", "BF16", {0, 4}, ""},
                                              {"scalar", "F16", {}, std::string(2, '\0')}});
  const TempDir dir;
  WriteFile(dir.File("x.safetensors"), bytes);
  for (const bool mapped : {true, false}) {
    Result<SafetensorsFile> file = mapped ? SafetensorsFile::Open(dir.File("x.safetensors"))
                                          : SafetensorsFile::FromBytes(bytes, "memory");
    ASSERT_TRUE(file.ok()) << file.status().ToString();
    EXPECT_EQ(file->entries().size(), 4u);
    const Result<TensorView> b = file->Tensor("b");
    ASSERT_TRUE(b.ok());
    EXPECT_EQ(b->dtype, DType::kF32);
    EXPECT_THAT(b->shape, ElementsAre(2, 3));
    EXPECT_EQ(std::memcmp(b->data, floats.data(), sizeof(float) * 6), 0);
    EXPECT_EQ(file->Tensor("empty")->num_elements(), 0);
    EXPECT_EQ(file->Tensor("scalar")->num_elements(), 1);
    // Integer tensors are listed and can be read as bytes, but not as tensors.
    EXPECT_THAT(file->Tensor("a").status().ToString(),
                AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr("'a'"), HasSubstr("I32")));
    EXPECT_EQ(std::memcmp(file->Bytes("a")->data(), ints.data(), 8), 0);
    EXPECT_THAT(file->Tensor("c").status().ToString(),
                AllOf(HasSubstr("NOT_FOUND"), HasSubstr("'c'")));
  }
}

TEST(SafetensorsTest, ViewsOutliveMoves) {
  SafetensorsFile file =
      *SafetensorsFile::FromBytes(SafetensorsBytes({{"x", "F32", {1}, "abcd"}}), "memory");
  const SafetensorsFile moved = std::move(file);
  EXPECT_EQ(std::memcmp(moved.Tensor("x")->data, "abcd", 4), 0);
}

TEST(SafetensorsTest, Metadata) {
  const std::string header = R"({"__metadata__": {"format": "pt", "": "é"}})";
  const Result<SafetensorsFile> file = SafetensorsFile::FromBytes(WithHeader(header, ""), "memory");
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_EQ(file->metadata().at("format"), "pt");
  EXPECT_TRUE(file->entries().empty());
  EXPECT_THAT(Refusal(R"({"__metadata__": {"a": 1}})"), HasSubstr("a number"));
  EXPECT_THAT(Refusal(R"({"__metadata__": {"a": {}}})"), HasSubstr("an object"));
  EXPECT_THAT(Refusal(R"({"__metadata__": {"a": "1", "a": "2"}})"), HasSubstr("twice"));
  EXPECT_THAT(Refusal(R"({"__metadata__": {}, "__metadata__": {}})"), HasSubstr("twice"));
  EXPECT_THAT(Refusal(R"({"__metadata__": "pt"})"), HasSubstr("a string"));
}

TEST(SafetensorsTest, HeaderLength) {
  const auto refusal = [](const std::string& bytes) {
    return SafetensorsFile::FromBytes(bytes, "hostile").status().ToString();
  };
  EXPECT_THAT(refusal(""), AllOf(HasSubstr("hostile"), HasSubstr("too short")));
  EXPECT_THAT(refusal("1234567"), HasSubstr("too short"));
  EXPECT_THAT(refusal(std::string(8, '\0')), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal(std::string(8, '\xff')), HasSubstr("100 MiB"));
  std::string truncated = SafetensorsBytes({{"x", "F32", {1}, "abcd"}});
  EXPECT_THAT(refusal(truncated.substr(0, 20)), HasSubstr("truncated"));
  // Every truncated copy of a good file is refused.
  for (size_t n = 0; n < truncated.size(); ++n) {
    EXPECT_FALSE(SafetensorsFile::FromBytes(truncated.substr(0, n), "t").ok()) << n;
  }
  EXPECT_THAT(refusal(truncated + "y"), HasSubstr("after the last tensor"));
  EXPECT_THAT(refusal("version https://git-lfs.github.com/spec/v1\n"), HasSubstr("LFS pointer"));
}

TEST(SafetensorsTest, HeaderGrammar) {
  for (const char* header :
       {"",
        "[]",
        "null",
        "3",
        "\"x\"",
        "{",
        R"({"x":1})",
        R"({"x":[]})",
        R"({"x":null})",
        R"({"x":{}})",
        R"({"":{}})",
        R"({"x":{"dtype":"F32"}})",
        R"({"x":{"dtype":"F32","shape":[0],"data_offsets":[0]}})",
        R"({"x":{"dtype":"F32","shape":[0],"data_offsets":[0,0,0]}})",
        R"({"x":{"dtype":"F32","shape":[0],"data_offsets":[0,0],"extra":1}})",
        R"({"x":{"dtype":"F32","dtype":"F32","shape":[0],"data_offsets":[0,0]}})",
        R"({"x":{"dtype":3,"shape":[0],"data_offsets":[0,0]}})",
        R"({"x":{"dtype":"F32","shape":0,"data_offsets":[0,0]}})",
        R"({"x":{"dtype":"F32","shape":["0"],"data_offsets":[0,0]}})",
        R"({"x":{"dtype":"F32","shape":[[0]],"data_offsets":[0,0]}})",
        R"({"x":{"dtype":"F32","shape":[0.0],"data_offsets":[0,0]}})",
        R"({"x":{"dtype":"F32","shape":[-1],"data_offsets":[0,0]}})",
        R"({"x":{"dtype":"F32","shape":[true],"data_offsets":[0,0]}})",
        R"({"x":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}} trailing)",
        "{\"\xff\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}"}) {
    EXPECT_THAT(Refusal(header), HasSubstr("INVALID_ARGUMENT")) << header;
  }
  const std::string good = R"("dtype":"F32","shape":[0],"data_offsets":[0,0])";
  EXPECT_EQ(Refusal("{\"x\":{" + good + "}}   \n "), "accepted");  // padded, as some writers do
  EXPECT_THAT(Refusal("{\"x\":{" + good + "},\"x\":{" + good + "}}"),
              AllOf(HasSubstr("'x'"), HasSubstr("twice")));
  EXPECT_THAT(Refusal(R"({"x":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,0],"data_offsets":[0,0]}})"),
              HasSubstr("8 dimensions"));
  // Deep nesting is refused at the first level, without recursion.
  EXPECT_THAT(Refusal(std::string(1 << 20, '[')), HasSubstr("a list"));
}

TEST(SafetensorsTest, OffsetsAndShapes) {
  const auto entry = [](const std::string& name, const std::string& dtype, const std::string& shape,
                        const std::string& offsets) {
    return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + shape +
           "],\"data_offsets\":[" + offsets + "]}";
  };
  const auto one = [&](const std::string& dtype, const std::string& shape,
                       const std::string& offsets, size_t data_bytes) {
    return Refusal("{" + entry("x", dtype, shape, offsets) + "}", data_bytes);
  };
  EXPECT_EQ(one("F32", "2", "0,8", 8), "accepted");
  EXPECT_THAT(one("F32", "2", "0,8", 7), HasSubstr("lies at bytes"));
  EXPECT_THAT(one("F32", "2", "8,0", 8), HasSubstr("lies at bytes"));
  EXPECT_THAT(one("F32", "3", "0,8", 8), HasSubstr("shape and dtype need 12"));
  EXPECT_THAT(one("F32", "2", "0,9223372036854775807", 8), HasSubstr("lies at bytes"));
  EXPECT_THAT(one("F32", "2", "0,9223372036854775808", 8), HasSubstr("63 bits"));
  EXPECT_THAT(one("F32", "2", "0,99999999999999999999999", 8), HasSubstr("a fraction"));
  EXPECT_THAT(one("F32", "4611686018427387904,4", "0,8", 8), HasSubstr("63 bits"));
  EXPECT_THAT(one("F32", "9223372036854775807", "0,8", 8), HasSubstr("63 bits"));
  EXPECT_EQ(one("F4", "4", "0,2", 2), "accepted");
  EXPECT_THAT(one("F4", "3", "0,2", 2), HasSubstr("need"));
  EXPECT_THAT(one("F32", "1", "4,8", 8), HasSubstr("hole"));
  EXPECT_THAT(one("F32", "1", "0,4", 8), HasSubstr("4 bytes after the last tensor"));
  // The header may be in any order; the data must follow each other without gaps.
  EXPECT_EQ(
      Refusal("{" + entry("x", "F32", "1", "4,8") + "," + entry("y", "F32", "1", "0,4") + "}", 8),
      "accepted");
  EXPECT_THAT(
      Refusal("{" + entry("x", "F32", "1", "0,4") + "," + entry("y", "F32", "1", "2,6") + "}", 6),
      HasSubstr("overlaps"));
  EXPECT_THAT(
      Refusal("{" + entry("x", "F32", "1", "0,4") + "," + entry("y", "F32", "1", "0,4") + "}", 4),
      HasSubstr("overlaps"));
}

TEST(SafetensorsTest, UnknownDtypeIsListedAndRefusedWhenAsked) {
  const Result<SafetensorsFile> file = SafetensorsFile::FromBytes(
      SafetensorsBytes({{"x", "Q3_K", {5}, "ab"}, {"y", "BF16", {1}, "cd"}}), "memory");
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_EQ(file->entries().at("x").dtype, "Q3_K");
  EXPECT_THAT(file->Tensor("x").status().message(), HasSubstr("Q3_K"));
  EXPECT_TRUE(file->Tensor("y").ok());
}

// Any one byte of a good file may change: there is no crash, and what is accepted can be read.
TEST(SafetensorsTest, FlippedBytes) {
  const std::string good = SafetensorsBytes(
      {{"weight", "F32", {2, 2}, std::string(16, 'w')}, {"bias", "F32", {2}, std::string(8, 'b')}});
  Random random(1);
  int num_accepted = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string bytes = good;
    bytes[random.Below(bytes.size())] = static_cast<char>(random.Bits());
    const Result<SafetensorsFile> file = SafetensorsFile::FromBytes(std::move(bytes), "flipped");
    if (!file.ok()) continue;
    ++num_accepted;
    for (const auto& [name, entry] : file->entries()) {
      int sum = 0;
      const Result<std::span<const char>> bytes = file->Bytes(name);
      for (const char byte : *bytes) sum += byte;
      EXPECT_NE(sum, -1);
    }
  }
  EXPECT_GT(num_accepted, 0);
}

TEST(SafetensorsTest, OpenRefusesWhatIsNoFile) {
  const TempDir dir;
  EXPECT_EQ(SafetensorsFile::Open(dir.File("none")).status().code(), StatusCode::kNotFound);
  EXPECT_THAT(SafetensorsFile::Open(dir.path()).status().message(), HasSubstr("regular file"));
  WriteFile(dir.File("empty"), "");
  EXPECT_THAT(SafetensorsFile::Open(dir.File("empty")).status().message(), HasSubstr("is empty"));
  ASSERT_EQ(mkfifo(dir.File("fifo").c_str(), 0600), 0);
  EXPECT_THAT(SafetensorsFile::Open(dir.File("fifo")).status().message(),
              HasSubstr("regular file"));
}

class SafetensorsSetTest : public ::testing::Test {
 protected:
  SafetensorsSetTest() {
    WriteFile(dir_.File("1.safetensors"), SafetensorsBytes({{"a", "F32", {1}, "aaaa"}}));
    WriteFile(dir_.File("2.safetensors"),
              SafetensorsBytes({{"b", "F32", {1}, "bbbb"}, {"unlisted", "F32", {1}, "cccc"}}));
  }
  // Opens a folder with `weight_map` as its index.
  Result<SafetensorsSet> WithMap(const Json& weight_map) {
    WriteFile(dir_.File("model.safetensors.index.json"), Json{{"weight_map", weight_map}}.dump());
    return SafetensorsSet::Open(dir_.path());
  }
  std::string Refusal(const Json& weight_map) { return WithMap(weight_map).status().ToString(); }

  const TempDir dir_;
};

TEST_F(SafetensorsSetTest, Shards) {
  const Result<SafetensorsSet> set = WithMap({{"a", "1.safetensors"}, {"b", "2.safetensors"}});
  ASSERT_TRUE(set.ok()) << set.status().ToString();
  EXPECT_EQ(set->files().size(), 2u);
  EXPECT_THAT(set->Names(), ElementsAre("a", "b"));
  EXPECT_EQ(std::memcmp(set->Tensor("b")->data, "bbbb", 4), 0);
  EXPECT_FALSE(set->Contains("unlisted"));
  EXPECT_THAT(set->Tensor("z").status().ToString(),
              AllOf(HasSubstr("NOT_FOUND"), HasSubstr("'z'"), HasSubstr(dir_.path())));
}

TEST_F(SafetensorsSetTest, SingleFileFirst) {
  WriteFile(dir_.File("model.safetensors"), SafetensorsBytes({{"s", "F32", {1}, "ssss"}}));
  const Result<SafetensorsSet> set = WithMap({{"a", "1.safetensors"}});
  ASSERT_TRUE(set.ok());
  EXPECT_THAT(set->Names(), ElementsAre("s"));
}

TEST_F(SafetensorsSetTest, Refusals) {
  EXPECT_THAT(SafetensorsSet::Open(dir_.path()).status().message(),
              HasSubstr("neither model.safetensors nor"));
  EXPECT_THAT(Refusal({{"a", "missing.safetensors"}}),
              AllOf(HasSubstr("NOT_FOUND"), HasSubstr("missing.safetensors")));
  EXPECT_THAT(Refusal({{"b", "1.safetensors"}}),
              AllOf(HasSubstr("'b'"), HasSubstr("1.safetensors"), HasSubstr("does not hold it")));
  for (const std::string& escape :
       {std::string("../1.safetensors"), std::string("/etc/passwd"), std::string("sub/x"),
        std::string(".."), std::string("."), std::string(""), std::string("1\0x", 3)}) {
    EXPECT_THAT(Refusal({{"a", escape}}), HasSubstr("PERMISSION_DENIED")) << escape;
  }
  EXPECT_THAT(Refusal({{"a", 1}}), HasSubstr("no string"));
  EXPECT_THAT(Refusal(Json::array()), HasSubstr("weight_map"));
  WriteFile(dir_.File("2.safetensors"), "short");
  EXPECT_THAT(Refusal({{"b", "2.safetensors"}}),
              AllOf(HasSubstr("DATA_LOSS"), HasSubstr("2.safetensors")));
  WriteFile(dir_.File("model.safetensors.index.json"), "{");
  EXPECT_THAT(SafetensorsSet::Open(dir_.path()).status().message(), HasSubstr("index.json"));
}

}  // namespace safetensors_test
}  // namespace graft
