// The table of GEMM kernels on a GPU. Also the fp32 kernel: exact products, and one sum per
// element over k in ascending order. It serves the goldens and is not tuned.
#include "kernels/gemm/gemm_cuda.h"

#include <cuda_runtime.h>

#include <cstdlib>
#include <string_view>

#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/kernel_list.h"
#include "kernels/lora/lora.h"

namespace graft {
namespace {

constexpr int kTile = 64;   // rows of x and rows of W in a tile
constexpr int kDepth = 16;  // columns of k per round
constexpr int kThreads = 256;

__device__ void LoadTile(const float* source, int64_t stride, int64_t num_rows, int64_t k,
                         int64_t first_row, int64_t first_column, float (&out)[kDepth][kTile + 1]) {
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kDepth; i += kThreads) {
    const int row = i / kDepth;
    const int column = i % kDepth;
    const bool inside = first_row + row < num_rows && first_column + column < k;
    out[column][row] = inside ? source[(first_row + row) * stride + first_column + column] : 0.0f;
  }
}

__global__ void __launch_bounds__(kThreads) FmaKernel(const __grid_constant__ GemmCudaArgs args) {
  __shared__ float x[kDepth][kTile + 1];
  __shared__ float w[kDepth][kTile + 1];
  LetNextStart();
  WaitForPrevious();
  const GemmArgs& gemm = args.gemm;
  const int64_t first_row = int64_t{blockIdx.y} * kTile;
  const int64_t first_column = int64_t{blockIdx.x} * kTile;
  const int local_row = static_cast<int>(threadIdx.x) / 16;
  const int local_column = static_cast<int>(threadIdx.x) % 16;
  float sum[4][4] = {};
  for (int64_t k = 0; k < args.k; k += kDepth) {
    __syncthreads();
    LoadTile(static_cast<const float*>(gemm.x), gemm.x_stride, gemm.m, args.k, first_row, k, x);
    LoadTile(static_cast<const float*>(args.w), args.w_stride, args.n, args.k, first_column, k, w);
    __syncthreads();
    for (int i = 0; i < kDepth; ++i) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          sum[r][c] = fmaf(x[i][local_row + r * 16], w[i][local_column + c * 16], sum[r][c]);
        }
      }
    }
  }
  for (int r = 0; r < 4; ++r) {
    for (int c = 0; c < 4; ++c) {
      const int64_t row = first_row + local_row + r * 16;
      const int64_t column = first_column + local_column + c * 16;
      if (row >= gemm.m || column >= args.n) continue;
      float value = sum[r][c];
      if (gemm.epilogue.bias != nullptr) value += gemm.epilogue.bias[column];
      float* y = gemm.y + row * gemm.y_stride + column;
      *y = gemm.epilogue.accumulate ? fmaf(gemm.epilogue.scale, value, *y) : value;
    }
  }
}

// Whether the slices cover all of y. A column outside all slices would get whatever the scratch
// holds.
bool CoversY(const LoraArgs& lora, int64_t n) {
  int64_t column = 0;
  for (int32_t s = 0; s < lora.num_slices; ++s) {
    if (lora.slice_begin[s] != column) return false;
    column += lora.slice_n[s];
  }
  return column == n;
}

void CheckBeside(const LoraArgs& lora, int64_t n) {
  CHECK(lora.beside.delta != nullptr && lora.num_segments <= kLoraBesideRowsMax && CoversY(lora, n))
      << lora.num_segments << " segments beside " << n << " columns";
}

void LaunchHopper(const GemmCudaArgs& args, Stream& stream) {
  const GemmArgs& gemm = args.gemm;
  const GemmTileNeeds needs{.dtype = args.dtype,
                            .activates = gemm.epilogue.activated != nullptr,
                            .lora_beside = LoraAt(gemm, LoraPlace::kBeside) != nullptr,
                            .transposed = gemm.transposed};
  GemmHopper(args, ChooseHopperGemmTile(gemm.m, args.n, args.k, needs, stream.device), stream);
}

bool IsOfHalves(const GemmCudaArgs& args) { return args.dtype != DType::kF32; }
bool IsOfCodes(const GemmCudaArgs& args) { return args.codes; }

// From so many rows on it is faster to write W's numbers to memory and to multiply those. The bits
// are the same. (By what the parts should take: workshop/gpu_codes.md.)
constexpr int64_t kNumbersRowsMin = 256;

// Hopper's kernel for codes is asked for by GRAFT_WGMMA_CODES=1: of its first version all bits were
// seen to be right on a card, and it was slower (workshop/gpu_codes.md); this one was not measured.
bool GoesByWgmma(const GemmCudaArgs& args) {
  static const bool is_asked_for = [] {
    const char* const word = std::getenv("GRAFT_WGMMA_CODES");
    return word != nullptr && std::string_view(word) == "1";
  }();
  return is_asked_for && HopperMultipliesCodes(args);
}

bool GoesByNumbers(const GemmCudaArgs& args) {
  const GemmArgs& gemm = args.gemm;
  const bool many = gemm.m >= kNumbersRowsMin || LoraAt(gemm, LoraPlace::kBeside) != nullptr;
  return args.codes && many &&
         GemmRoomPlan(gemm.m, args.n, args.k, gemm.weight->format()).bytes <= gemm.room.bytes;
}
void LaunchByNumbers(const GemmCudaArgs& args, Stream& stream);

struct GemmKernel : KernelRow<GemmCudaArgs> {
  bool fuses = false;  // adds LoRA and activates itself
};
constexpr GemmKernel kGemmKernels[] = {
    {{"by numbers", "codes, many rows", {}, GoesByNumbers, LaunchByNumbers}, /*fuses=*/true},
    {{"codes by wgmma",
      "codes, where it is asked for",
      {.hopper_code = true},
      GoesByWgmma,
      GemmCodesHopper},
     /*fuses=*/true},
    {{"codes", "codes", {}, IsOfCodes, GemmCodesMma}, /*fuses=*/true},
    {{"hopper", "bf16, fp16", {.hopper_code = true}, IsOfHalves, LaunchHopper}, /*fuses=*/true},
    {{"mma", "bf16, fp16", {}, IsOfHalves, GemmMma}, /*fuses=*/true},
    {{"fma", "fp32", {}, nullptr, GemmFma}}};

void LaunchByNumbers(const GemmCudaArgs& args, Stream& stream) {
  for (const GemmCudaArgs& product : MakeNumbers(args, stream)) {
    ChooseKernel(kGemmKernels, product, TraitsOf(stream.device)).launch(product, stream);
  }
}

}  // namespace

void TellGemmKernels(KernelList* list) { TellKernels("gemm", kGemmKernels, list); }

bool GemmCudaRunsLoraBeside(const Device& device) {
  // On a small part of a card the multiprocessors reserved for LoRA would be too large a share.
  constexpr int kProcessorsMin = 112;
  const DeviceTraits& traits = TraitsOf(device);
  return traits.has_hopper_code && traits.num_multiprocessors >= kProcessorsMin;
}

void GemmFma(const GemmCudaArgs& args, Stream& stream) {
  CHECK(args.dtype == DType::kF32) << DTypeName(args.dtype);
  const dim3 grid = GridOf(CeilDiv(args.n, kTile), CeilDiv(args.gemm.m, kTile));
  LaunchKernel(FmaKernel, grid, dim3(kThreads), 0, CudaStreamOf(stream), args);
}

void GemmCuda(const GemmCudaArgs& args, Stream& stream) {
  const GemmArgs& gemm = args.gemm;
  const GemmEpilogue& ends = gemm.epilogue;
  const LoraArgs* inside = LoraAt(gemm, LoraPlace::kInside);
  const LoraArgs* beside = LoraAt(gemm, LoraPlace::kBeside);
  const LoraArgs* after = LoraAt(gemm, LoraPlace::kAfter);
  LaunchLedger& ledger = LaunchLedger::OfThread();
  if (inside != nullptr && inside->precedes_product) {
    ledger.ExpectAwaited(stream.cuda_stream, gemm.x);
  }
  if (beside != nullptr) CheckBeside(*beside, args.n);
  GemmCudaArgs product = args;
  const bool has_order = args.codes && gemm.weight->format().has_input_order;
  LoraArgs awaiting;
  if ((has_order || GoesByNumbers(args)) && ends.lora != nullptr) {
    awaiting = *ends.lora;
    awaiting.precedes_product = false;  // what writes the room stands between
    product.gemm.epilogue.lora = &awaiting;
  }
  if (has_order) product = OrderX(product, stream);
  const GemmKernel& kernel = ChooseKernel(kGemmKernels, product, TraitsOf(stream.device));
  if (inside == nullptr && beside == nullptr) product.gemm.epilogue.lora = nullptr;
  // Kernels without LoRA cannot write y, or a copy of it, beside an activation.
  const bool keeps = ends.kept_rows.begin < ends.kept_rows.end || ends.rounded != nullptr;
  const bool activates = kernel.fuses && (!args.codes || CodesActivate(args.n, args.k));
  if (!activates || after != nullptr || (keeps && inside == nullptr)) {
    product.gemm.epilogue.activated = nullptr;
  }
  CHECK(ends.rounded == nullptr || ends.activated != nullptr ||
        (gemm.transposed && inside != nullptr && ends.bias == nullptr && !ends.accumulate));
  kernel.launch(product, stream);
  if (ends.lora == nullptr && GemmHoldsNext(args.dtype, stream.device)) {
    ledger.LaunchedProduct(stream.cuda_stream, gemm.x);
  }
  if (after != nullptr) LoraExpand(*after, stream);
  if (ends.activated != product.gemm.epilogue.activated) {
    ActivateGemm(gemm, args.dtype, args.n, stream);
  }
}

}  // namespace graft
