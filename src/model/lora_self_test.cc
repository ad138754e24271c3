#include "model/lora_self_test.h"

#include <cmath>
#include <string>
#include <vector>

#include "base/random.h"
#include "kernels/lora/lora.h"
#include "tensor/stream.h"

namespace graft {
namespace {

constexpr uint64_t kProbeSeed = 20240229;
// A share of the sum of all terms' absolute values. Float's accumulation was measured at 1e-7 of
// it.
constexpr double kTolerance = 2e-5;

// The columns that are compared: the first, the last, and one inside. A shift or a transposition
// changes one of them.
std::vector<int64_t> ProbedColumns(int64_t n) {
  std::vector<int64_t> columns = {0, n / 3, n - 1};
  return columns;
}

// Reads n elements of the file and rounds them to the served dtype, as serving must. Then only
// float's accumulation separates reference and kernels, and the bound can be tight. A bound with
// room for bf16's rounding would pass any adapter whose terms cancel, and in large layers they do.
void ReadServed(const TensorView& tensor, int64_t begin, int64_t n, DType served, float* out) {
  std::vector<float> rounded(n);  // large enough for any dtype
  const char* const source =
      static_cast<const char*>(tensor.data) + begin * DTypeBytes(tensor.dtype);
  ConvertElements(tensor.dtype, source, served, rounded.data(), n);
  ConvertElements(served, rounded.data(), DType::kF32, out, n);
}

struct Probe {
  std::vector<float> x;  // as the kernels see it: rounded to their dtype
  Buffer bytes;          // the same in that dtype

  Probe(int64_t n, DType dtype) : x(n), bytes(n * DTypeBytes(dtype)) {
    Random random(kProbeSeed);
    for (float& value : x) value = static_cast<float>(random.Normal());
    ConvertElements(DType::kF32, x.data(), dtype, bytes.data(), n);
    ConvertElements(dtype, bytes.data(), DType::kF32, x.data(), n);
  }
};

// Rows of `dtype`, widened to fp32, which the CPU's kernels take instead of fp16.
class WidenedRows {
 public:
  WidenedRows(const void* const* rows, int32_t rank, int64_t n, DType dtype)
      : values_(static_cast<size_t>(rank * n)) {
    for (int32_t j = 0; j < rank; ++j) {
      ConvertElements(dtype, rows[j], DType::kF32, values_.data() + j * n, n);
      rows_.push_back(values_.data() + j * n);
    }
  }
  const void* const* rows() const { return rows_.data(); }

 private:
  std::vector<float> values_;
  std::vector<const void*> rows_;
};

// Computes y = scale * B A x for one row by the kernels.
std::vector<float> RunKernels(const LoraMatrix& matrix, const LoraModuleShape& shape,
                              const Probe& probe, DType dtype, Stream& stream) {
  if (dtype == DType::kF16) {
    const WidenedRows a(matrix.a_rows, matrix.rank, shape.in, dtype);
    const WidenedRows b(matrix.b_rows, matrix.rank, shape.out, dtype);
    return RunKernels({a.rows(), b.rows(), matrix.rank, matrix.scale}, shape, probe, DType::kF32,
                      stream);
  }
  const LoraSegment segment{0, 1, 0};
  std::vector<float> h(matrix.rank);
  std::vector<float> y(shape.out, 0.0f);
  LoraArgs args;
  args.dtype = dtype;
  args.segments = &segment;
  args.num_segments = 1;
  args.matrices = &matrix;
  args.matrices_stride = 1;
  args.num_slices = 1;
  args.x = dtype == DType::kF32 ? static_cast<const void*>(probe.x.data()) : probe.bytes.data();
  args.x_stride = shape.in;
  args.k = shape.in;
  args.h = h.data();
  args.h_stride = matrix.rank;
  args.num_rows = 1;
  args.y = y.data();
  args.y_stride = shape.out;
  args.slice_n[0] = shape.out;
  LoraShrink(args, stream);
  LoraExpand(args, stream);
  return y;
}

struct Reference {
  double value = 0.0;      // row `column` of the merged delta, times x
  double magnitude = 0.0;  // sum of the terms' absolute values, with which rounding scales
};

Reference MergedRow(const LoraTensors& tensors, const LoraTarget& target, int64_t column,
                    const Probe& probe, DType served) {
  const auto in = static_cast<int64_t>(probe.x.size());
  std::vector<double> row(in, 0.0);
  std::vector<double> terms(in, 0.0);
  std::vector<float> a_row(in);
  std::vector<float> b_row(target.rank);
  ReadServed(tensors.b, column * target.rank, target.rank, served, b_row.data());
  for (int64_t r = 0; r < target.rank; ++r) {
    const double b = static_cast<double>(target.scale) * b_row[r];
    ReadServed(tensors.a, r * in, in, served, a_row.data());
    for (int64_t i = 0; i < in; ++i) {
      row[i] += b * a_row[i];
      terms[i] += std::abs(b * a_row[i]);
    }
  }
  Reference reference;
  for (int64_t i = 0; i < in; ++i) {
    reference.value += row[i] * probe.x[i];
    reference.magnitude += terms[i] * std::abs(probe.x[i]);
  }
  return reference;
}

Status CheckModule(const LoraTensors& tensors, const LoraTarget& target, const ModelConfig& model,
                   const LoraWeights& weights, Stream& stream) {
  const std::string path = LoraModulePath(model, target.layer, target.module);
  const LoraMatrix& matrix = weights.matrix(target.layer, target.module);
  if (matrix.rank != target.rank) {
    return InternalError("self-test of " + path + ": loaded with rank " +
                         std::to_string(matrix.rank) + ", the config gives " +
                         std::to_string(target.rank));
  }
  const LoraModuleShape shape = ShapeOfLoraModule(model, target.module);
  const Probe probe(shape.in, weights.dtype());
  const std::vector<float> y = RunKernels(matrix, shape, probe, weights.dtype(), stream);
  for (const int64_t column : ProbedColumns(shape.out)) {
    const Reference reference = MergedRow(tensors, target, column, probe, weights.dtype());
    if (!std::isfinite(y[column])) {
      return InvalidArgumentError("self-test of " + path + ": output " + std::to_string(column) +
                                  " of scale * B A x is no finite number; the adapter's weights or "
                                  "its scale are too large to compute with");
    }
    const double bound = kTolerance * reference.magnitude + 1e-30;
    if (!(std::abs(y[column] - reference.value) <= bound)) {
      return InternalError("self-test of " + path + ": output " + std::to_string(column) + " is " +
                           std::to_string(y[column]) + ", the merged weights give " +
                           std::to_string(reference.value));
    }
  }
  return OkStatus();
}

}  // namespace

Status SelfTestLora(const SafetensorsFile& file, const PeftConfig& peft, const ModelConfig& model,
                    const LoraWeights& weights) {
  // Takes ranks and scales from the config again, because the weights' own are under test.
  ASSIGN_OR_RETURN(const std::vector<LoraTarget> targets, ResolveLoraTargets(peft, model));
  if (targets.size() != weights.targets().size()) {
    return InternalError("self-test: loaded " + std::to_string(weights.targets().size()) +
                         " modules, the config targets " + std::to_string(targets.size()));
  }
  ASSIGN_OR_RETURN(const std::vector<LoraTensors> tensors,
                   MatchLoraTensors(file, targets, peft, model));
  ThreadPool caller_only(1);
  Stream stream{Device{}, &caller_only};
  for (size_t i = 0; i < targets.size(); ++i) {
    RETURN_IF_ERROR(CheckModule(tensors[i], targets[i], model, weights, stream));
  }
  return OkStatus();
}

}  // namespace graft
