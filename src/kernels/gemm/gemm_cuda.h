// Gemm's CUDA half, as gemm.cc, its kernels, its tests and its bench see it.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/random.h"
#include "kernels/gemm/gemm.h"
#include "kernels/lora/lora.h"
#include "tensor/stream.h"

namespace graft {

// A GEMM of a weight in memory of the GPU.
struct GemmCudaArgs {
  GemmArgs gemm;
  // [n, k], rows w_stride elements apart, zeros from k to there; gemm.transposed: [k, n].
  const void* w = nullptr;
  int64_t w_stride = 0;
  int64_t n = 0;
  int64_t k = 0;
  DType dtype = DType::kF32;
  bool codes = false;  // w is bricks (gemm_bricks.h) of gemm.weight's format
};

// The distance between a weight's rows on a GPU: a multiple of 16 bytes, which its copy engine
// asks.
constexpr int64_t GemmCudaStride(int64_t k) { return (k + 7) / 8 * 8; }

// With args.weight, which is packed on a GPU.
GemmCudaArgs CudaArgsOf(const GemmArgs& args);

void GemmCuda(const GemmCudaArgs& args, Stream& stream);
bool GemmCudaRunsLoraBeside(const Device& device);

// The LoRA that is to be computed there; null: none, or no segments of it.
inline const LoraArgs* LoraAt(const GemmArgs& gemm, LoraPlace place) {
  const GemmEpilogue& ends = gemm.epilogue;
  const bool is_there =
      ends.lora != nullptr && ends.lora_place == place && ends.lora->num_segments > 0;
  return is_there ? ends.lora : nullptr;
}

// The epilogue's `activated` of args.y's n columns, by the op GatedActivation.
void ActivateGemm(const GemmArgs& args, DType weight_dtype, int64_t n, Stream& stream);

// What GemmCuda chooses from. fp32 on any card, bf16 and fp16 on any card, and on Hopper alone. The
// first leaves the epilogue's LoRA and activation alone.
void GemmFma(const GemmCudaArgs& args, Stream& stream);
void GemmMma(const GemmCudaArgs& args, Stream& stream);
// With the tile mma::kTiles[tile] (gemm_mma_tiles.h), where rows of x begin and end on borders of
// 16 bytes.
void GemmMma(const GemmCudaArgs& args, size_t tile, Stream& stream);

// A product of codes on any card, which makes numbers of them in registers. It takes x in the order
// of the codes.
void GemmCodesMma(const GemmCudaArgs& args, Stream& stream);
// With the tile codes::kTiles[tile] (gemm_codes_tiles.h), where rows of x begin and end on borders
// of 16 bytes.
void GemmCodesMma(const GemmCudaArgs& args, size_t tile, Stream& stream);
// The same on Hopper, without LoRA inside, where the copy engine can read x. With the tile
// codes::kHopperTiles[tile] (gemm_hopper_codes_tiles.h), which must be one that has a kernel.
bool HopperMultipliesCodes(const GemmCudaArgs& args);
void GemmCodesHopper(const GemmCudaArgs& args, Stream& stream);
void GemmCodesHopper(const GemmCudaArgs& args, size_t tile, Stream& stream);
// Whether products of codes activate: the gate and up in whole strips, summed in one range of k.
bool CodesActivate(int64_t n, int64_t k);

// What GemmArgs::room has: first x in the input order, then W's numbers.
struct GemmRoomPlan {
  GemmRoomPlan(int64_t m, int64_t n, int64_t k, const WeightFormat& format);
  int64_t numbers_begin;  // bytes
  int64_t bytes;          // of all
};
// Writes x in the weight's input order to the room, and returns the product of that.
GemmCudaArgs OrderX(const GemmCudaArgs& args, Stream& stream);
// Writes W's numbers to the room, and returns the products of those, one for each range of k.
std::vector<GemmCudaArgs> MakeNumbers(const GemmCudaArgs& args, Stream& stream);

// A tile of Hopper's kernel: what one thread block computes at a time, see gemm_hopper.cuh. The
// result does not depend on it.
struct GemmTile {
  int groups;  // of 64 rows of x, or of W where swapped
  int width;   // rows of the other
  int boxes;   // of 64 columns of k per stage
  int blocks;  // of a cluster
  bool share_w;
  bool swapped;

  int rows() const { return swapped ? width : groups * 64; }  // of x
  int columns() const { return swapped ? groups * 64 : width; }
  // Whether it can hold gate and up of the same columns, see gemm_hopper_silu.cuh and
  // gemm_hopper_swapped_store.cuh.
  bool activates(int64_t n) const { return (swapped ? n : columns()) % 16 == 0; }
  std::string ToString() const {
    return std::to_string(rows()) + " x " + std::to_string(columns()) +
           (swapped ? " swapped, " : ", ") + std::to_string(boxes) + " boxes, " +
           std::to_string(blocks) + " blocks" +
           (blocks == 1 ? ""
            : share_w   ? " share W"
                        : " share x");
  }
  bool operator==(const GemmTile&) const = default;
};
std::vector<GemmTile> HopperGemmTiles(DType dtype);  // bf16 or fp16
// What of a GemmArgs the choice of a tile depends on.
struct GemmTileNeeds {
  DType dtype = DType::kBF16;
  bool activates = false;
  bool lora_beside = false;  // LoraPlace::kBeside
  bool transposed = false;
};
GemmTile ChooseHopperGemmTile(int64_t m, int64_t n, int64_t k, const GemmTileNeeds& needs,
                              const Device& device);
// Launches LoRA beside it, too, where the epilogue says so. Where `activated` is given the kernel
// writes that alone: the tile must be one that can.
void GemmHopper(const GemmCudaArgs& args, const GemmTile& tile, Stream& stream,
                int shared_bytes_max = std::numeric_limits<int>::max());

// Fills rows [0, num_rows) of `target` on the stream's GPU. fill(begin, end, out) writes those rows
// to page-locked memory, on the stream's threads, while the piece before is copied. Returns when
// all is there. Any thread, one at a time.
void UploadRows(void* target, int64_t num_rows, int64_t row_bytes,
                const std::function<void(int64_t begin, int64_t end, char* out)>& fill,
                Stream& stream);

// target[c][r] = source[r][c] of [num_rows, num_columns] elements of dtype. All of it is there
// before anything launched later begins: Gemm reads a weight before it waits.
void TransposeRows(const void* source, int64_t source_stride, int64_t num_rows, int64_t num_columns,
                   DType dtype, void* target, int64_t target_stride, Stream& stream);

// Element `i` of a random tensor: uniform, of the given standard deviation.
constexpr float RandomWeight(uint64_t seed, int64_t i, float deviation) {
  constexpr float kHalfWidth = 1.7320508f;  // of standard deviation 1
  const uint64_t bits = RandomBits(seed, static_cast<uint64_t>(i / 4 * 4)) >> (i % 4 * 16);
  const float centred = static_cast<float>(static_cast<int32_t>(bits & 0xffffu)) - 32767.5f;
  return centred * (deviation * kHalfWidth / 32768.0f);
}
// RandomWeight to num_rows rows of k elements on the stream's GPU.
void FillRandomRows(uint64_t seed, float deviation, DType dtype, int64_t num_rows, int64_t k,
                    int64_t stride, void* target, Stream& stream);

}  // namespace graft
