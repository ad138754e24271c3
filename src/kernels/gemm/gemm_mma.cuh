// The GEMM kernel of bf16 and fp16 for every card from sm_80 on that has no kernel of its own, and
// for every m. A block computes one tile. All of its threads copy stages of x and W to a ring in
// shared memory by cp.async, and read them back by ldmatrix for mma.sync. Whatever the tile's
// shape, every element of y is one accumulator's sum over k in ascending steps of 16, in which W is
// the first operand. That is Gemm's promise, it holds by construction, and so each call may choose
// its tile freely.
#pragma once

#include "kernels/common/cuda_launch.cuh"
#include "kernels/gemm/gemm_mma_lora.cuh"
#include "kernels/gemm/gemm_mma_operands.cuh"
#include "kernels/gemm/gemm_mma_shape.cuh"
#include "kernels/gemm/gemm_mma_store.cuh"

namespace graft::mma {

// Waits until x, and what earlier kernels left in y, may be read.
template <typename Shape>
__device__ __forceinline__ void AwaitX(const typename Shape::Args& args) {
  if constexpr (Shape::kLora) {
    // LoraShrink saw them before it let this kernel begin.
    if (args.lora.lora.precedes_product) return SeeWhatPreviousSaw();
  }
  WaitForPrevious();
}

struct NoItems {
  __device__ NoItems(const auto&...) {}
};

template <typename Shape>
class Block {
 public:
  __device__ __forceinline__ Block(const typename Shape::Args& args, char* shared, int row,
                                   int column_tile)
      : args_(args),
        ring_(SharedAddress(shared)),
        loader_(args, ring_, row, column_tile),
        items_(args, reinterpret_cast<LoraState<Shape>*>(shared + Shape::LoraStateAt(args)), ring_,
               row, column_tile) {}

  __device__ __forceinline__ void Run(const Ends<Shape>& put) {
    Begin();
    Sums<Shape> sums = {};
    if constexpr (Shape::kCodes) {
      MultiplyCodes(sums, put);
      if constexpr (Shape::kLora) AddItems(sums);
      if constexpr (Shape::kGroups > 1) return JoinGroups(sums, put);
      const bool in_turn = Shape::kRangesInTurn && args_.range_steps < args_.num_steps;
      put(sums, RangeEnds<Shape>{.is_first = !in_turn});
    } else {
      MultiplyAll(sums);
      if constexpr (Shape::kLora) AddItems(sums);
      put(sums, RangeEnds<Shape>{});
    }
  }

 private:
  static constexpr int kAhead = Shape::kStages - 1;  // stages on their way

  // Copies for the first stages. Where a launch may overlap the one before it, W, which is
  // constant, is asked for before the wait for x; else each stage comes as one.
  __device__ __forceinline__ void Begin() {
    const int count = min(kAhead, args_.num_steps);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#pragma unroll 1
    for (int stage = 0; stage < count; ++stage) loader_.LoadW(stage, stage);
    if constexpr (Shape::kCodes) Reader<Shape>::Prepare(args_, ring_);
    if constexpr (Shape::kLora) items_.List();
    AwaitX<Shape>(args_);
    // Not earlier: the next kernel may be LoRA's shrink, which then relies on x being there
    // (LoraArgs::follows_product). Its blocks begin as this kernel's leave.
    LetNextStart();
#pragma unroll 1
    for (int stage = 0; stage < count; ++stage) {
      loader_.LoadX(stage, stage);
      CommitCopies();
    }
#else
#pragma unroll 1
    for (int stage = 0; stage < count; ++stage) {
      loader_.LoadW(stage, stage);
      loader_.LoadX(stage, stage);
      CommitCopies();
    }
    if constexpr (Shape::kCodes) Reader<Shape>::Prepare(args_, ring_);
    if constexpr (Shape::kLora) items_.List();
#endif
#pragma unroll 1
    for (int stage = count; stage < kAhead; ++stage) {
      if constexpr (Shape::kLora) __syncthreads();  // between two items
      LoadStep(stage, stage);
    }
  }

  // Copies for step `step`, k's or an item's after those, if there is one. It always counts as a
  // group of copies.
  __device__ __forceinline__ void LoadStep(int step, int stage) {
    if (step < args_.num_steps) {
      loader_.LoadW(step, stage);
      loader_.LoadX(step, stage);
    } else if constexpr (Shape::kLora) {
      if (step - args_.num_steps < items_.num_items()) items_.Load(step - args_.num_steps, stage);
    }
    CommitCopies();
  }

  static __device__ __forceinline__ int After(int stage) {
    return stage + 1 == Shape::kStages ? 0 : stage + 1;
  }
  // The next stage is there, and no thread reads the one that LoadStep fills next.
  static __device__ __forceinline__ void AwaitStage() {
    WaitForCopies<kAhead - 1>();
    __syncthreads();
  }

  // The fragments of the next piece are read while those of this one are multiplied.
  __device__ __forceinline__ void MultiplyAll(Sums<Shape>& sums) {
    const Reader<Shape> reader;
    Fragments<Shape> fragments[2];
    AwaitStage();
    uint32_t at = ring_;
    reader.Read(at, 0, fragments[0]);
#pragma unroll 1
    for (int step = 0; step < args_.num_steps; ++step) {
      const int next = After(stage_);
#pragma unroll
      for (int piece = 0; piece < Shape::kPieces; ++piece) {
        // The stage before this one is free. An item needs registers, and then comes first.
        const int free = stage_ == 0 ? kAhead : stage_ - 1;
        if (Shape::kLora && piece == 0) LoadStep(step + kAhead, free);
        if (piece + 1 < Shape::kPieces) {
          reader.Read(at, piece + 1, fragments[(piece + 1) % 2]);
        } else {
          at = ring_ + next * Shape::StageBytes(args_);
          if (step + 1 < args_.num_steps) {
            AwaitStage();
            reader.Read(at, 0, fragments[0]);
          }
        }
        if (!Shape::kLora && piece == 0) LoadStep(step + kAhead, free);
        Multiply<Shape>(fragments[piece % 2], sums);
      }
      stage_ = next;
    }
  }

  // The same of codes, of which numbers are made in registers: those of the next piece after the
  // products of this one are issued, from words that were read two pieces before. So the next stage
  // is awaited two pieces before the end of this one, of which nothing but registers is left then.
  __device__ __forceinline__ void MultiplyCodes(Sums<Shape>& sums, const Ends<Shape>& put) {
    constexpr int kPieces = Shape::kPieces;
    Reader<Shape> reader(args_, ring_);
    AwaitStage();
    LoadStep(kAhead, kAhead);
    uint32_t at = ring_;
    reader.ReadWords(at, 0);
    reader.ReadWords(at, 1);
    reader.ReadX(at, 0);
    reader.MakeNumbers(0);
#pragma unroll 1
    for (int step = 0; step < args_.num_steps; ++step) {
      const bool is_last = step + 1 == args_.num_steps;
      if (Shape::kRangesInTurn && step == args_.range_steps) put.First(sums);
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece) {
        if (piece + 1 < kPieces) reader.ReadX(at, piece + 1);
        if (piece == kPieces - 2 && !is_last) {
          AwaitStage();
          LoadStep(step + Shape::kStages, stage_);
          stage_ = After(stage_);
          at = ring_ + stage_ * Shape::StageBytes(args_);
        }
        if (piece < kPieces - 2 || !is_last) reader.ReadWords(at, (piece + 2) % kPieces);
        if (piece + 1 == kPieces && !is_last) reader.ReadX(at, 0);
        reader.Multiply(piece, sums);
        reader.MakeNumbers((piece + 1) % kPieces);
      }
    }
    stage_ = After(stage_);
  }

  // The second group's sums come to the first group by way of the ring.
  __device__ __forceinline__ void JoinGroups(Sums<Shape>& sums, const Ends<Shape>& put) const {
    constexpr int kGroupThreads = Shape::kThreads / 2;
    constexpr int kSums = static_cast<int>(sizeof(Sums<Shape>) / sizeof(float));
    auto& all = reinterpret_cast<float(&)[kSums]>(sums);
    const auto thread = static_cast<int>(threadIdx.x);
    const uint32_t place = ring_ + thread % kGroupThreads * 8;
    __syncthreads();
    if (thread >= kGroupThreads) {
#pragma unroll
      for (int i = 0; i < kSums; i += 2) {
        StoreSharedFloat2(place + i * kGroupThreads * 4, all[i], all[i + 1]);
      }
    }
    __syncthreads();
    if (thread >= kGroupThreads) return;
    Sums<Shape> second;
    auto& others = reinterpret_cast<float(&)[kSums]>(second);
#pragma unroll
    for (int i = 0; i < kSums; i += 2) {
      const float2 pair = LoadSharedFloat2(place + i * kGroupThreads * 4);
      others[i] = pair.x;
      others[i + 1] = pair.y;
    }
    put(second, RangeEnds<Shape>{.before = &sums});
  }

  __device__ __forceinline__ void AddItems(Sums<Shape>& sums) {
    const int num_items = items_.num_items();
#pragma unroll 1
    for (int item = 0; item < num_items; ++item) {
      AwaitStage();
      LoadStep(args_.num_steps + item + kAhead, stage_ == 0 ? kAhead : stage_ - 1);
      items_.Add(stage_, sums);
      stage_ = After(stage_);
    }
    WaitForPrevious();  // also without items: the next kernel relies on it
  }

  const typename Shape::Args& args_;
  const uint32_t ring_;
  Loader<Shape> loader_;
  std::conditional_t<Shape::kLora, LoraItems<Shape>, NoItems> items_;
  int stage_ = 0;
};

template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kBlocksMin)
    Kernel(const __grid_constant__ typename Shape::Args args) {
  extern __shared__ __align__(1024) char shared[];
  constexpr int kTilesPerVisit = kRowsPerVisit / Shape::kRows;
  const auto item = static_cast<int>(blockIdx.x);
  const int first = item / (kTilesPerVisit * args.num_column_tiles) * kTilesPerVisit;
  const int tiles = min(kTilesPerVisit, args.num_row_tiles - first);
  const int rest = item - first * args.num_column_tiles;
  const int row = (first + rest % tiles) * Shape::kRows;
  const int column_tile = rest / tiles;
  Block<Shape>(args, shared, row, column_tile).Run(Ends<Shape>{args, row, column_tile});
}

}  // namespace graft::mma
