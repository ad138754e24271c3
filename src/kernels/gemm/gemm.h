// Gemm: y = x W^T (+ bias) (+ y), the dense projections, or x W. Row i of y depends on row i of x
// and on W alone, bit for bit, whatever m is: a request's output must not depend on its batch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "kernels/gemm/weight_format.h"
#include "kernels/gemm/weight_source.h"
#include "tensor/buffer.h"
#include "tensor/stream.h"

namespace graft {

struct LoraArgs;  // kernels/lora/lora.h

// A weight in the layout that the kernels of this machine want. Immutable after Pack, but for those
// that Like made, which LoraMerge fills; any thread.
class GemmWeight {
 public:
  // The source's rows in that format: plain fp32 and bf16, and fp16 on a GPU.
  static GemmWeight Pack(const WeightSource& source, const WeightFormat& format, Stream& stream);
  // Stacks `parts`, each [n_i, k] as HF stores a Linear, in memory of the host, into one [sum n_i,
  // k]: q, k and v (or gate and up) become one GEMM.
  static GemmWeight Pack(std::span<const TensorView> parts, const WeightFormat& format,
                         Stream& stream) {
    return Pack(StackedTensors(parts), format, stream);
  }
  // RandomNumbers, drawn where the weight lives.
  static GemmWeight Random(std::span<const DrawnRows> parts, int64_t k, float deviation,
                           DType dtype, Stream& stream);

  // What a weight of [n, k] takes, with its scales.
  static int64_t BytesFor(int64_t n, int64_t k, const WeightFormat& format, const Device& device);

  // Room for a weight of the other's shape, on its device: zeros, until its state is filled.
  static GemmWeight Like(const GemmWeight& other);

  // W^T, whose Gemm takes the gradient of y to that of x. On the CPU it is made piece by piece,
  // with `pause`, where there is one, between pieces: others may have the stream's threads
  // meanwhile.
  GemmWeight Transposed(Stream& stream, const std::function<void()>& pause = {}) const;
  // Room for the other's W^T on a GPU, and filling it, in order on the stream.
  static GemmWeight LikeTransposed(const GemmWeight& other);
  void TransposeFrom(const GemmWeight& other, Stream& stream);

  GemmWeight();
  GemmWeight(GemmWeight&&) noexcept;
  GemmWeight& operator=(GemmWeight&&) noexcept;
  ~GemmWeight();

  int64_t n() const;
  int64_t k() const;
  WeightFormat format() const;
  DType dtype() const { return format().operands; }  // what the products take
  int64_t bytes() const;

  struct State;  // the backend's own
  const State* state() const { return state_.get(); }
  State* mutable_state() { return state_.get(); }

 private:
  std::unique_ptr<State> state_;
};

struct GemmArgs {
  // y = x W, which takes the gradient of x W^T to that of x: n and k stand in each other's place
  // below. Where GemmReadsTransposed, and x's rows are on borders of 16 bytes.
  bool transposed = false;
  const void* x = nullptr;  // [m, k] of weight.dtype() or fp32, rows x_stride elements apart
  int64_t x_stride = 0;
  int64_t m = 0;  // 0 is allowed and does nothing
  const GemmWeight* weight = nullptr;
  const float* bias = nullptr;  // [n] or null
  float* y = nullptr;           // [m, n], rows y_stride elements apart
  int64_t y_stride = 0;
  bool accumulate = false;  // add to y (the residual) instead of overwriting it
  // x is fp32 whatever weight.dtype() is. CPU only. Beside bf16 weights it enters the products as
  // it is or, where vdpbf16ps multiplies, refined bf16: bf16 plus the larger half of its errors.
  bool x_is_fp32 = false;
  // Adds LoraExpand(*lora) too: of these rows and this y, after LoraShrink(*lora). Where weight and
  // adapters are bf16 Hopper does so in the same kernel: y's sums end with LoRA's terms.
  const LoraArgs* lora = nullptr;
  // Adds Lora(*lora_after) too, after all of the above: of these rows, this x and this y. Where
  // lora_after->beside has what it takes Hopper computes it while the product runs.
  const LoraArgs* lora_after = nullptr;
  // [m, n / 2] of x's type, or null: GatedActivation of y, its left half the gate's and its right
  // half up's, in GatedActivation's bits. y is scratch then, its rows without gaps, and Hopper
  // touches none but kept_rows where everything else happens in the GEMM's kernel too.
  void* activated = nullptr;
  // [m, n] of x's type, or null: y, rounded. On a GPU alone: beside activated, as GatedActivation
  // copies it, or, where transposed and with LoRA, in y's place, which is not touched.
  void* rounded = nullptr;
  // Beside activated: rows of y that are wanted, too, because more is to be added to them.
  struct RowRange {
    int32_t begin = 0;
    int32_t end = 0;
  } kept_rows;
  // Shared memory that a GPU's kernel leaves of each multiprocessor, for launches after it to begin
  // beside it.
  int32_t spared_shared_bytes = 0;
};

void Gemm(const GemmArgs& args, Stream& stream);

// What Gemm keeps beside its operands on the CPU, in the thread that calls it, after calls of up to
// m rows and weights of up to k columns.
int64_t GemmScratchBytes(int64_t m, int64_t k, DType dtype, int num_threads);

// Whether Gemm computes lora_after beside the product, for weights and adapters of this type and m
// rows, given what it takes.
bool GemmRunsLoraBeside(DType dtype, int64_t m, const Device& device);

// Whether GemmArgs::transposed is there for weights of this type. The bits are those of a weight
// that Transposed made.
bool GemmReadsTransposed(DType dtype, const Device& device);

// Whether a Gemm of weights of this type, without LoRA inside or beside it, lets nobody begin
// before x and all else is there, so that a LoraShrink of its x may follow it:
// LoraArgs::follows_product.
bool GemmHoldsNext(DType dtype, const Device& device);

}  // namespace graft
