#include "kernels/gemm/gemm.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/common/cpu_isa.h"
#include "kernels/gemm/gemm_layout.h"

namespace graft {

GRAFT_CPU_OP(Gemm, GemmCpuArgs)

namespace {

// Columns of a part that are converted at a time: 32 rows of them stay in the nearest cache.
constexpr int64_t kPackK = 128;

// Copies k values [k_begin, k_begin + k) of the stacked row `n` to `out` as `dtype`.
void ReadRow(std::span<const TensorView> parts, int64_t n, int64_t k_begin, int64_t k, DType dtype,
             char* out) {
  for (const TensorView& part : parts) {
    if (n >= part.shape[0]) {
      n -= part.shape[0];
      continue;
    }
    const char* row = static_cast<const char*>(part.data) +
                      (n * part.shape[1] + k_begin) * DTypeBytes(part.dtype);
    ConvertElements(part.dtype, row, dtype, out, k);
    return;
  }
}

void PackPanel(std::span<const TensorView> parts, const GemmWeight::State& state, int64_t panel,
               char* out) {
  alignas(64) static thread_local char rows[kGemmPanel][kPackK * 4];
  const int64_t num_rows = std::min(kGemmPanel, state.n - panel * kGemmPanel);
  for (int64_t k_begin = 0; k_begin < state.k; k_begin += kPackK) {
    const int64_t k = std::min(kPackK, state.k - k_begin);
    const int64_t num_steps = (k + state.step_k() - 1) / state.step_k();
    for (int64_t row = 0; row < num_rows; ++row) {
      // The half of the last step that may lie past k.
      std::memset(rows[row] + (num_steps - 1) * 4, 0, 4);
      ReadRow(parts, panel * kGemmPanel + row, k_begin, k, state.dtype, rows[row]);
    }
    for (int64_t step = 0; step < num_steps; ++step, out += kGemmStepBytes) {
      for (int64_t row = 0; row < num_rows; ++row) {
        std::memcpy(out + row * 4, rows[row] + step * 4, 4);
      }
    }
  }
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

GemmWeight::GemmWeight() = default;
GemmWeight::GemmWeight(GemmWeight&&) noexcept = default;
GemmWeight& GemmWeight::operator=(GemmWeight&&) noexcept = default;
GemmWeight::~GemmWeight() = default;

int64_t GemmWeight::n() const { return state_ == nullptr ? 0 : state_->n; }
int64_t GemmWeight::k() const { return state_ == nullptr ? 0 : state_->k; }
DType GemmWeight::dtype() const { return state_ == nullptr ? DType::kF32 : state_->dtype; }
int64_t GemmWeight::bytes() const { return state_ == nullptr ? 0 : state_->panels.bytes(); }

GemmWeight GemmWeight::Pack(std::span<const TensorView> parts, DType dtype, Stream& stream) {
  CHECK(!parts.empty());
  CHECK(dtype == DType::kF32 || dtype == DType::kBF16) << DTypeName(dtype);
  auto state = std::make_unique<State>();
  state->dtype = dtype;
  state->k = parts[0].shape.back();
  for (const TensorView& part : parts) {
    CHECK_EQ(part.shape.size(), size_t{2});
    CHECK_EQ(part.shape[1], state->k);
    state->n += part.shape[0];
  }
  CHECK(state->n > 0 && state->k > 0) << state->n << " x " << state->k;
  state->panels = Buffer(state->num_panels() * state->panel_bytes());  // zeroed: the padding
  // Shared out as Gemm shares it, so that each thread's memory is near it.
  stream.cpu_threads->ParallelFor(state->num_panels(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) {
      PackPanel(parts, *state, panel, state->panels.as<char>() + panel * state->panel_bytes());
    }
  });
  GemmWeight weight;
  weight.state_ = std::move(state);
  return weight;
}

void Gemm(const GemmArgs& args, Stream& stream) {
  CHECK(args.weight != nullptr && args.weight->state() != nullptr) << "the weight is not packed";
  CHECK(stream.device.is_cpu()) << stream.device.ToString();
  CHECK_GE(args.m, 0);
  if (args.m == 0) return;
  const GemmWeight::State& state = *args.weight->state();
  CHECK(args.x != nullptr && args.y != nullptr);
  CHECK(args.m == 1 || args.x_stride >= state.k) << args.x_stride << " < " << state.k;
  CHECK(args.m == 1 || args.y_stride >= state.n) << args.y_stride << " < " << state.n;

  const int64_t num_blocks = (state.num_steps() + kGemmBlockSteps - 1) / kGemmBlockSteps;
  const int64_t copies =
      std::max<int64_t>(std::min(args.m, kGemmRowsMax),
                        std::min(args.m, kGemmOwnCopyRowsMax) * stream.cpu_threads->num_threads());
  GemmCpuArgs slice{.gemm = args,
                    .panels = state.panels.as<char>(),
                    .n = state.n,
                    .k = state.k,
                    .num_steps = state.num_steps(),
                    .dtype = state.dtype,
                    .scratch = Scratch(copies * num_blocks * kGemmScratchRowBytes)};
  const int64_t num_slices = (args.m + kGemmRowsMax - 1) / kGemmRowsMax;
  for (int64_t i = 0; i < num_slices; ++i) {
    const int64_t begin = args.m * i / num_slices;
    slice.gemm.m = args.m * (i + 1) / num_slices - begin;
    slice.gemm.x =
        static_cast<const char*>(args.x) + begin * args.x_stride * DTypeBytes(state.dtype);
    slice.gemm.y = args.y + begin * args.y_stride;
    GemmCpu(slice, stream);
  }
}

}  // namespace graft
