#include "kernels/gemm/gemm.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "kernels/common/cpu_isa.h"
#include "kernels/gated_activation/gated_activation.h"
#include "kernels/gemm/gemm_bricks.h"
#include "kernels/gemm/gemm_codes.h"
#include "kernels/gemm/gemm_cuda.h"
#include "kernels/gemm/gemm_layout.h"
#include "kernels/lora/lora.h"
#include "tensor/cuda_memory.h"
#include "tensor/device_traits.h"

namespace graft {

GRAFT_CPU_OP(Gemm, GemmCpuArgs)
GRAFT_CPU_OP(GemmCodes, GemmCpuArgs)

namespace {

// Columns of a part that are converted at a time: 32 rows of them stay in the nearest cache.
constexpr int64_t kPackK = 128;
// Bytes of a transpose that are made between two pauses: about a millisecond's work.
constexpr int64_t kTransposedPieceBytes = int64_t{1} << 20;

void PackPanel(const WeightSource& source, const GemmWeight::State& state, int64_t panel,
               char* out) {
  alignas(64) static thread_local char rows[kGemmPanel][kPackK * 4];
  const int64_t num_rows = std::min(kGemmPanel, state.n - panel * kGemmPanel);
  for (int64_t k_begin = 0; k_begin < state.k; k_begin += kPackK) {
    const int64_t k = std::min(kPackK, state.k - k_begin);
    const int64_t num_steps = (k + state.step_k() - 1) / state.step_k();
    for (int64_t row = 0; row < num_rows; ++row) {
      // The half of the last step that may lie past k.
      std::memset(rows[row] + (num_steps - 1) * 4, 0, 4);
      source.Read(panel * kGemmPanel + row, k_begin, k, state.dtype(), rows[row]);
    }
    for (int64_t step = 0; step < num_steps; ++step, out += kGemmStepBytes) {
      for (int64_t row = 0; row < num_rows; ++row) {
        std::memcpy(out + row * 4, rows[row] + step * 4, 4);
      }
    }
  }
}

// A panel of `to`, the transpose of `from`. T: as wide as an element.
template <typename T>
void TransposePanel(const GemmWeight::State& from, int64_t panel, GemmWeight::State* to) {
  constexpr int64_t kBytes = sizeof(T);
  constexpr int64_t kStepK = 4 / kBytes;
  const int64_t from_panel_bytes = from.panel_bytes();
  const int64_t begin = panel * kGemmPanel;
  const int64_t end = std::min(begin + kGemmPanel, to->n);
  char* const out = to->panels.as<char>() + panel * to->panel_bytes();
  for (int64_t k = 0; k < to->k; ++k) {
    const char* column =
        from.panels.as<char>() + k / kGemmPanel * from_panel_bytes + k % kGemmPanel * 4;
    char* row = out + k / kStepK * kGemmStepBytes + k % kStepK * kBytes;
    for (int64_t n = begin; n < end; ++n, row += 4) {
      std::memcpy(row, column + n / kStepK * kGemmStepBytes + n % kStepK * kBytes, kBytes);
    }
  }
}

// A GPU's bricks, and behind them the input order.
void PackBricksForGpu(const CodeSource& source, GemmWeight::State& state, Stream& stream) {
  CHECK(state.format.operands == DType::kBF16) << "codes beside " << DTypeName(state.dtype());
  const GemmBricksLayout layout(state.format, state.n, state.k);
  state.panels = Buffer(layout.bytes(), stream.device);
  if constexpr (kHasCuda) {
    const auto fill = [&](int64_t begin, int64_t end, char* out) {
      for (int64_t strip = begin; strip < end; ++strip, out += layout.strip_bytes()) {
        PackBricks(source, state.format, strip, out);
      }
    };
    char* const bricks = state.panels.as<char>();
    UploadRows(bricks, layout.num_strips, layout.strip_bytes(), fill, stream);
    const std::span<const int32_t> order = source.InputOrder();
    if (order.empty()) return;
    UploadRows(
        bricks + layout.order_begin(), 1, layout.order_bytes,
        [&](int64_t, int64_t, char* out) { std::memcpy(out, order.data(), order.size_bytes()); },
        stream);
  }
}

// The GPU takes the rows as they come, each padded with zeros.
void PackForGpu(const WeightSource& source, GemmWeight::State& state, Stream& stream) {
  const int64_t stride = GemmCudaStride(state.k);
  const int64_t element_bytes = DTypeBytes(state.dtype());
  state.panels =
      Buffer(GemmWeight::BytesFor(state.n, state.k, state.format, stream.device), stream.device);
  const auto fill = [&](int64_t begin, int64_t end, char* out) {
    for (int64_t row = begin; row < end; ++row, out += stride * element_bytes) {
      source.Read(row, 0, state.k, state.dtype(), out);
      std::memset(out + state.k * element_bytes, 0, (stride - state.k) * element_bytes);
    }
  };
  if constexpr (kHasCuda) {
    UploadRows(state.panels.data(), state.n, stride * element_bytes, fill, stream);
  }
}

void CheckLora(const GemmArgs& args, const Device& device) {
  const LoraArgs* lora = args.epilogue.lora;
  if (lora == nullptr) return;
  CHECK(lora->num_rows == args.m && lora->y == args.y && lora->y_stride == args.y_stride)
      << "LoRA of another y";
  CHECK(lora->scale == args.epilogue.scale) << lora->scale << " != " << args.epilogue.scale;
  const DType dtype = args.weight->dtype();
  switch (args.epilogue.lora_place) {
    case LoraPlace::kInside:
      CHECK(GemmTakesLora(dtype, lora->dtype, device))
          << DTypeName(lora->dtype) << " inside " << DTypeName(dtype);
      break;
    case LoraPlace::kBeside:
      CHECK(lora->dtype == dtype && GemmRunsLoraBeside(dtype, args.m, device))
          << args.m << " rows of " << DTypeName(lora->dtype);
      break;
    case LoraPlace::kAfter:
      break;
    case LoraPlace::kNone:
    case LoraPlace::kAssisted:
      CHECK(false) << "no place for LoRA in a product";
  }
}

void CheckEpilogue(const GemmArgs& args, int64_t n, const Device& device) {
  const GemmEpilogue& ends = args.epilogue;
  CHECK(ends.scale == 1.0f || ends.accumulate) << "a scale of what is no residual";
  CheckLora(args, device);
  if (ends.activated == nullptr) return;
  CHECK(n % 2 == 0 && !ends.accumulate) << n << " columns" << (ends.accumulate ? " added" : "");
  CHECK(args.m == 1 || args.y_stride == n) << args.y_stride << " != " << n;
}

void GemmOnGpu(const GemmArgs& args, Stream& stream) {
  const GemmCudaArgs cuda_args = CudaArgsOf(args);
  CHECK(!args.x_is_fp32 || cuda_args.dtype == DType::kF32)
      << "fp32 beside " << DTypeName(cuda_args.dtype);
  if constexpr (kHasCuda) GemmCuda(cuda_args, stream);
}

// Room for the copy of x, kept by the thread that calls Gemm and grown to the largest need.
char* Scratch(int64_t bytes) {
  static thread_local Buffer buffer;
  if (buffer.bytes() < bytes) {
    buffer = Buffer();
    buffer = Buffer(bytes);
  }
  return buffer.as<char>();
}

}  // namespace

int64_t GemmWeight::State::panel_bytes() const {
  if (!format.is_plain()) return GemmCodesLayout(format, n, k).panel_bytes();
  return num_steps() * kGemmStepBytes;
}

GemmWeight::GemmWeight() = default;
GemmWeight::GemmWeight(GemmWeight&&) noexcept = default;
GemmWeight& GemmWeight::operator=(GemmWeight&&) noexcept = default;
GemmWeight::~GemmWeight() = default;

int64_t GemmWeight::n() const { return state_ == nullptr ? 0 : state_->n; }
int64_t GemmWeight::k() const { return state_ == nullptr ? 0 : state_->k; }
WeightFormat GemmWeight::format() const {
  return state_ == nullptr ? WeightFormat(DType::kF32) : state_->format;
}
int64_t GemmWeight::bytes() const { return state_ == nullptr ? 0 : state_->panels.bytes(); }

GemmWeight GemmWeight::Pack(const WeightSource& source, const WeightFormat& format,
                            Stream& stream) {
  CHECK(format.is_plain()) << "codes of " << format.bits << " bits";
  CHECK(format.operands != DType::kF16 || !stream.device.is_cpu()) << "fp16 on the CPU";
  auto state = std::make_unique<State>();
  state->format = format;
  state->n = source.n();
  state->k = source.k();
  CHECK(state->n > 0 && state->k > 0) << state->n << " x " << state->k;
  GemmWeight weight;
  if (!stream.device.is_cpu()) {
    PackForGpu(source, *state, stream);
    weight.state_ = std::move(state);
    return weight;
  }
  state->panels = Buffer(BytesFor(state->n, state->k, format, {}));  // zeroed: the padding
  // Shared out as Gemm shares it, so that each thread's memory is near it.
  stream.cpu_threads->ParallelFor(state->num_panels(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) {
      PackPanel(source, *state, panel, state->panels.as<char>() + panel * state->panel_bytes());
    }
  });
  weight.state_ = std::move(state);
  return weight;
}

GemmWeight GemmWeight::PackCodes(const CodeSource& source, const WeightFormat& format,
                                 Stream& stream) {
  CHECK(!format.is_plain() && (format.bits == 4 || format.bits == 8)) << format.bits << " bits";
  CHECK(format.scale_numbers >= source.k() || format.scale_numbers % 32 == 0)
      << format.scale_numbers << " numbers a scale";
  const std::span<const int32_t> order = source.InputOrder();
  CHECK_EQ(static_cast<int64_t>(order.size()), format.has_input_order ? source.k() : 0);
  auto state = std::make_unique<State>();
  state->format = format;
  state->n = source.n();
  state->k = source.k();
  GemmWeight weight;
  if (!stream.device.is_cpu()) {
    PackBricksForGpu(source, *state, stream);
    weight.state_ = std::move(state);
    return weight;
  }
  const GemmCodesLayout layout(format, state->n, state->k);
  state->panels = Buffer(layout.bytes());
  // Shared out as in Pack.
  stream.cpu_threads->ParallelFor(layout.num_panels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) {
      PackCodesPanel(source, format, panel,
                     state->panels.as<char>() + panel * layout.panel_bytes());
    }
  });
  if (!order.empty()) {
    std::memcpy(state->panels.as<char>() + layout.order_begin(), order.data(), order.size_bytes());
  }
  weight.state_ = std::move(state);
  return weight;
}

GemmWeight GemmWeight::Random(std::span<const DrawnRows> parts, int64_t k, float deviation,
                              DType dtype, Stream& stream) {
  const RandomNumbers numbers(parts, k, deviation);
  if (stream.device.is_cpu()) return Pack(numbers, dtype, stream);
  auto state = std::make_unique<State>();
  state->format = dtype;
  state->n = numbers.n();
  state->k = k;
  const int64_t stride = GemmCudaStride(k);
  const int64_t row_bytes = stride * DTypeBytes(dtype);
  state->panels = Buffer(BytesFor(state->n, k, dtype, stream.device), stream.device);
  char* out = state->panels.as<char>();
  for (const DrawnRows& part : parts) {
    if constexpr (kHasCuda) {
      FillRandomRows(part.seed, deviation, dtype, part.n, k, stride, out, stream);
    }
    out += part.n * row_bytes;
  }
  Synchronize(stream);  // Gemm may read a weight before it waits for earlier kernels
  GemmWeight weight;
  weight.state_ = std::move(state);
  return weight;
}

int64_t GemmWeight::BytesFor(int64_t n, int64_t k, const WeightFormat& format,
                             const Device& device) {
  if (!format.is_plain()) {
    return device.is_cpu() ? GemmCodesLayout(format, n, k).bytes()
                           : GemmBricksLayout(format, n, k).bytes();
  }
  if (!device.is_cpu()) return n * format.RowBytes(GemmCudaStride(k));
  State state;
  state.n = n;
  state.k = k;
  state.format = format;
  return state.num_panels() * state.panel_bytes();
}

GemmWeight GemmWeight::Transposed(Stream& stream, const std::function<void()>& pause) const {
  CHECK(state_ != nullptr && state_->format.is_plain());
  if (!stream.device.is_cpu()) {
    GemmWeight transposed = LikeTransposed(*this);
    transposed.TransposeFrom(*this, stream);
    return transposed;
  }
  auto to = std::make_unique<State>();
  to->n = state_->k;
  to->k = state_->n;
  to->format = state_->format;
  to->panels = Buffer(BytesFor(to->n, to->k, to->format, {}));  // zeroed: the padding
  const int64_t panels_at_once = std::max<int64_t>(kTransposedPieceBytes / to->panel_bytes(),
                                                   stream.cpu_threads->num_threads());
  for (int64_t first = 0; first < to->num_panels(); first += panels_at_once) {
    if (first > 0 && pause) pause();
    const int64_t count = std::min(panels_at_once, to->num_panels() - first);
    stream.cpu_threads->ParallelFor(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t panel = first + begin; panel < first + end; ++panel) {
        if (DTypeBytes(to->dtype()) == 2) {
          TransposePanel<uint16_t>(*state_, panel, to.get());
        } else {
          TransposePanel<uint32_t>(*state_, panel, to.get());
        }
      }
    });
  }
  GemmWeight transposed;
  transposed.state_ = std::move(to);
  return transposed;
}

GemmWeight GemmWeight::LikeTransposed(const GemmWeight& other) {
  CHECK(other.state_ != nullptr && other.format().is_plain());
  const Device device = other.state_->panels.device();
  CHECK(!device.is_cpu()) << device.ToString();
  GemmWeight weight;
  weight.state_ = std::make_unique<State>();
  weight.state_->n = other.k();
  weight.state_->k = other.n();
  weight.state_->format = other.format();
  weight.state_->panels = Buffer(BytesFor(other.k(), other.n(), other.format(), device), device);
  return weight;
}

void GemmWeight::TransposeFrom(const GemmWeight& other, Stream& stream) {
  CHECK(state_ != nullptr && other.state_ != nullptr && !stream.device.is_cpu());
  CHECK(n() == other.k() && k() == other.n() && dtype() == other.dtype());
  if constexpr (kHasCuda) {
    TransposeRows(other.state_->panels.data(), GemmCudaStride(other.k()), other.n(), other.k(),
                  dtype(), state_->panels.data(), GemmCudaStride(k()), stream);
  }
}

GemmWeight GemmWeight::Like(const GemmWeight& other) {
  CHECK(other.state_ != nullptr && other.format().is_plain());
  GemmWeight weight;
  weight.state_ = std::make_unique<State>();
  weight.state_->n = other.n();
  weight.state_->k = other.k();
  weight.state_->format = other.format();
  weight.state_->panels = Buffer(other.bytes(), other.state_->panels.device());
  return weight;
}

GemmCudaArgs CudaArgsOf(const GemmArgs& args) {
  const GemmWeight::State& state = *args.weight->state();
  return {.gemm = args,
          .w = state.panels.data(),
          .w_stride = GemmCudaStride(state.k),
          .n = args.transposed ? state.k : state.n,
          .k = args.transposed ? state.n : state.k,
          .dtype = state.dtype(),
          .codes = !state.format.is_plain()};
}

void ActivateGemm(const GemmArgs& args, DType weight_dtype, int64_t n, Stream& stream) {
  GatedActivation({.gate_up = args.y,
                   .out = args.epilogue.activated,
                   .out_dtype = args.x_is_fp32 ? DType::kF32 : weight_dtype,
                   .num_tokens = args.m,
                   .n = n / 2,
                   .copy = args.epilogue.rounded},
                  stream);
}

GemmRoomPlan::GemmRoomPlan(int64_t m, int64_t n, int64_t k, const WeightFormat& format) {
  const int64_t row_bytes = GemmCudaStride(k) * DTypeBytes(format.operands);
  const auto up_to_border = [](int64_t size) { return (size + 255) / 256 * 256; };
  numbers_begin = format.has_input_order ? up_to_border(m * row_bytes) : 0;
  bytes = numbers_begin + up_to_border(n * row_bytes);
}

bool CodesActivate(int64_t n, int64_t k) {
  return n % (2 * kBrickRows) == 0 && BricksOfFirstRange(n, k) * kBrickColumns >= k;
}

int64_t GemmRoomBytes(int64_t m, int64_t n, int64_t k, const WeightFormat& format,
                      const Device& device, bool numbers) {
  if (device.is_cpu() || format.is_plain()) return 0;
  const GemmRoomPlan plan(m, n, k, format);
  return numbers ? plan.bytes : plan.numbers_begin;
}

int64_t GemmScratchBytes(int64_t m, int64_t k, const WeightFormat& format, int num_threads) {
  const int64_t copies =
      std::max<int64_t>(std::min(m, kGemmRowsMax), std::min(m, kGemmOwnCopyRowsMax) * num_threads);
  if (!format.is_plain())
    return copies * GemmCodesLayout(format, 1, k).num_blocks * kGemmDigitsBytes;
  const int64_t num_steps = (k * DTypeBytes(format.operands) + 3) / 4;
  const int64_t num_blocks = (num_steps + kGemmBlockSteps - 1) / kGemmBlockSteps;
  return copies * num_blocks * kGemmScratchRowBytes;
}

bool GemmTakesLora(DType dtype, DType adapters, const Device& device) {
  return !device.is_cpu() && dtype == DType::kBF16 && adapters == DType::kBF16;
}

bool GemmRunsLoraBeside(DType dtype, int64_t m, const Device& device) {
  if (m > kLoraBesideRowsMax || !GemmHoldsNext(dtype, device)) return false;
  if constexpr (kHasCuda) return GemmCudaRunsLoraBeside(device);
  return false;
}

bool GemmReadsTransposed(DType dtype, const Device& device) {
  return !device.is_cpu() && dtype == DType::kBF16;
}

bool GemmHoldsNext(DType dtype, const Device& device) {
  return !device.is_cpu() && dtype != DType::kF32 && TraitsOf(device).overlaps_launches;
}

void Gemm(const GemmArgs& args, Stream& stream) {
  CHECK(args.weight != nullptr && args.weight->state() != nullptr) << "the weight is not packed";
  CHECK_GE(args.m, 0);
  if (args.m == 0) return;
  const GemmWeight::State& state = *args.weight->state();
  CHECK(args.x != nullptr && args.y != nullptr);
  CHECK(!args.transposed ||
        (GemmReadsTransposed(state.dtype(), stream.device) && state.format.is_plain()));
  const int64_t n = args.transposed ? state.k : state.n;
  const int64_t k = args.transposed ? state.n : state.k;
  CHECK(args.m == 1 || args.x_stride >= k) << args.x_stride << " < " << k;
  CHECK(args.m == 1 || args.y_stride >= n) << args.y_stride << " < " << n;
  CheckEpilogue(args, n, stream.device);
  CHECK(state.panels.device() == stream.device) << stream.device.ToString();
  if (!stream.device.is_cpu()) {
    return GemmOnGpu(args, stream);
  }

  GemmCpuArgs slice{.gemm = args,
                    .panels = state.panels.as<char>(),
                    .n = state.n,
                    .k = state.k,
                    .num_steps = state.num_steps(),
                    .panel_bytes = state.panel_bytes(),
                    .dtype = state.dtype(),
                    .format = state.format,
                    .scratch = Scratch(GemmScratchBytes(args.m, state.k, state.format,
                                                        stream.cpu_threads->num_threads()))};
  if (state.format.has_input_order) {
    const GemmCodesLayout layout(state.format, state.n, state.k);
    slice.input_order =
        reinterpret_cast<const int32_t*>(state.panels.as<char>() + layout.order_begin());
  }
  CHECK(state.format.is_plain() || args.x_is_fp32 || slice.dtype == DType::kF32)
      << "codes beside x in " << DTypeName(slice.dtype);
  const int64_t x_bytes = DTypeBytes(args.x_is_fp32 ? DType::kF32 : state.dtype());
  const int64_t num_slices = (args.m + kGemmRowsMax - 1) / kGemmRowsMax;
  for (int64_t i = 0; i < num_slices; ++i) {
    const int64_t begin = args.m * i / num_slices;
    slice.gemm.m = args.m * (i + 1) / num_slices - begin;
    slice.gemm.x = static_cast<const char*>(args.x) + begin * args.x_stride * x_bytes;
    slice.gemm.y = args.y + begin * args.y_stride;
    state.format.is_plain() ? GemmCpu(slice, stream) : GemmCodesCpu(slice, stream);
  }
  if (args.epilogue.lora != nullptr) LoraExpand(*args.epilogue.lora, stream);
  if (args.epilogue.activated != nullptr) ActivateGemm(args, state.dtype(), state.n, stream);
}

}  // namespace graft
