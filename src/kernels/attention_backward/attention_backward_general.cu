// bf16 on Hopper's tensor cores where attention_backward_tensor.cu does not reach: sliding windows,
// caps on scores, heads of up to 256 dimensions by eights (filled up with zeros to 64, 96, 128 or
// 256), heads that are turned in part or not at all.
//
// Heads of more than 128 have two warpgroups in a block, because a thread has no room for more sums
// than 128 dimensions of keys and of values, or 256 of queries.
#include "kernels/attention_backward/attention_backward_passes.cuh"

namespace graft::attention_backward {
namespace {

// By a warpgroup's matrix instruction. See attention_backward_passes.cuh.
struct WgmmaProducts {
#if defined(GRAFT_HOPPER)
  static constexpr bool kHasCode = true;

  template <int kPending>
  static __device__ __forceinline__ void AwaitRows() {
    WaitForCopies<kPending>();
    FenceForAsync();
    __syncthreads();
  }
  static __device__ __forceinline__ void Begin() { WgmmaFence(); }
  template <typename... Sums>
  static __device__ __forceinline__ void End(Sums&... sums) {
    WgmmaCommit();
    WgmmaWait<0>();
    (WgmmaKeep(sums), ...);
  }
  template <typename Shape, int kSums>
  static __device__ __forceinline__ void Multiply(uint32_t mine, uint32_t others,
                                                  float (&products)[kSums]) {
    attention_backward::Multiply<Shape::kDim, 2 * kSums>(mine, others, products);
  }
  template <typename Shape, int kSteps>
  static __device__ __forceinline__ void MultiplyAdd(const uint32_t (&packed)[kSteps][4],
                                                     uint32_t others,
                                                     float (&sums)[Shape::kDim / 2]) {
    attention_backward::MultiplyAdd<Shape::kDim>(packed, others, sums);
  }
#else
  static constexpr bool kHasCode = false;
#endif
};

template <int kDim>
struct WgmmaShape : HeadShape<kDim, 64, (kDim > 128 ? 2 : 1), 2, (kDim > 128 ? 1 : 2)> {
  using Products = WgmmaProducts;
};

}  // namespace

void LaunchTensorGeneral(const Params& params, Stream& stream) {
  const int32_t head_dim = params.args.head_dim;
  if (head_dim <= 64) return LaunchShape<WgmmaShape<64>>(params, stream);
  if (head_dim <= 96) return LaunchShape<WgmmaShape<96>>(params, stream);
  if (head_dim <= 128) return LaunchShape<WgmmaShape<128>>(params, stream);
  CHECK_LE(head_dim, 256);
  LaunchShape<WgmmaShape<256>>(params, stream);
}

}  // namespace graft::attention_backward
