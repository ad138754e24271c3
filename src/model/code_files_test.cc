// Folders of codes that are written: the libraries that other programs read them by find in them
// what is read here.
#include "model/code_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/sha256.h"
#include "model/model_test_util.h"
#include "model/quantised_format.h"
#include "model/quantised_source.h"
#include "model/wrapper.h"

namespace graft {
namespace code_files_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::SourcePath;
using testing::TempDir;
using testing::WriteFile;

// A base of tests/goldens/quantised/written.json, written as codes.
class WrittenFolder {
 public:
  WrittenFolder(const std::string& base, WrittenCodes codes) {
    const ModelConfig config = *LoadModelConfig(base);
    const SafetensorsSet files = *SafetensorsSet::Open(base);
    const CodesOfFiles plan = std::move(*PlanCodesOfFiles(config, files, codes));
    Json index = {{"metadata", Json::object()}, {"weight_map", Json::object()}};
    for (const SafetensorsFile& file : files.files()) {
      const std::string name = std::filesystem::path(file.label()).filename().string();
      NewFile out(dir_.File(name), 0600);
      std::set<std::string> written;
      const Status status = WriteCodesFile(files, file, plan, out, threads_, written);
      CHECK(status.ok()) << status.ToString();
      for (const std::string& tensor : written) index["weight_map"][tensor] = name;
    }
    if (files.files().size() > 1) {
      WriteFile(dir_.File("model.safetensors.index.json"), index.dump());
    }
    Json json = *ParseJsonFile(base + "/config.json");
    json["quantization_config"] = QuantizationConfigOf(plan);
    WriteFile(dir_.File("config.json"), json.dump());
  }

  std::string path() const { return dir_.path(); }

 private:
  ThreadPool threads_{2};
  const TempDir dir_;
};

struct Case {
  std::string name;  // in written.json
  std::string base;
  WrittenCodes codes;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const auto& [name, base] :
       {std::pair("llama", "tests/goldens/llama"), std::pair("demo", "demo/base"),
        std::pair("phi3", "tests/goldens/phi3-partial-rotary"),
        std::pair("qwen2", "tests/goldens/qwen2")}) {
    cases.push_back({name + std::string(" int8"), base, WrittenCodes::kInt8});
    cases.push_back({name + std::string(" int4"), base, WrittenCodes::kInt4});
    cases.push_back({name + std::string(" nf4"), base, WrittenCodes::kNf4});
  }
  // Models that see; NF4's blocks do not divide these small ones.
  for (const std::string name : {"llava", "qwen2-vl", "smolvlm"}) {
    cases.push_back({name + " int8", "tests/goldens/" + name, WrittenCodes::kInt8});
    cases.push_back({name + " int4", "tests/goldens/" + name, WrittenCodes::kInt4});
  }
  return cases;
}

// The files are those that bitsandbytes and compressed-tensors read when read_written.py ran, and
// their numbers are those that the libraries made of them.
TEST(CodeFilesTest, TheLibrariesReadTheSameNumbers) {
  const Json all = *ParseJsonFile(SourcePath("tests/goldens/quantised/written.json"));
  ASSERT_EQ(all.size(), Cases().size());
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.name);
    const WrittenFolder folder(SourcePath(c.base), c.codes);
    const Json& expected = all.at(c.name);
    for (const auto& [name, hash] : expected["files"].items()) {
      EXPECT_EQ(Sha256Of(*ReadFile(folder.path() + "/" + name)), hash.get<std::string>()) << name;
    }
    const ModelConfig config = *LoadModelConfig(folder.path());
    const SafetensorsSet files = *SafetensorsSet::Open(folder.path());
    ThreadPool threads(2);
    Stream stream{Device{}, &threads};
    std::map<std::string, std::string> stored;
    if (config.wrapper != nullptr) stored = *StoredTextNames(files.Names());
    FileSource plain(files, stream, std::move(stored));
    const std::unique_ptr<QuantisedSource> source =
        std::move(*QuantisedSource::Make(plain, *config.quantisation, stream));
    size_t num_codes = 0;
    for (const auto& [of_class, row] : expected["numbers"].items()) {
      const std::string name =
          config.wrapper == nullptr ? of_class : TextNameOf(of_class).value_or(of_class);
      num_codes += source->IsCodes(name) ? 1 : 0;
      const Result<TensorView> numbers =
          source->Get(name, row["shape"].get<std::vector<int64_t>>());
      ASSERT_TRUE(numbers.ok()) << numbers.status().ToString();
      EXPECT_EQ(row["dtype"].get<std::string>(), "bfloat16");
      EXPECT_EQ(numbers->dtype, DType::kBF16);
      const char* const bytes = static_cast<const char*>(numbers->data);
      EXPECT_EQ(Sha256Of(std::string_view(bytes, static_cast<size_t>(numbers->bytes()))),
                row["sha256"].get<std::string>())
          << name;
      source->Release();
    }
    EXPECT_EQ(num_codes, expected["numbers"].size());
    size_t num_marks = 0;
    for (const std::string& name : files.Names()) {
      num_marks += name.ends_with(config.quantisation->format->mark) ? 1 : 0;
    }
    EXPECT_EQ(num_codes, num_marks) << "the library read all that have codes";
  }
}

TEST(CodeFilesTest, SizesThatGroupsDoNotDivideAreNamed) {
  const std::string folder = SourcePath("tests/goldens/llama");
  const SafetensorsSet files = *SafetensorsSet::Open(folder);
  ModelConfig config = *LoadModelConfig(folder);
  config.intermediate_size = 80;  // the groups of all become 16, which no kernel takes
  EXPECT_THAT(PlanCodesOfFiles(config, files, WrittenCodes::kInt4).status().ToString(),
              AllOf(HasSubstr("mlp.down_proj.weight has 80 inputs"), HasSubstr("groups of 32")));
  EXPECT_THAT(PlanCodesOfFiles(config, files, WrittenCodes::kNf4).status().ToString(),
              AllOf(HasSubstr("mlp.down_proj.weight has 80 inputs"), HasSubstr("groups of 64")));
  config.intermediate_size = 96;
  EXPECT_EQ(PlanCodesOfFiles(config, files, WrittenCodes::kInt8)->format.scale_numbers, 32);
  config.num_layers = 3;
  EXPECT_THAT(PlanCodesOfFiles(config, files, WrittenCodes::kInt8).status().ToString(),
              AllOf(HasSubstr("model.layers.2.self_attn.q_proj.weight"), HasSubstr("not in the")));
}

}  // namespace code_files_test
}  // namespace graft
