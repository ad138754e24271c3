#include "profile/synthetic_adapter.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "adapters/peft_config.h"
#include "base/json.h"
#include "base/random.h"
#include "model/safetensors.h"
#include "model/safetensors_writer.h"

namespace graft {
namespace {

// The header's entries and the data's size, in the order in which PEFT lists modules.
struct Layout {
  Json header = Json::object();
  int64_t bytes = 0;

  void Add(const std::string& name, int64_t rows, int64_t columns) {
    const int64_t end = bytes + rows * columns * DTypeBytes(DType::kBF16);
    header[name] = {{"dtype", "BF16"}, {"shape", {rows, columns}}, {"data_offsets", {bytes, end}}};
    bytes = end;
  }
};

// The checkpoint's projections that hold any of the modules.
std::vector<StoredProjection> ProjectionsOf(const ModelConfig& model,
                                            std::span<const LoraModule> modules) {
  std::vector<StoredProjection> projections;
  for (const StoredProjection& projection : StoredProjections(model)) {
    const bool is_asked = std::ranges::any_of(modules, [&](LoraModule module) {
      const bool is_there = static_cast<size_t>(module) < model.lora_targets.size();
      return is_there && StoredProjectionOf(model, module).first == projection.first;
    });
    if (is_asked) projections.push_back(projection);
  }
  return projections;
}

Layout LayOut(const ModelConfig& model, int32_t rank, std::span<const LoraModule> modules) {
  Layout layout;
  for (int32_t layer = 0; layer < model.num_layers; ++layer) {
    for (const StoredProjection& projection : ProjectionsOf(model, modules)) {
      const LoraModule module = projection.first;
      const LoraModuleShape shape = ShapeOfStoredProjection(model, projection);
      layout.Add(LoraTensorName(model, layer, module, LoraSide::kA), rank, shape.in);
      layout.Add(LoraTensorName(model, layer, module, LoraSide::kB), shape.out, rank);
    }
  }
  return layout;
}

std::string MakeFile(const Layout& layout, uint64_t seed) {
  std::string file = SafetensorsStart(layout.header.dump());
  const size_t data_begin = file.size();
  file.resize(data_begin + static_cast<size_t>(layout.bytes));
  Random random(seed);
  // Four bf16 values a draw: random sign and mantissa, exponents that keep every value below 2^-5.
  for (size_t i = data_begin; i + 8 <= file.size(); i += 8) {
    const uint64_t bits = (random.Bits() & 0x807f807f807f807fULL) | 0x3d003d003d003d00ULL;
    std::memcpy(file.data() + i, &bits, 8);
  }
  return file;
}

// adapter_config.json of it.
std::string ConfigOf(const ModelConfig& model, int32_t rank, std::span<const LoraModule> modules) {
  Json names = Json::array();
  for (const StoredProjection& projection : ProjectionsOf(model, modules)) {
    names.push_back(NameOfStored(model, projection));
  }
  const Json config = {
      {"peft_type", "LORA"}, {"r", rank}, {"lora_alpha", rank}, {"target_modules", names}};
  return config.dump();
}

}  // namespace

Result<LoraWeights> MakeSyntheticAdapter(const ModelConfig& model, int32_t rank, DType dtype,
                                         uint64_t seed, std::span<const LoraModule> modules) {
  ASSIGN_OR_RETURN(const PeftConfig peft, ParsePeftConfig(ConfigOf(model, rank, modules)));
  ASSIGN_OR_RETURN(
      const SafetensorsFile file,
      SafetensorsFile::FromBytes(MakeFile(LayOut(model, rank, modules), seed), "synthetic"));
  return LoraWeights::Load(file, peft, model, dtype);
}

Status WriteSyntheticAdapter(const std::string& path, const ModelConfig& model, int32_t rank,
                             uint64_t seed, std::span<const LoraModule> modules) {
  std::error_code error;  // the files say why they cannot be written
  std::filesystem::create_directories(path, error);
  std::ofstream(path + "/adapter_config.json") << ConfigOf(model, rank, modules);
  std::ofstream weights(path + "/adapter_model.safetensors", std::ios::binary);
  weights << MakeFile(LayOut(model, rank, modules), seed);
  weights.close();
  if (weights.fail()) return UnavailableError("cannot write " + path);
  return OkStatus();
}

int64_t SyntheticAdapterBytes(const ModelConfig& model, int32_t rank, DType dtype,
                              std::span<const LoraModule> modules) {
  int64_t row_bytes = 0;
  int64_t num_rows = 0;  // of rank 1
  for (const StoredProjection& projection : ProjectionsOf(model, modules)) {
    row_bytes += LoraRowBytes(ShapeOfLoraModule(model, projection.first).in, dtype);
    for (int i = 0; i < projection.num_modules; ++i) {
      const auto module = static_cast<LoraModule>(static_cast<int>(projection.first) + i);
      row_bytes += LoraRowBytes(ShapeOfLoraModule(model, module).out, dtype);
    }
    num_rows += 1 + projection.num_modules;
  }
  const int64_t layer_bytes = rank * (row_bytes + num_rows * int64_t{sizeof(void*)}) +
                              model.num_lora_targets() * int64_t{sizeof(LoraMatrix)};
  return model.num_layers * layer_bytes + kHeadBlocksMax * int64_t{sizeof(LoraMatrix)};
}

int64_t SyntheticAdaptersBytes(const ModelConfig& model, int32_t count,
                               const std::vector<int>& ranks, DType dtype,
                               std::span<const LoraModule> modules) {
  int64_t bytes = 0;
  for (int32_t i = 0; i < count; ++i) {
    bytes +=
        SyntheticAdapterBytes(model, ranks[static_cast<size_t>(i) % ranks.size()], dtype, modules);
  }
  return bytes;
}

Result<std::vector<LoraWeights>> MakeSyntheticAdapters(const ModelConfig& model, int32_t count,
                                                       const std::vector<int>& ranks, DType dtype,
                                                       uint64_t seed, ThreadPool& threads,
                                                       std::span<const LoraModule> modules) {
  std::vector<std::optional<Result<LoraWeights>>> made(count);
  threads.ParallelFor(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      made[i] = MakeSyntheticAdapter(model, ranks[i % ranks.size()], dtype,
                                     seed + static_cast<uint64_t>(i), modules);
    }
  });
  std::vector<LoraWeights> adapters;
  for (std::optional<Result<LoraWeights>>& one : made) {
    if (!one->ok()) return one->status();
    adapters.push_back(std::move(**one));
  }
  return adapters;
}

}  // namespace graft
