#include "model/code_files.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/json.h"
#include "kernels/gemm/code_source.h"
#include "model/family.h"
#include "model/lora_module.h"
#include "model/safetensors_writer.h"
#include "model/tensor_rows.h"
#include "model/wrapper.h"

namespace graft {
namespace {

constexpr int64_t kRowsOfTask = 8;
constexpr int64_t kGroupMax = 128;
constexpr int64_t kNf4Block = 64;

// A tensor of the new file, before it is there.
struct NewTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  int64_t bytes = 0;
};

std::string Nf4StateText(int64_t n, int64_t k, std::string_view dtype) {
  const OrderedJson state = {
      {"quant_type", "nf4"}, {"blocksize", kNf4Block}, {"dtype", dtype}, {"shape", {n, k}}};
  return state.dump();
}

std::string_view DTypeInState(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "float32";
    case DType::kBF16:
      return "bfloat16";
    case DType::kF16:
      return "float16";
  }
  __builtin_unreachable();
}

// A weight as codes and scales, row after row.
struct CodedWeight {
  std::vector<uint8_t> codes;     // [n, k]
  std::vector<CodeScale> scales;  // [n, groups]
};

CodedWeight RoundWeight(TensorView weight, const WeightFormat& format, ThreadPool& threads) {
  // A file may put elements at odd addresses.
  std::vector<float> aligned;
  if (std::bit_cast<uintptr_t>(weight.data) % static_cast<uint64_t>(DTypeBytes(weight.dtype))) {
    aligned.resize(static_cast<size_t>(weight.bytes()) / sizeof(float) + 1);
    std::memcpy(aligned.data(), weight.data, static_cast<size_t>(weight.bytes()));
    weight.data = aligned.data();
  }
  const int64_t n = weight.shape[0], k = weight.shape[1], groups = NumScales(format, k);
  const StackedTensors numbers({&weight, 1});
  const RoundedCodes source(numbers, format);
  CodedWeight coded{.codes = std::vector<uint8_t>(static_cast<size_t>(n * k)),
                    .scales = std::vector<CodeScale>(static_cast<size_t>(n * groups))};
  threads.ParallelFor(n, kRowsOfTask, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      source.ReadRow(row, coded.codes.data() + row * k, coded.scales.data() + row * groups);
    }
  });
  return coded;
}

bool HasFiniteScales(const CodedWeight& coded) {
  return std::ranges::all_of(coded.scales,
                             [](const CodeScale& scale) { return std::isfinite(scale.scale); });
}

// MODULE.weight of these codes as a library's tensors.
class CodesWriter {
 public:
  CodesWriter(const WeightFormat& format, std::string_view weight, const TensorView& view)
      : format_(format),
        module_(weight.substr(0, weight.size() - std::string_view(".weight").size())),
        n_(view.shape[0]),
        k_(view.shape[1]),
        groups_(NumScales(format, k_)),
        state_(Nf4StateText(n_, k_, DTypeInState(view.dtype))) {}

  // In the order in which Write writes them.
  std::vector<NewTensor> Tensors() const {
    if (format_.codes == WeightCodes::kNormal4) {
      const auto state_bytes = static_cast<int64_t>(state_.size());
      return {
          {module_ + ".weight", "U8", {n_ * k_ / 2, 1}, n_ * k_ / 2},
          {module_ + ".weight.absmax", "F32", {n_ * groups_}, n_ * groups_ * 4},
          {module_ + ".weight.quant_map", "F32", {16}, 64},
          {module_ + ".weight.quant_state.bitsandbytes__nf4", "U8", {state_bytes}, state_bytes}};
    }
    const int64_t words = k_ * format_.bits / 32;
    return {{module_ + ".weight_packed", "I32", {n_, words}, n_ * words * 4},
            {module_ + ".weight_scale", "BF16", {n_, groups_}, n_ * groups_ * 2},
            {module_ + ".weight_shape", "I64", {2}, 16}};
  }

  void Write(const CodedWeight& coded, NewFile& to) const {
    format_.codes == WeightCodes::kNormal4 ? WriteNormal4(coded, to) : WriteIntegers(coded, to);
  }

 private:
  template <typename T>
  static void WriteAll(const std::vector<T>& values, NewFile& to) {
    to.Write(values.data(), values.size() * sizeof(T));
  }

  // The first code is in the high half of a byte.
  void WriteNormal4(const CodedWeight& coded, NewFile& to) const {
    std::vector<uint8_t> bytes(coded.codes.size() / 2);
    for (size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<uint8_t>(coded.codes[2 * i] << 4 | coded.codes[2 * i + 1]);
    }
    WriteAll(bytes, to);
    std::vector<float> scales;
    for (const CodeScale& scale : coded.scales) scales.push_back(scale.scale);
    WriteAll(scales, to);
    to.Write(kNormal4Numbers, sizeof(kNormal4Numbers));
    to.Write(state_.data(), state_.size());
  }

  // The first code is in the lowest bits of a word.
  void WriteIntegers(const CodedWeight& coded, NewFile& to) const {
    const auto per_word = static_cast<size_t>(32 / format_.bits);
    std::vector<uint32_t> words(coded.codes.size() / per_word);
    for (size_t i = 0; i < coded.codes.size(); ++i) {
      words[i / per_word] |= uint32_t{coded.codes[i]}
                             << (i % per_word * static_cast<size_t>(format_.bits));
    }
    WriteAll(words, to);
    std::vector<Bfloat16> scales;
    for (const CodeScale& scale : coded.scales) {
      scales.push_back(FromFloat<Bfloat16>(scale.scale));
    }
    WriteAll(scales, to);
    const int64_t shape[] = {n_, k_};
    to.Write(shape, sizeof(shape));
  }

  const WeightFormat format_;
  const std::string module_;
  const int64_t n_, k_, groups_;
  const std::string state_;
};

bool BecomesCodes(const SafetensorsSet& base, const SafetensorsFile& file, const CodesOfFiles& plan,
                  const std::string& name) {
  return plan.weights.contains(name) && base.FileOf(name) == &file;
}

// The new file's tensors in their order, and the header that says so.
struct NewHeader {
  std::vector<std::string> names;
  std::string start;  // of the file
  int64_t data_bytes = 0;

  void Add(const NewTensor& tensor, OrderedJson& json) {
    names.push_back(tensor.name);
    json[tensor.name] = {{"dtype", tensor.dtype},
                         {"shape", tensor.shape},
                         {"data_offsets", {data_bytes, data_bytes + tensor.bytes}}};
    data_bytes += tensor.bytes;
  }
};

Result<TensorView> PlainWeight(const SafetensorsFile& file, const std::string& name) {
  ASSIGN_OR_RETURN(TensorView weight, file.Tensor(name));
  if (weight.shape.size() == 2) return weight;
  return InvalidArgumentError("tensor " + name + " has shape " + SizesText(weight.shape) +
                              ", which is no matrix");
}

Result<NewHeader> MakeHeader(const SafetensorsSet& base, const SafetensorsFile& file,
                             const CodesOfFiles& plan) {
  NewHeader header;
  OrderedJson json = {{"__metadata__", {{"format", "pt"}}}};
  for (const std::string& name : file.NamesInOrder()) {
    if (BecomesCodes(base, file, plan, name)) {
      ASSIGN_OR_RETURN(const TensorView weight, PlainWeight(file, name));
      for (const NewTensor& tensor : CodesWriter(plan.format, name, weight).Tensors()) {
        header.Add(tensor, json);
      }
      continue;
    }
    const SafetensorsEntry& entry = file.entries().find(name)->second;
    header.Add({name, entry.dtype, entry.shape, entry.end - entry.begin}, json);
  }
  header.start = SafetensorsStart(json.dump());
  return header;
}

// The first parts of the names of what a wrapper has beside its text.
std::set<std::string, std::less<>> TowersOf(const SafetensorsSet& files) {
  constexpr std::string_view kModel = "model.";
  std::set<std::string, std::less<>> towers;
  for (const std::string& name : files.Names()) {
    if (!IsOfTower(name)) continue;
    const size_t begin = name.starts_with(kModel) ? kModel.size() : 0;
    towers.insert(name.substr(begin, name.find('.', begin) - begin));
  }
  return towers;
}

}  // namespace

Result<CodesOfFiles> PlanCodesOfFiles(const ModelConfig& config, const SafetensorsSet& files,
                                      WrittenCodes codes) {
  const ModelFamily& family = FamilyOf(config.architecture);
  if (family.transposes_weights) {
    return UnimplementedError("weights that are stored [in, out], as those of " +
                              std::string(family.name) + " are, are not written as codes");
  }
  CodesOfFiles plan{.format = DType::kF32, .weights = {}, .head = std::string(family.paths.head)};
  std::map<std::string, std::string> stored;
  if (config.wrapper != nullptr) {
    ASSIGN_OR_RETURN(stored, StoredTextNames(files.Names()));
    plan.towers = TowersOf(files);
  }
  int64_t group = codes == WrittenCodes::kNf4 ? kNf4Block : kGroupMax;
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    for (const StoredProjection& projection : StoredProjections(config)) {
      const int64_t inputs = ShapeOfStoredProjection(config, projection).in;
      std::string name = LoraModulePath(config, layer, projection.first) + ".weight";
      if (const auto other = stored.find(name); other != stored.end()) name = other->second;
      if (!files.Contains(name)) {
        return InvalidArgumentError("tensor " + name +
                                    ", which is to become codes, is not in the files");
      }
      while (inputs % group != 0 && codes != WrittenCodes::kNf4 && group > 32) group /= 2;
      if (inputs % group != 0) {
        return InvalidArgumentError("tensor " + name + " has " + std::to_string(inputs) +
                                    " inputs, which groups of " + std::to_string(group) +
                                    " do not divide");
      }
      plan.weights.insert(name);
    }
  }
  const DType operands = config.dtype.value_or(DType::kBF16);
  plan.format = codes == WrittenCodes::kNf4
                    ? WeightFormat::Normal4(operands, group)
                    : WeightFormat::Integers(operands, codes == WrittenCodes::kInt8 ? 8 : 4, group);
  return plan;
}

Json QuantizationConfigOf(const CodesOfFiles& plan) {
  const WeightFormat& format = plan.format;
  Json left = Json::array({plan.head});
  if (format.codes == WeightCodes::kNormal4) {
    for (const std::string& tower : plan.towers) {
      left.push_back(tower);
      left.push_back("model." + tower);
    }
    return {{"quant_method", "bitsandbytes"},
            {"load_in_4bit", true},
            {"load_in_8bit", false},
            {"bnb_4bit_quant_type", "nf4"},
            {"bnb_4bit_use_double_quant", false},
            {"bnb_4bit_compute_dtype", "bfloat16"},
            {"bnb_4bit_quant_storage", "uint8"},
            {"llm_int8_skip_modules", left}};
  }
  if (!plan.towers.empty()) left.push_back("re:.*\\." + plan.head);
  for (const std::string& tower : plan.towers) left.push_back("re:(model\\.)?" + tower + "\\..*");
  const Json weights = {{"num_bits", format.bits}, {"type", "int"},
                        {"symmetric", true},       {"strategy", "group"},
                        {"dynamic", false},        {"group_size", format.scale_numbers}};
  const Json group = {{"targets", {"Linear"}},
                      {"weights", weights},
                      {"format", "pack-quantized"},
                      {"input_activations", nullptr},
                      {"output_activations", nullptr}};
  return {{"quant_method", "compressed-tensors"},
          {"format", "pack-quantized"},
          {"quantization_status", "compressed"},
          {"config_groups", {{"group_0", group}}},
          {"ignore", left}};
}

Result<int64_t> BytesOfCodesFile(const SafetensorsSet& base, const SafetensorsFile& file,
                                 const CodesOfFiles& plan) {
  ASSIGN_OR_RETURN(const NewHeader header, MakeHeader(base, file, plan));
  return header.data_bytes + static_cast<int64_t>(header.start.size());
}

Status WriteCodesFile(const SafetensorsSet& base, const SafetensorsFile& file,
                      const CodesOfFiles& plan, NewFile& to, ThreadPool& threads,
                      std::set<std::string>& written, const WriteProgress& progress) {
  ASSIGN_OR_RETURN(const NewHeader header, MakeHeader(base, file, plan));
  to.Write(header.start.data(), header.start.size());
  for (const std::string& name : file.NamesInOrder()) {
    RETURN_IF_ERROR(file.CheckNotCut());
    ASSIGN_OR_RETURN(const std::span<const char> bytes, file.Bytes(name));
    if (BecomesCodes(base, file, plan, name)) {
      ASSIGN_OR_RETURN(const TensorView weight, PlainWeight(file, name));
      const CodedWeight coded = RoundWeight(weight, plan.format, threads);
      if (!HasFiniteScales(coded)) {
        return DataLossError("tensor " + name + " holds NaN or Inf; the file is damaged");
      }
      CodesWriter(plan.format, name, weight).Write(coded, to);
    } else {
      to.Write(bytes.data(), bytes.size());
    }
    if (!to.status().ok()) break;
    if (progress) progress(name, static_cast<int64_t>(bytes.size()));
  }
  RETURN_IF_ERROR(file.CheckNotCut());
  written.insert(header.names.begin(), header.names.end());
  return to.Finish();
}

}  // namespace graft
