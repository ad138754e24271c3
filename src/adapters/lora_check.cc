#include "adapters/lora_check.h"

#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/unwanted_work.h"
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
// room for bf16's rounding would pass any adapter with terms that cancel, as in large layers.
void ReadServed(const TensorView& tensor, int64_t begin, int64_t n, DType served, float* out) {
  const char* const source =
      static_cast<const char*>(tensor.data) + begin * DTypeBytes(tensor.dtype);
  if (tensor.dtype == served) return ConvertElements(served, source, DType::kF32, out, n);
  std::vector<float> rounded(n);  // large enough for any dtype
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

// What the merged delta times x is made of, in double and from the file: for each rank its row of A
// times x, and the same of absolute values, with which rounding scales. B joins for the columns
// that are compared, so that A is read once for all of them.
class MergedReference {
 public:
  MergedReference(const LoraTensors& tensors, const LoraTarget& target, const Probe& probe,
                  DType served)
      : tensors_(tensors), target_(target), served_(served) {
    const auto in = static_cast<int64_t>(probe.x.size());
    std::vector<float> a_row(probe.x.size());
    for (int64_t r = 0; r < target.rank; ++r) {
      ReadServed(tensors.a, r * in, in, served, a_row.data());
      terms_.push_back(SumTerms(a_row, probe.x));
    }
  }

  struct Value {
    double value = 0.0;      // row `column` of the merged delta, times x
    double magnitude = 0.0;  // sum of the terms' absolute values
  };
  Value At(int64_t column) const {
    std::vector<float> b_row(static_cast<size_t>(target_.rank));
    ReadServed(tensors_.b, column * target_.rank, target_.rank, served_, b_row.data());
    Value sum;
    for (size_t r = 0; r < terms_.size(); ++r) {
      const double b = static_cast<double>(target_.scale) * b_row[r];
      sum.value += b * terms_[r].value;
      sum.magnitude += std::abs(b) * terms_[r].magnitude;
    }
    return sum;
  }

 private:
  // Eight sums side by side, which a processor adds at once.
  static Value SumTerms(const std::vector<float>& a, const std::vector<float>& x) {
    constexpr size_t kLanes = 8;
    double values[kLanes] = {};
    double magnitudes[kLanes] = {};
    const size_t whole = a.size() / kLanes * kLanes;
    for (size_t i = 0; i < whole; i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const double term = static_cast<double>(a[i + lane]) * x[i + lane];
        values[lane] += term;
        magnitudes[lane] += std::abs(term);
      }
    }
    for (size_t i = whole; i < a.size(); ++i) {
      const double term = static_cast<double>(a[i]) * x[i];
      values[0] += term;
      magnitudes[0] += std::abs(term);
    }
    Value sum;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      sum.value += values[lane];
      sum.magnitude += magnitudes[lane];
    }
    return sum;
  }

  const LoraTensors& tensors_;
  const LoraTarget& target_;
  const DType served_;
  std::vector<Value> terms_;  // by rank
};

Status CheckModule(const LoraTensors& tensors, const LoraTarget& target, const ModelConfig& model,
                   const LoraMatrix& matrix, const Probe& probe, DType dtype, Stream& stream) {
  const std::string path = LoraModulePath(model, target.layer, target.module);
  if (matrix.rank != target.rank) {
    return InternalError("self-test of " + path + ": loaded with rank " +
                         std::to_string(matrix.rank) + ", the config gives " +
                         std::to_string(target.rank));
  }
  const LoraModuleShape shape = ShapeOfLoraMatrix(model, target.layer, target.module);
  const std::vector<float> y = RunKernels(matrix, shape, probe, dtype, stream);
  const MergedReference merged(tensors, target, probe, dtype);
  for (const int64_t column : ProbedColumns(shape.out)) {
    const MergedReference::Value reference = merged.At(column);
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

// Ranks and scales are taken from the config again, because the weights' own are under test.
Result<std::vector<LoraTarget>> TargetsOf(const SafetensorsFile& file, const PeftConfig& peft,
                                          const ModelConfig& model, const LoraWeights& weights) {
  ASSIGN_OR_RETURN(std::vector<LoraTarget> targets, LoraTargetsOf(file, peft, model));
  if (targets.size() == weights.targets().size()) return targets;
  return InternalError("self-test: loaded " + std::to_string(weights.targets().size()) +
                       " modules, the config targets " + std::to_string(targets.size()));
}

}  // namespace

struct LoraSelfTest::State {
  std::optional<SafetensorsFile> file;  // the tensors' own, if it is
  std::vector<LoraTarget> targets;
  const ModelConfig* model = nullptr;
  DType dtype = DType::kF32;
  std::span<const LoraMatrix> matrices;
  std::vector<LoraTensors> tensors;
  std::map<int64_t, Probe> probes;  // by width; to draw one takes as long as to test a module
  std::vector<Status> tested;
  std::optional<WorkCrew::Batch> batch;  // last: it uses the others

  // Everything but the file and the batch.
  Status Prepare(const SafetensorsFile& from, const PeftConfig& peft, const ModelConfig& of,
                 const LoraWeights& weights) {
    ASSIGN_OR_RETURN(targets, TargetsOf(from, peft, of, weights));
    ASSIGN_OR_RETURN(tensors, MatchLoraTensors(from, targets, peft, of));
    model = &of;
    dtype = weights.dtype();
    matrices = weights.matrices();
    tested.resize(targets.size());
    for (const LoraTarget& target : targets) {
      const int64_t in = ShapeOfLoraMatrix(of, target.layer, target.module).in;
      if (!probes.contains(in)) probes.emplace(in, Probe(in, dtype));
    }
    return OkStatus();
  }

  Status Test(size_t i) const {
    if (WorkIsUnwanted()) return UnwantedWork();
    ThreadPool caller_only(1);
    Stream stream{Device{}, &caller_only};
    const LoraTarget& target = targets[i];
    const LoraMatrix& matrix =
        matrices[static_cast<size_t>(model->lora_matrix(target.layer, target.module))];
    const Probe& probe = probes.at(ShapeOfLoraMatrix(*model, target.layer, target.module).in);
    return CheckModule(tensors[i], target, *model, matrix, probe, dtype, stream);
  }
};

Status SelfTestLora(const SafetensorsFile& file, const PeftConfig& peft, const ModelConfig& model,
                    const LoraWeights& weights) {
  LoraSelfTest::State state;
  RETURN_IF_ERROR(state.Prepare(file, peft, model, weights));
  for (size_t i = 0; i < state.targets.size(); ++i) RETURN_IF_ERROR(state.Test(i));
  return OkStatus();
}

LoraSelfTest::LoraSelfTest(std::unique_ptr<State> state) : state_(std::move(state)) {}
LoraSelfTest::LoraSelfTest(LoraSelfTest&&) noexcept = default;
LoraSelfTest& LoraSelfTest::operator=(LoraSelfTest&&) noexcept = default;
LoraSelfTest::~LoraSelfTest() = default;

Result<LoraSelfTest> LoraSelfTest::Begin(SafetensorsFile file, const PeftConfig& peft,
                                         const ModelConfig& model, const LoraWeights& weights,
                                         WorkCrew* crew) {
  auto state = std::make_unique<State>();
  State& begun = *state;
  begun.file.emplace(std::move(file));
  RETURN_IF_ERROR(begun.Prepare(*begun.file, peft, model, weights));
  begun.batch.emplace(crew, std::ssize(begun.targets), [&begun](int64_t piece) {
    begun.tested[static_cast<size_t>(piece)] = begun.Test(static_cast<size_t>(piece));
  });
  return LoraSelfTest(std::move(state));
}

Status LoraSelfTest::Finish() {
  state_->batch->Wait();
  for (const Status& status : state_->tested) RETURN_IF_ERROR(status);
  return OkStatus();
}

}  // namespace graft
