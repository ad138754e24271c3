// The two passes of attention's backward on tensor cores for all models' attention: one takes a
// block's queries of a head and goes over the keys before them, the other one a block's keys and
// goes over the queries behind them in every head of the group. Both compute the scores again, over
// the tiles alone that a window leaves.
//
// A shape (HeadShape) names the instructions of its products. These multiply rows of two tiles, as
// follows; a warp has 16 of the group's rows.
//   AwaitRows<pending>()           until all copies but the last groups are there, for all warps
//   Begin(), End(sums...)          around products; End waits for their sums
//   Multiply<Shape>(mine, others, products)      products[mine, others] = mine others^T
//   MultiplyAdd<Shape>(packed, others, sums)     sums[mine, dims] += values[mine, others] others
//
// Where a shape has two groups, each takes half of a tile's keys in the queries' pass, and what
// they summed is added in the end. In the keys' pass one makes the weights and the values'
// gradients, the other one the keys' gradients, for which the first hands it the weights.
#pragma once

#include "kernels/attention_backward/attention_backward_block.cuh"

namespace graft::attention_backward {

// A block's queries.
template <typename Shape>
struct Queries : Work<Shape> {
  using Work<Shape>::params;
  using Work<Shape>::args;
  using Work<Shape>::block;
  using Work<Shape>::shared;
  using Work<Shape>::group;
  using typename Work<Shape>::Seen;
  using Products = typename Shape::Products;
  static constexpr int kDim = Shape::kDim;
  static constexpr int kRows = Shape::kRows;
  static constexpr int kStages = Shape::kStages;
  static constexpr int kColumns = Shape::kColumns;
  static constexpr int kSums = kColumns / 2;  // of a thread, of all rows by so many columns

  const int head;
  const Seen keys;
  const Seen values;
  const int first_tile;
  const int num_tiles;  // the end of those that are seen

  __device__ Queries(const Params& params, unsigned char* bytes)
      : Work<Shape>(params, true, bytes),
        head(static_cast<int>(blockIdx.x)),
        keys(args, block, head / params.group),
        values(args, block, head / params.group + args.num_kv_heads),
        first_tile(FirstTile()),
        num_tiles(keys.prefix_tiles + block.first / kRows + 1) {}

  // The first tile that a row of the block sees a key of.
  __device__ __forceinline__ int FirstTile() const {
    const int position = max(keys.num_prefix + block.first - params.window + 1, 0);
    return position < keys.num_prefix ? position / kRows
                                      : keys.prefix_tiles + (position - keys.num_prefix) / kRows;
  }
  // The first of a tile's keys that the sequence's row `row` sees, if it sees any.
  __device__ __forceinline__ int FirstSeen(int tile, int row) const {
    return row - params.window + 1 +
           (tile < keys.prefix_tiles ? keys.num_prefix - tile * kRows
                                     : (keys.prefix_tiles - tile) * kRows);
  }
  // Whether a row of the block might not see all of a tile.
  __device__ __forceinline__ bool Masks(int tile) const {
    return keys.Masks(tile, num_tiles) || FirstSeen(tile, block.first + kRows - 1) > 0;
  }

  // This group's rows of a tile.
  __device__ __forceinline__ uint32_t Mine(uint32_t tile) const {
    return tile + group * kColumns * 128;
  }
  // The columns [begin, end) of this group's products that one of a thread's rows sees.
  struct Columns {
    int begin, end;

    __device__ __forceinline__ bool Hides(int i) const {
      const int column = LocalColumn(i);
      return column >= end || column < begin;
    }
  };
  __device__ __forceinline__ Columns Visible(int tile, int half) const {
    const int row = block.first + LocalRow<Shape>() + half * 8;
    return {FirstSeen(tile, row) - group * kColumns, keys.NumSeen(tile, row) - group * kColumns};
  }

  // The logarithms of the sums of this thread's two rows. Each sees the last tile's diagonal.
  __device__ __forceinline__ void SumScores(float (&log_sums)[2]) const {
    float maxima[2] = {-INFINITY, -INFINITY}, sums[2] = {};
    for (int tile = first_tile; tile < num_tiles; ++tile) {
      if (tile + kStages - 1 < num_tiles) BringKeys(tile + kStages - 1);
      CommitCopies();
      Products::template AwaitRows<kStages - 1>();
      float scores[kSums];
      Products::Begin();
      Products::template Multiply<Shape>(shared.Mine(0), Mine(shared.Others(tile % kStages, 0)),
                                         scores);
      Products::End(scores);
      this->Cap(scores);
#pragma unroll
      for (float& score : scores) score = __fmul_rn(score, params.cap_log2);
      if (Masks(tile)) {
        const Columns visible[2] = {Visible(tile, 0), Visible(tile, 1)};
#pragma unroll
        for (int i = 0; i < kSums; ++i) {
          if (visible[i % 4 / 2].Hides(i)) scores[i] = -INFINITY;
        }
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) AddScores(half, scores, maxima[half], sums[half]);
      __syncthreads();
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      sums[half] += __shfl_xor_sync(0xffffffffu, sums[half], 1);
      sums[half] += __shfl_xor_sync(0xffffffffu, sums[half], 2);
    }
    if constexpr (Shape::kGroups > 1) Join(maxima, sums);
#pragma unroll
    for (int half = 0; half < 2; ++half) log_sums[half] = maxima[half] + log2f(sums[half]);
  }

  // A row may see none of the tiles' keys so far: then its maximum is minus infinity.
  __device__ __forceinline__ void AddScores(int half, float (&scores)[kSums], float& maximum,
                                            float& sum) const {
    float largest = maximum;
#pragma unroll
    for (int i = 0; i < kSums / 2; ++i) {
      largest = fmaxf(largest, scores[i / 2 * 4 + half * 2 + i % 2]);
    }
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
    const float finite = largest == -INFINITY ? 0.0f : largest;
    sum *= Exp2(maximum - finite);
#pragma unroll
    for (int i = 0; i < kSums / 2; ++i) {
      sum += Exp2(scores[i / 2 * 4 + half * 2 + i % 2] - finite);
    }
    maximum = largest;
  }

  // Combines the two groups' maxima and sums of each row. They pass through Shared::Stats,
  // which this pass does not need for anything else.
  __device__ __forceinline__ void Join(float (&maxima)[2], float (&sums)[2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (threadIdx.x % 4 != 0) continue;
      shared.Stats(0, group)[LocalRow<Shape>() + half * 8] = maxima[half];
      shared.Stats(1, group)[LocalRow<Shape>() + half * 8] = sums[half];
    }
    __syncthreads();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = LocalRow<Shape>() + half * 8;
      const float first = shared.Stats(0, 0)[row], second = shared.Stats(0, 1)[row];
      maxima[half] = fmaxf(first, second);
      sums[half] = shared.Stats(1, 0)[row] * Exp2(first - maxima[half]) +
                   shared.Stats(1, 1)[row] * Exp2(second - maxima[half]);
    }
  }

  // A tile of keys: from the scores and the weights' gradients to those of the scores.
  __device__ __forceinline__ void AddKeys(int tile, const float (&log_sums)[2],
                                          const float (&means)[2], float (&sums)[kDim / 2]) const {
    const uint32_t tile_keys = Mine(shared.Others(tile % kStages, 0));
    float scores[kSums], worths[kSums];
    Products::Begin();
    Products::template Multiply<Shape>(shared.Mine(0), tile_keys, scores);
    Products::template Multiply<Shape>(shared.Mine(1), Mine(shared.Others(tile % kStages, 1)),
                                       worths);
    Products::End(scores, worths);
    this->Cap(scores);
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      const int half = i % 4 / 2;
      const float t = scores[i];
      const float weight = Exp2(__fmaf_rn(t, params.cap_log2, -log_sums[half]));
      scores[i] = weight * (worths[i] - means[half]) * this->Slope(t);
    }
    if (Masks(tile)) {
      const Columns visible[2] = {Visible(tile, 0), Visible(tile, 1)};
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
        if (visible[i % 4 / 2].Hides(i)) scores[i] = 0.0f;
      }
    }
    uint32_t packed[kColumns / 16][4];
    Pack(scores, packed);
    Products::Begin();
    Products::template MultiplyAdd<Shape>(packed, tile_keys, sums);
    Products::End(sums);
  }

  __device__ __forceinline__ void BringKeys(int tile) const {
    this->Bring(keys, tile, shared.Others(tile % kStages, 0));
  }
  __device__ __forceinline__ void BringTile(int tile) const {
    BringKeys(tile);
    this->Bring(values, tile, shared.Others(tile % kStages, 1));
  }

  __device__ __forceinline__ void Run() const {
    this->Bring(HeadRows(args, block, head), block.first, block.num_rows, shared.Mine(0));
    this->Bring(GradientRows(params, block, head), block.first, block.num_rows, shared.Mine(1));
    if constexpr (kStages > 1) BringKeys(first_tile);
    CommitCopies();
    float log_sums[2], means[2];
    SumScores(log_sums);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int local = block.first + LocalRow<Shape>() + half * 8;
      const int64_t stat = int64_t{head} * args.num_rows + block.begin + local;
      means[half] = local < block.num_rows ? params.means[stat] : 0.0f;
      if (group == 0 && threadIdx.x % 4 == 0 && local < block.num_rows) {
        params.log_sums[stat] = log_sums[half];
      }
    }
    if constexpr (kStages > 1) BringTile(first_tile);
    CommitCopies();
    float sums[kDim / 2] = {};
    for (int tile = first_tile; tile < num_tiles; ++tile) {
      if (tile + kStages - 1 < num_tiles) BringTile(tile + kStages - 1);
      CommitCopies();
      Products::template AwaitRows<kStages - 1>();
      AddKeys(tile, log_sums, means, sums);
      __syncthreads();
    }
    if (group == 0) this->PutSums(0, args.scale, false, sums);
    __syncthreads();
    if constexpr (Shape::kGroups > 1) {
      if (group == 1) this->PutSums(0, args.scale, true, sums);
      __syncthreads();
    }
    this->StoreHead(0, head, params.rotary_half);
  }
};

// A block's keys and values, of the sequence's rows or of its prefix.
template <typename Shape>
struct Keys : Work<Shape> {
  using Work<Shape>::params;
  using Work<Shape>::args;
  using Work<Shape>::block;
  using Work<Shape>::shared;
  using Work<Shape>::group;
  using Products = typename Shape::Products;
  static constexpr int kDim = Shape::kDim;
  static constexpr int kRows = Shape::kRows;
  static constexpr int kStages = Shape::kStages;
  static constexpr int kSums = kRows / 2;

  const bool is_prefix;
  const int kv_head;
  const int num_keys;
  const int num_before;  // positions in front of the rows, counted from the block's first key
  const int first_row;   // of the queries
  int num_tiles;         // of a head's queries

  __device__ Keys(const Params& params, bool is_prefix, unsigned char* bytes)
      : Work<Shape>(params, false, bytes),
        is_prefix(is_prefix),
        kv_head(static_cast<int>(blockIdx.x)),
        num_keys(is_prefix ? block.prefix.num_tokens : block.num_rows),
        num_before((is_prefix ? block.prefix.num_tokens : 0) - block.first),
        first_row(is_prefix ? 0 : block.first) {
    const int last_key = min(kRows, num_keys - block.first) - 1;
    const int end = min(block.num_rows, last_key + params.window - num_before);
    num_tiles = max(end - first_row + kRows - 1, 0) / kRows;
  }

  // A step is a tile of queries of one of the group's heads.
  __device__ __forceinline__ int RowOf(int step) const {
    return first_row + step % num_tiles * kRows;
  }
  __device__ __forceinline__ void BringStep(int step) const {
    const int head = kv_head * params.group + step / num_tiles;
    const int row = RowOf(step), stage = step % kStages;
    this->Bring(HeadRows(args, block, head), row, block.num_rows, shared.Others(stage, 0));
    this->Bring(GradientRows(params, block, head), row, block.num_rows, shared.Others(stage, 1));
    if (group != 0) return;
    const int which = static_cast<int>(threadIdx.x) / kRows;
    const int local = row + static_cast<int>(threadIdx.x) % kRows;
    const float* stats = which == 0 ? params.log_sums : params.means;
    const bool present = local < block.num_rows;
    CopyWordAsync(SharedAddress(shared.Stats(stage, which) + threadIdx.x % kRows),
                  stats + int64_t{head} * args.num_rows + block.begin + (present ? local : 0),
                  present);
  }

  // Products q k become weights. worths: the weights' gradients become those of q k, or, without
  // `means`, any numbers what those less their mean are to be multiplied by.
  __device__ __forceinline__ void Weigh(int step, const float* log_sums, const float* means,
                                        float (&weights)[kSums], float (&worths)[kSums]) const {
    this->Cap(weights);
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      const float t = weights[i];
      weights[i] = Exp2(__fmaf_rn(t, params.cap_log2, -log_sums[LocalColumn(i)]));
      const float worth = means == nullptr ? 1.0f : worths[i] - means[LocalColumn(i)];
      worths[i] = weights[i] * worth * this->Slope(t);
    }
    const int row = RowOf(step), tile = step % num_tiles;
    const bool masks = (!is_prefix && tile == 0) || tile + 1 == num_tiles ||
                       num_before + row + kRows - 1 >= params.window;
    if (!masks) return;
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      const int query = row + LocalColumn(i);
      // How far the key lies back.
      const int back = num_before + query - LocalRow<Shape>() - i % 4 / 2 * 8;
      const bool sees = back >= 0 && back < params.window && query < block.num_rows;
      if (!sees) weights[i] = worths[i] = 0.0f;
    }
  }

  // By one group.
  __device__ __forceinline__ void AddQueries(int step, float (&keys)[kDim / 2],
                                             float (&values)[kDim / 2]) const {
    const int stage = step % kStages;
    float weights[kSums], worths[kSums];
    Products::Begin();
    Products::template Multiply<Shape>(shared.Mine(0), shared.Others(stage, 0), weights);
    Products::template Multiply<Shape>(shared.Mine(1), shared.Others(stage, 1), worths);
    Products::End(weights, worths);
    Weigh(step, shared.Stats(stage, 0), shared.Stats(stage, 1), weights, worths);
    uint32_t packed_weights[kSums / 8][4], packed_worths[kSums / 8][4];
    Pack(weights, packed_weights);
    Pack(worths, packed_worths);
    Products::Begin();
    Products::template MultiplyAdd<Shape>(packed_weights, shared.Others(stage, 1), values);
    Products::template MultiplyAdd<Shape>(packed_worths, shared.Others(stage, 0), keys);
    Products::End(values, keys);
  }

  // Four of a thread's weights on their way from the first group to the second.
  __device__ __forceinline__ float4* Passed(int i) const {
    return reinterpret_cast<float4*>(shared.bytes + Shape::kWeights) + i * Shape::kGroupThreads +
           threadIdx.x % Shape::kGroupThreads;
  }

  // By two: `sums` are the values' of the first, the keys' of the second. Each multiplies what it
  // has rows of: queries by keys, or gradients by values.
  __device__ __forceinline__ void AddQueriesByTwo(int step, float (&sums)[kDim / 2]) const {
    const int stage = step % kStages;
    float products[kSums];
    Products::Begin();
    Products::template Multiply<Shape>(shared.Mine(group), shared.Others(stage, group), products);
    Products::End(products);
    if (group == 0) {
      float slopes[kSums];
      Weigh(step, shared.Stats(stage, 0), nullptr, products, slopes);
#pragma unroll
      for (int i = 0; i < kSums / 4; ++i) {
        *Passed(i) = {slopes[4 * i], slopes[4 * i + 1], slopes[4 * i + 2], slopes[4 * i + 3]};
      }
      ArriveThreads<Shape::kThreads, 1>();
    } else {
      SyncThreads<Shape::kThreads, 1>();
      const float* const means = shared.Stats(stage, 1);
#pragma unroll
      for (int i = 0; i < kSums / 4; ++i) {
        const float4 slopes = *Passed(i);
        products[4 * i] = slopes.x * (products[4 * i] - means[LocalColumn(4 * i)]);
        products[4 * i + 1] = slopes.y * (products[4 * i + 1] - means[LocalColumn(4 * i + 1)]);
        products[4 * i + 2] = slopes.z * (products[4 * i + 2] - means[LocalColumn(4 * i + 2)]);
        products[4 * i + 3] = slopes.w * (products[4 * i + 3] - means[LocalColumn(4 * i + 3)]);
      }
    }
    uint32_t packed[kSums / 8][4];
    Pack(products, packed);
    Products::Begin();
    Products::template MultiplyAdd<Shape>(packed, shared.Others(stage, 1 - group), sums);
    Products::End(sums);
  }

  __device__ __forceinline__ void Run() const {
#pragma unroll
    for (int which = 0; which < 2; ++which) {  // keys, values
      const int head = kv_head + which * args.num_kv_heads;
      this->Bring(
          is_prefix ? PrefixRows(args, block, head) : HeadRows(args, block, args.num_heads + head),
          block.first, num_keys, shared.Mine(which));
    }
    const int num_steps = num_tiles * params.group;
    if (kStages > 1 && num_steps > 0) BringStep(0);
    CommitCopies();
    // A lone group sums the gradients of keys ([0]) and of values ([1]). Where there are two,
    // the first sums those of values and the second those of keys.
    float sums[2 / Shape::kGroups][kDim / 2] = {};
    for (int step = 0; step < num_steps; ++step) {
      if (step + kStages - 1 < num_steps) BringStep(step + kStages - 1);
      CommitCopies();
      Products::template AwaitRows<kStages - 1>();
      if constexpr (Shape::kGroups == 1) {
        AddQueries(step, sums[0], sums[1]);
      } else {
        AddQueriesByTwo(step, sums[0]);
      }
      __syncthreads();
    }
    // Without a step the copies of keys and values are still on their way.
    WaitForAllCopies();
    __syncthreads();
    if constexpr (Shape::kGroups == 1) {
      this->PutSums(0, args.scale, false, sums[0]);
      this->PutSums(1, 1.0f, false, sums[1]);
    } else {
      this->PutSums(1 - group, group == 0 ? 1.0f : args.scale, false, sums[0]);
    }
    __syncthreads();
    if (is_prefix) {
      this->StorePrefixHead(0, kv_head);
      this->StorePrefixHead(1, kv_head + args.num_kv_heads);
    } else {
      this->StoreHead(0, args.num_heads + kv_head, params.rotary_half);
      this->StoreHead(1, args.num_heads + kv_head + args.num_kv_heads, 0);
    }
  }
};

// blockIdx: head, so many queries as the shape has rows, sequence.
template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kBlocks)
    GeneralQueriesKernel(const __grid_constant__ Params params) {
  extern __shared__ __align__(1024) unsigned char bytes[];
  if constexpr (Shape::Products::kHasCode) {
    LetNextStart();
    WaitForPrevious();
    const Queries<Shape> queries(params, bytes);
    if (queries.block.first < queries.block.num_rows) queries.Run();
  }
}

// blockIdx: key head, as many keys of the sequence's rows, or of its prefix; sequence.
template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kBlocks)
    GeneralKeysKernel(const __grid_constant__ Params params, bool is_prefix) {
  extern __shared__ __align__(1024) unsigned char bytes[];
  if constexpr (Shape::Products::kHasCode) {
    LetNextStart();
    WaitForPrevious();
    const Keys<Shape> keys(params, is_prefix, bytes);
    if (keys.block.first < keys.num_keys) keys.Run();
  }
}

template <typename Shape>
void LaunchShape(const Params& params, Stream& stream) {
  const AttentionBackwardArgs& args = params.args;
  LaunchMeans<Shape, true>(params, stream);
  const auto launch = [&](auto* kernel, int64_t rows_max, int32_t heads, auto... more) {
    CUDA_CHECK(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape::kBytes));
    LaunchKernel(kernel, GridOf(heads, CeilDiv(rows_max, Shape::kRows), args.num_sequences),
                 dim3(Shape::kThreads), Shape::kBytes, CudaStreamOf(stream), params, more...);
  };
  launch(GeneralQueriesKernel<Shape>, args.sequence_rows_max, args.num_heads);
  launch(GeneralKeysKernel<Shape>, args.sequence_rows_max, args.num_kv_heads, false);
  if (args.prefixes == nullptr) return;
  launch(GeneralKeysKernel<Shape>, args.prefix_tokens_max, args.num_kv_heads, true);
}

}  // namespace graft::attention_backward
