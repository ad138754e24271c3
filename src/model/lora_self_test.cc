#include "model/lora_self_test.h"

#include <cmath>
#include <vector>

#include "base/random.h"
#include "kernels/lora/lora.h"
#include "tensor/stream.h"

namespace graft {
namespace {

constexpr uint64_t kProbeSeed = 20240229;

// The columns that are compared: the borders and one inside, which a shift or a transposition
// moves.
std::vector<int64_t> ProbedColumns(int64_t n) {
  std::vector<int64_t> columns = {0, n / 3, n - 1};
  return columns;
}

float Element(const TensorView& tensor, int64_t idx) {
  float value = 0.0f;
  ConvertElements(tensor.dtype,
                  static_cast<const char*>(tensor.data) + idx * DTypeBytes(tensor.dtype),
                  DType::kF32, &value, 1);
  return value;
}

struct Probe {
  std::vector<float> x;  // as the kernels see it, after rounding to their dtype
  Buffer bytes;          // the same in that dtype

  Probe(int64_t n, DType dtype) : x(n), bytes(n * DTypeBytes(dtype)) {
    Random random(kProbeSeed);
    for (float& value : x) value = static_cast<float>(random.Normal());
    ConvertElements(DType::kF32, x.data(), dtype, bytes.data(), n);
    ConvertElements(dtype, bytes.data(), DType::kF32, x.data(), n);
  }
};

// y = scale * B A x through the kernels, one row.
std::vector<float> RunKernels(const LoraMatrix& matrix, const LoraModuleShape& shape,
                              const Probe& probe, DType dtype, Stream& stream) {
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
  args.x = probe.bytes.data();
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
  double magnitude = 0.0;  // the sum of all terms' absolute values: what rounding scales with
};

Reference MergedRow(const LoraTensors& tensors, const LoraTarget& target, int64_t column,
                    const Probe& probe) {
  const auto in = static_cast<int64_t>(probe.x.size());
  std::vector<double> row(in, 0.0);
  std::vector<double> terms(in, 0.0);
  std::vector<float> a_row(in);
  for (int64_t r = 0; r < target.rank; ++r) {
    const double b = target.scale * Element(tensors.b, column * target.rank + r);
    ConvertElements(tensors.a.dtype,
                    static_cast<const char*>(tensors.a.data) + r * in * DTypeBytes(tensors.a.dtype),
                    DType::kF32, a_row.data(), in);
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

}  // namespace

Status SelfTestLora(const SafetensorsFile& file, const PeftConfig& peft, const ModelConfig& model,
                    const LoraWeights& weights) {
  ASSIGN_OR_RETURN(const std::vector<LoraTensors> tensors,
                   MatchLoraTensors(file, weights.targets(), peft, model));
  ThreadPool caller_only(1);
  Stream stream{Device{}, &caller_only};
  // Of the sum of all terms: weights that were rounded to bf16 once, or float's own accumulation.
  const double tolerance = weights.dtype() == DType::kBF16 ? 1e-2 : 1e-4;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const LoraTarget& target = weights.targets()[i];
    const LoraModuleShape shape = ShapeOfLoraModule(model, target.module);
    const Probe probe(shape.in, weights.dtype());
    const std::vector<float> y = RunKernels(weights.matrix(target.layer, target.module), shape,
                                            probe, weights.dtype(), stream);
    for (const int64_t column : ProbedColumns(shape.out)) {
      const Reference reference = MergedRow(tensors[i], target, column, probe);
      const double bound = tolerance * reference.magnitude + 1e-30;
      if (!(std::abs(y[column] - reference.value) <= bound)) {
        return InternalError("self-test of " + LoraModulePath(target.layer, target.module) +
                             ": output " + std::to_string(column) + " is " +
                             std::to_string(y[column]) + ", the merged weights give " +
                             std::to_string(reference.value));
      }
    }
  }
  return OkStatus();
}

}  // namespace graft
