#include "adapters/merged_file.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <utility>

#include "adapters/peft_modules.h"
#include "base/file.h"
#include "model/family.h"
#include "model/lora_module.h"
#include "model/tensor_names.h"
#include "model/tensor_rows.h"
#include "model/wrapper.h"

namespace graft {
namespace {

constexpr int64_t kBlockBytes = int64_t{16} << 20;
constexpr int64_t kRowsOfTask = 8;

// An adapter's rows with A and B as they are summed.
struct WideRows {
  int64_t row = 0;
  int64_t num_rows = 0;
  int64_t rank = 0;
  float scale = 0.0f;
  std::vector<float> a;  // [rank, in]
  std::vector<float> b;  // [rows, rank]
};

std::vector<float> Widened(const TensorView& tensor, bool transposes) {
  std::vector<float> values(static_cast<size_t>(tensor.num_elements()));
  const int64_t num_rows = tensor.shape[0], columns = tensor.shape[1];
  DispatchDType(tensor.dtype, [&]<typename T>() {
    for (int64_t i = 0; i < num_rows * columns; ++i) {
      const int64_t to = transposes ? i % columns * num_rows + i / columns : i;
      values[static_cast<size_t>(to)] = ToFloat(LoadElement<T>(tensor.data, i));
    }
  });
  return values;
}

// The transpose of B A is that of A times that of B.
WideRows WideRowsOf(const AddedRows& rows) {
  const TensorView& a = rows.transposed ? rows.b : rows.a;
  const TensorView& b = rows.transposed ? rows.a : rows.b;
  return {.row = rows.row,
          .num_rows = b.shape[rows.transposed ? 1 : 0],
          .rank = rows.a.shape[0],
          .scale = rows.scale,
          .a = Widened(a, rows.transposed),
          .b = Widened(b, rows.transposed)};
}

// One weight with what is added to it.
class MergedWeight {
 public:
  MergedWeight(const TensorView& weight, const std::vector<AddedRows>& added) : weight_(weight) {
    for (const AddedRows& rows : added) added_.push_back(WideRowsOf(rows));
  }

  int64_t row_bytes() const { return weight_.shape[1] * DTypeBytes(weight_.dtype); }

  // Rows from `begin` to `end` in the weight's dtype; false where a value is not finite in it.
  bool Fill(int64_t begin, int64_t end, char* out, ThreadPool& threads) const {
    std::atomic<bool> finite{true};
    DispatchDType(weight_.dtype, [&]<typename T>() {
      threads.ParallelFor(end - begin, kRowsOfTask, [&](int64_t first, int64_t last) {
        std::vector<float> sum(static_cast<size_t>(weight_.shape[1]));
        for (int64_t i = first; i < last; ++i) {
          if (!FillRow<T>(begin + i, sum.data(), out + i * row_bytes())) finite = false;
        }
      });
    });
    return finite;
  }

 private:
  // `sum` has room for a row of B A.
  template <typename T>
  bool FillRow(int64_t row, float* sum, char* out) const {
    const int64_t in = weight_.shape[1];
    const char* const from = static_cast<const char*>(weight_.data) + row * row_bytes();
    const auto rows = std::ranges::find_if(added_, [row](const WideRows& one) {
      return row >= one.row && row < one.row + one.num_rows;
    });
    if (rows == added_.end()) {
      std::memcpy(out, from, static_cast<size_t>(row_bytes()));
      return true;
    }
    SumRow(*rows, row - rows->row, in, sum);
    bool finite = true;
    for (int64_t i = 0; i < in; ++i) {
      const T value = FromFloat<T>(ToFloat(LoadElement<T>(from, i)) + rows->scale * sum[i]);
      std::memcpy(out + i * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
      finite &= IsFinite(value);
    }
    return finite;
  }

  static void SumRow(const WideRows& rows, int64_t row, int64_t in, float* sum) {
    std::fill(sum, sum + in, 0.0f);
    for (int64_t j = 0; j < rows.rank; ++j) {
      const float b = rows.b[static_cast<size_t>(row * rows.rank + j)];
      const float* const a = rows.a.data() + j * in;
      for (int64_t i = 0; i < in; ++i) sum[i] += b * a[i];
    }
  }

  const TensorView weight_;
  std::vector<WideRows> added_;
};

// Why the weight of that name cannot be summed with the adapter's product; OK: it can.
Status CheckWeight(const SafetensorsSet& base, const std::string& name,
                   const LoraModuleShape& shape, bool transposed) {
  ASSIGN_OR_RETURN(const TensorView weight, base.Tensor(name));
  std::vector<int64_t> wanted = {shape.out, shape.in};
  if (transposed) std::ranges::reverse(wanted);
  if (weight.shape == wanted) return OkStatus();
  return InvalidArgumentError("tensor " + name + " has shape " + SizesText(weight.shape) +
                              ", config.json asks for " + SizesText(wanted));
}

// The whole weight, of families that store it transposed, or its rows head by head: B's rows lie in
// the adapter's file as they lie there.
AddedRows WholeWeight(const ModelConfig& model, const LoraTensors& tensors, float scale) {
  return {0, tensors.a, tensors.file_b, scale, FamilyOf(model.architecture).transposes_weights};
}

bool AddsWholeWeights(const ModelConfig& model, const LoraTarget& target) {
  if (model.is_head(target.layer)) return false;
  return FamilyOf(model.architecture).transposes_weights ||
         StoredProjectionOf(model, target.module).by_heads;
}

Status WriteMerged(const std::string& name, const TensorView& weight,
                   const std::vector<AddedRows>& added, ThreadPool& threads, NewFile& to) {
  const MergedWeight merged(weight, added);
  const int64_t num_rows = weight.shape[0];
  const int64_t block_rows = std::max(kRowsOfTask, kBlockBytes / merged.row_bytes());
  std::vector<char> block(static_cast<size_t>(std::min(block_rows, num_rows) * merged.row_bytes()));
  for (int64_t begin = 0; begin < num_rows; begin += block_rows) {
    const int64_t end = std::min(begin + block_rows, num_rows);
    if (!merged.Fill(begin, end, block.data(), threads)) {
      return InvalidArgumentError("the sum for tensor " + name + " is not finite in " +
                                  std::string(DTypeName(weight.dtype)) +
                                  ": the base's file is damaged, or the adapter's product too "
                                  "large for it");
    }
    to.Write(block.data(), static_cast<size_t>((end - begin) * merged.row_bytes()));
  }
  return OkStatus();
}

}  // namespace

Result<AddedToWeights> MatchAddedWeights(const SafetensorsFile& file, const PeftConfig& peft,
                                         const ModelConfig& model, const SafetensorsSet& base) {
  ASSIGN_OR_RETURN(const std::vector<LoraTarget> targets, LoraTargetsOf(file, peft, model));
  ASSIGN_OR_RETURN(const std::vector<LoraTensors> tensors,
                   MatchLoraTensors(file, targets, peft, model));
  std::map<std::string, std::string> stored;
  if (model.wrapper != nullptr) {
    ASSIGN_OR_RETURN(stored, StoredTextNames(base.Names()));
  }
  const TensorNames names(model, [&](const std::string& name) { return base.Contains(name); });
  AddedToWeights added;
  for (size_t i = 0; i < targets.size(); ++i) {
    const LoraTarget& target = targets[i];
    std::string name = names.WeightOf(LoraModulePath(model, target.layer, target.module));
    if (stored.contains(name)) name = stored[name];
    std::vector<AddedRows>& rows = added[name];
    if (model.is_head(target.layer) && model.tied_embeddings) {
      return UnimplementedError(
          "the adapter changes " + LoraModulePath(model, target.layer, target.module) +
          ", which is the embedding in this model (tie_word_embeddings): merged weights would "
          "change that, too. Serve it with graft serve --adapters");
    }
    const bool is_whole = AddsWholeWeights(model, target);
    if (rows.empty()) {
      const LoraModuleShape shape = ShapeOfStoredWeight(model, target.layer, target.module);
      const AddedRows whole = WholeWeight(model, tensors[i], target.scale);
      RETURN_IF_ERROR(CheckWeight(base, name, shape, is_whole && whole.transposed));
      if (is_whole) rows.push_back(whole);
    }
    if (is_whole) continue;  // of the modules beside it, too
    rows.push_back({RowInStoredWeight(model, target.layer, target.module), tensors[i].a,
                    tensors[i].b, target.scale});
  }
  return added;
}

Status WriteMergedFile(const SafetensorsSet& base, const SafetensorsFile& file,
                       const AddedToWeights& added, NewFile& to, ThreadPool& threads,
                       const MergeProgress& progress) {
  to.Write(file.header().data(), file.header().size());
  for (const std::string& name : file.NamesInOrder()) {
    RETURN_IF_ERROR(file.CheckNotCut());
    ASSIGN_OR_RETURN(const std::span<const char> bytes, file.Bytes(name));
    const auto found = added.find(name);
    if (found == added.end() || base.FileOf(name) != &file) {
      to.Write(bytes.data(), bytes.size());
    } else {
      ASSIGN_OR_RETURN(const TensorView weight, file.Tensor(name));
      RETURN_IF_ERROR(WriteMerged(name, weight, found->second, threads, to));
    }
    if (!to.status().ok()) break;
    if (progress) progress(name, static_cast<int64_t>(bytes.size()));
  }
  RETURN_IF_ERROR(file.CheckNotCut());
  return to.Finish();
}

}  // namespace graft
