// bf16 without Hopper's instructions, on every card that has mma.sync and cp.async (sm_80 and
// later): full attention, sliding windows, caps on scores, heads of up to 256 dimensions by eights
// (filled up with zeros to 64, 96, 128 or 256), turned as a whole, in part or not at all. The
// passes are those of attention_backward_passes.cuh, within 99 KiB of shared memory.
#include "kernels/attention_backward/attention_backward_passes.cuh"

namespace graft::attention_backward {
namespace {

// By a warp's matrix instruction. See attention_backward_passes.cuh. Tiles lie as they do for
// Hopper's.
struct MmaProducts {
  static constexpr bool kHasCode = true;

  template <int kPending>
  static __device__ __forceinline__ void AwaitRows() {
    WaitForCopies<kPending>();
    __syncthreads();
  }
  static __device__ __forceinline__ void Begin() {}
  template <typename... Sums>
  static __device__ __forceinline__ void End(const Sums&... /*sums*/) {}

  // Where a lane finds its row of fragments, and its piece of 16 dimensions k, of rows from
  // `first` on.
  template <typename Shape>
  static __device__ __forceinline__ uint32_t PieceOf(uint32_t first, int k, uint32_t swizzle) {
    return first + k / 4 * Shape::Tile::kAtomBytes + (swizzle ^ (k % 4 * 32));
  }

  template <typename Shape, int kSums>
  static __device__ __forceinline__ void Multiply(uint32_t mine, uint32_t others,
                                                  float (&products)[kSums]) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) % Shape::kGroupThreads / 32;
    const uint32_t my_rows = mine + (warp * 16 + lane % 16) * 128;
    const uint32_t my_swizzle = ((lane / 16) ^ (lane % 8)) * 16;
    const uint32_t their_rows = others + (lane / 16 * 8 + lane % 8) * 128;
    const uint32_t their_swizzle = ((lane / 8 % 2) ^ (lane % 8)) * 16;
    float sums[kSums / 4][4] = {};
#pragma unroll
    for (int k = 0; k < Shape::kDim / 16; ++k) {
      uint32_t a[4];
      LoadMatrices(PieceOf<Shape>(my_rows, k, my_swizzle), a);
#pragma unroll
      for (int n = 0; n < kSums / 8; ++n) {
        uint32_t b[4];
        LoadMatrices(PieceOf<Shape>(their_rows + n * 16 * 128, k, their_swizzle), b);
        graft::MultiplyAdd<Bfloat16>(sums[2 * n], a, b[0], b[1]);
        graft::MultiplyAdd<Bfloat16>(sums[2 * n + 1], a, b[2], b[3]);
      }
    }
#pragma unroll
    for (int i = 0; i < kSums; ++i) products[i] = sums[i / 4][i % 4];
  }

  template <typename Shape, int kSteps>
  static __device__ __forceinline__ void MultiplyAdd(const uint32_t (&packed)[kSteps][4],
                                                     uint32_t others,
                                                     float (&sums)[Shape::kDim / 2]) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const uint32_t rows = others + lane % 16 * 128;
    const uint32_t swizzle = ((lane / 16) ^ (lane % 8)) * 16;
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
#pragma unroll
      for (int d = 0; d < Shape::kDim / 16; ++d) {
        uint32_t b[4];
        LoadMatricesTransposed(PieceOf<Shape>(rows + k * 16 * 128, d, swizzle), b);
        AddTo(sums + 8 * d, packed[k], b[0], b[1]);
        AddTo(sums + 8 * d + 4, packed[k], b[2], b[3]);
      }
    }
  }

 private:
  static __device__ __forceinline__ void AddTo(float* four, const uint32_t (&a)[4], uint32_t b0,
                                               uint32_t b1) {
    float sum[4] = {four[0], four[1], four[2], four[3]};
    graft::MultiplyAdd<Bfloat16>(sum, a, b0, b1);
#pragma unroll
    for (int i = 0; i < 4; ++i) four[i] = sum[i];
  }
};

// Heads of more than 128 have 32 rows a block, and two groups, because neither shared memory nor a
// thread's registers hold more of them.
template <int kDim, int kStages>
struct MmaShape : HeadShape<kDim, (kDim > 128 ? 32 : 64), (kDim > 128 ? 2 : 1), kStages, 2> {
  using Products = MmaProducts;
  static constexpr int kCopiesAtOnce = 1;
};

// Two blocks of a multiprocessor, one of which multiplies while the other one weighs or waits for
// its tile; where the card has no room for these, one that brings the next tile meanwhile.
template <int kDim>
void LaunchByRoom(const Params& params, Stream& stream) {
  const DeviceTraits& traits = CurrentTraits();
  constexpr int kKeptBytes = 1 << 10;  // of each block, by CUDA
  using Lone = MmaShape<kDim, 2>;
  using Paired = MmaShape<kDim, 1>;
  static_assert(Lone::kBytes <= 99 << 10);
  if (traits.shared_bytes_of_multiprocessor >= 2 * (Paired::kBytes + kKeptBytes)) {
    LaunchShape<Paired>(params, stream);
  } else {
    LaunchShape<Lone>(params, stream);
  }
}

}  // namespace

void LaunchMma(const Params& params, Stream& stream) {
  const int32_t head_dim = params.args.head_dim;
  if (head_dim <= 64) return LaunchShape<MmaShape<64, 2>>(params, stream);
  if (head_dim <= 96) return LaunchByRoom<96>(params, stream);
  if (head_dim <= 128) return LaunchByRoom<128>(params, stream);
  CHECK_LE(head_dim, 256);
  LaunchShape<MmaShape<256, 1>>(params, stream);
}

}  // namespace graft::attention_backward
