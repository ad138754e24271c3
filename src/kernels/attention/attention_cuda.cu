// Picks the kernels of a launch. 16-bit keys and values that are aligned to 16 bytes get kernels
// with tensor cores: sequences of two rows or more prefill's, others decode's. All other keys and
// values get plain kernels. The pool and the card alone decide, so that a row's bits do not change.
#include <algorithm>
#include <limits>

#include "kernels/attention/attention_work.cuh"
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/kernel_list.h"

namespace graft {
namespace attention {
namespace {

// A warp per row and query head; lanes are keys for the scores, dimensions for the sums.
constexpr int kPlainWarps = 4;
constexpr int kPlainTile = 32;
constexpr int kLaneDims = kAttentionHeadDimMax / 32;

// The online softmax of one query.
struct PlainState {
  float maximum = -INFINITY;
  float weight = 0.0f;
  float sums[kLaneDims] = {};  // of dimensions lane, lane + 32, ...
};

// A tile of which this lane has one key's score and where its key lies; below zero: hidden.
template <typename T>
__device__ __forceinline__ void AddTile(const T* values, int head_dim, float score, int64_t offset,
                                        PlainState& state) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float maximum = fmaxf(state.maximum, score);
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    maximum = fmaxf(maximum, __shfl_xor_sync(0xffffffffu, maximum, distance));
  }
  const float finite = maximum == -INFINITY ? 0.0f : maximum;
  const float factor = expf(state.maximum - finite);
  const float weight = expf(score - finite);
  state.maximum = maximum;
  state.weight = __fmul_rn(state.weight, factor);
#pragma unroll
  for (float& sum : state.sums) sum = __fmul_rn(sum, factor);
  for (int i = 0; i < kPlainTile; ++i) {
    const float key_weight = __shfl_sync(0xffffffffu, weight, i);
    const int64_t key_offset = __shfl_sync(0xffffffffu, offset, i);
    if (key_offset < 0) continue;
    state.weight = __fadd_rn(state.weight, key_weight);
#pragma unroll
    for (int j = 0; j < kLaneDims; ++j) {
      const int dim = lane + 32 * j;
      if (dim >= head_dim) break;
      state.sums[j] = __fmaf_rn(key_weight, WidenElement(values[key_offset + dim]), state.sums[j]);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kPlainWarps * 32)
    PlainKernel(const __grid_constant__ Params params) {
  const AttentionArgs& args = params.args;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t unit = int64_t{blockIdx.x} * kPlainWarps + threadIdx.x / 32;
  const int row = static_cast<int>(unit / args.num_heads);
  const int head = static_cast<int>(unit % args.num_heads);
  WaitForPrevious();
  LetNextStart();
  if (row < args.row_begin[0] || row >= args.row_begin[args.num_sequences]) return;
  const int sequence = FindBegin(args.row_begin, args.num_sequences, row);
  const KvLayout& layout = args.layout;
  const int head_dim = layout.head_dim;
  const int position = args.kv_tokens[sequence] - (args.row_begin[sequence + 1] - row);
  const int first_visible = FirstVisible(position, params.window);
  const int32_t* pages = args.pages + args.page_begin[sequence];
  const float* q = args.q + row * args.q_stride + int64_t{head} * head_dim;
  const T* keys = static_cast<const T*>(args.pool);

  PlainState state;
  for (int tile = first_visible / kPlainTile * kPlainTile; tile <= position; tile += kPlainTile) {
    const int key = tile + lane;
    float score = -INFINITY;
    int64_t offset = -1;
    if (key >= first_visible && key <= position) {
      offset = layout.KeyOffset(pages[key / layout.page_tokens], args.layer, head / params.group,
                                key % layout.page_tokens);
      score = 0.0f;
      for (int d = 0; d < head_dim; ++d) {
        score = __fmaf_rn(q[d], WidenElement(keys[offset + d]), score);
      }
      score = __fmul_rn(score, args.scale);
      if (args.score_cap > 0.0f) {
        score = __fmul_rn(args.score_cap, tanhf(__fdiv_rn(score, args.score_cap)));
      }
    }
    AddTile(keys + layout.KeyElements(), head_dim, score, offset, state);
  }
  const int64_t out_begin = (int64_t{row} * args.num_heads + head) * head_dim;
  DispatchOut(args, [&](auto* out) {
    using Out = std::remove_pointer_t<decltype(out)>;
#pragma unroll
    for (int j = 0; j < kLaneDims; ++j) {
      const int dim = lane + 32 * j;
      if (dim < head_dim) {
        out[out_begin + dim] = NarrowElement<Out>(__fdiv_rn(state.sums[j], state.weight));
      }
    }
  });
}

Params MakeParams(const AttentionArgs& args) {
  const int64_t out_row_bytes =
      int64_t{args.num_heads} * args.layout.head_dim * DTypeBytes(args.out_dtype);
  Params params = {};
  params.args = args;
  constexpr double kLog2E = 1.4426950408889634;
  params.scale_log2 = static_cast<float>(static_cast<double>(args.scale) * kLog2E);
  if (args.score_cap > 0.0f) {
    params.cap_log2 = static_cast<float>(static_cast<double>(args.score_cap) * kLog2E);
    params.cap_exponent = static_cast<float>(2.0 * static_cast<double>(args.scale) * kLog2E /
                                             static_cast<double>(args.score_cap));
    params.scale_log2 = 1.0f;  // capped scores are scaled already
  }
  params.group = args.num_heads / args.layout.num_kv_heads;
  params.group_inverse =
      params.group == 1 ? 0 : static_cast<uint32_t>((uint64_t{1} << 32) / params.group + 1);
  params.window = args.window > 0 ? args.window : std::numeric_limits<int32_t>::max();
  params.splits_max = static_cast<int32_t>(CeilDiv(args.kv_tokens_max, kSplitTokens));
  if (args.scratch != nullptr) {
    params.counters = reinterpret_cast<int32_t*>(args.scratch);
    params.sums = args.scratch + kAttentionCounterFloats;
    params.maxima =
        reinterpret_cast<float2*>(params.sums + int64_t{args.num_sequences} * params.splits_max *
                                                    args.num_heads * args.layout.head_dim);
  }
  params.prefill_rows_min = 2;
  params.q_vectors = IsVectorAligned(args.q) && IsVectorAligned(args.q_stride * 4) &&
                     IsVectorAligned(int64_t{args.layout.head_dim} * 4);
  params.out_pairs = reinterpret_cast<uintptr_t>(args.out) % 4 == 0 && out_row_bytes % 4 == 0;
  return params;
}

void LaunchPlain(const Params& params, Stream& stream) {
  CHECK_EQ(params.args.num_given, 0) << "no kernel for given rows";
  const int64_t units = int64_t{params.args.rows_max} * params.args.num_heads;
  DispatchDType(params.args.layout.dtype, [&]<typename T>() {
    LaunchKernel(PlainKernel<T>, static_cast<unsigned>(CeilDiv(units, kPlainWarps)),
                 kPlainWarps * 32, 0, CudaStreamOf(stream), params);
  });
}

// The last num_given sequences alone.
Params GivenRows(const Params& params) {
  Params given = params;
  const int32_t num_drawn = params.args.num_sequences - params.args.num_given;
  given.args.num_sequences = params.args.num_given;
  given.args.row_begin += num_drawn;
  given.args.page_begin += num_drawn;
  given.args.kv_tokens += num_drawn;
  return given;
}

// `launch_given`: the kernel of given rows.
void LaunchTensorCores(const Params& all, void (*launch_given)(const Params&, cudaStream_t),
                       Stream& on) {
  Params params = all;
  const cudaStream_t stream = CudaStreamOf(on);
  const AttentionArgs& args = params.args;
  CHECK(args.scratch != nullptr && args.kv_tokens_max > 0);
  CHECK_LE(args.num_sequences, kSequencesMax);
  if (args.num_given > 0) {
    launch_given(GivenRows(params), stream);
    params.args.num_sequences -= args.num_given;
    params.args.num_given = 0;
    if (args.num_sequences == 0) return;
    params.wait_late = true;
  }
  if (args.sequence_rows_max > 1) {
    const bool is_all = args.num_sequences == 1;
    if (is_all) params.prefill_rows_min = 1;
    LaunchPrefill(params, stream);
    if (is_all) return;
    // Decode may begin where prefill ends, thread block by thread block.
    params.wait_late = true;
  }
  CHECK(args.splits != nullptr && args.num_splits != nullptr);
  LaunchDecode(params, stream);
  if (params.splits_max > 1) LaunchMergeSplits(params, stream);
}

}  // namespace

int ResidentBlocks(int blocks_per_multiprocessor) {
  return CurrentTraits().num_multiprocessors * blocks_per_multiprocessor;
}

// CUDA keeps 1 KiB of each block for itself.
constexpr int kKeptBytes = 1 << 10;

int BlockBytesMax(const DeviceTraits& traits, int blocks_per_multiprocessor) {
  return std::min(traits.shared_bytes_max,
                  traits.shared_bytes_of_multiprocessor / blocks_per_multiprocessor - kKeptBytes);
}

int BlocksPerMultiprocessor(const DeviceTraits& traits, int shared_bytes, int threads, int most) {
  const int fit = std::min(traits.shared_bytes_of_multiprocessor / (shared_bytes + kKeptBytes),
                           traits.threads_of_multiprocessor / threads);
  return std::clamp(fit, 1, most);
}

namespace {

bool TakesTensorCores(const Params& params) {
  const KvLayout& layout = params.args.layout;
  return layout.dtype != DType::kF32 && layout.head_dim % 8 == 0 &&
         IsVectorAligned(params.args.pool);
}

void LaunchHopper(const Params& params, Stream& stream) {
  LaunchTensorCores(params, LaunchPrompt, stream);
}
void LaunchMma(const Params& params, Stream& stream) {
  LaunchTensorCores(params, LaunchPromptMma, stream);
}

// Drawn rows take the same kernels in the first two, which hold as many keys and values on their
// way as the card has room for.
constexpr KernelRow<Params> kAttentionKernels[] = {
    {"tensor-cores",
     "bf16, fp16; heads of a multiple of 8",
     {.hopper_code = true, .shared_bytes = 224 << 10},
     TakesTensorCores,
     LaunchHopper},
    {"mma-sync",
     "bf16, fp16; heads of a multiple of 8",
     {.shared_bytes = kAttentionSharedBytes},
     TakesTensorCores,
     LaunchMma},
    {"plain", "all", {}, nullptr, LaunchPlain}};

}  // namespace
}  // namespace attention

void TellAttentionKernels(KernelList* list) {
  TellKernels("attention", attention::kAttentionKernels, list);
}

void AttentionCuda(const AttentionArgs& args, Stream& stream) {
  CHECK(args.num_given == 0 || AttentionTellsGivenRows(args.layout, stream.device));
  const attention::Params params = attention::MakeParams(args);
  ChooseKernel(attention::kAttentionKernels, params, TraitsOf(stream.device))
      .launch(params, stream);
}

}  // namespace graft
