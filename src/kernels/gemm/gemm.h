// Gemm: y = x W^T, the dense projections, or x W, and what its epilogue makes of these sums. Row i
// of y depends on row i of x and on W alone, bit for bit, whatever m is: a request's output must
// not depend on its batch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "kernels/gemm/code_source.h"
#include "kernels/gemm/weight_format.h"
#include "kernels/gemm/weight_source.h"
#include "kernels/lora/lora.h"
#include "tensor/buffer.h"
#include "tensor/stream.h"

namespace graft {

// A weight in the layout that this machine's kernels want. Immutable after Pack, except those that
// Like made, which LoraMerge fills. Any thread.
class GemmWeight {
 public:
  // Packs the source's rows in that format: plain fp32 and bf16, and fp16 on a GPU.
  static GemmWeight Pack(const WeightSource& source, const WeightFormat& format, Stream& stream);
  // Stacks `parts`, each [n_i, k] as HF stores a Linear, in memory of the host, into one [sum n_i,
  // k]: q, k and v (or gate and up) become one GEMM.
  static GemmWeight Pack(std::span<const TensorView> parts, const WeightFormat& format,
                         Stream& stream) {
    return Pack(StackedTensors(parts), format, stream);
  }
  // Packs the source's codes, in a format that is not plain; on a GPU one with operands in bf16.
  static GemmWeight PackCodes(const CodeSource& source, const WeightFormat& format, Stream& stream);
  // RandomNumbers, drawn where the weight lives.
  static GemmWeight Random(std::span<const DrawnRows> parts, int64_t k, float deviation,
                           DType dtype, Stream& stream);

  // The bytes of a weight of [n, k], with its scales.
  static int64_t BytesFor(int64_t n, int64_t k, const WeightFormat& format, const Device& device);

  // Room for a weight of the other's shape, on its device: zeros, until its state is filled.
  static GemmWeight Like(const GemmWeight& other);

  // W^T. Its Gemm turns the gradient of y into that of x. On the CPU it is made piece by piece.
  // `pause`, unless {}, is called between pieces, so that others can use the stream's threads.
  GemmWeight Transposed(Stream& stream, const std::function<void()>& pause = {}) const;
  // Makes room for the other's W^T on a GPU, and fills it, in order on the stream.
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

// What Gemm makes of its sums s. It is one value, so that code that runs products hands it on
// whole. LoRA's terms join s before the bias if they are computed inside the product. They join y
// behind all else if they are computed beside or after it. The sums round in another order then.
struct GemmEpilogue {
  const float* bias = nullptr;  // [n] or null: s += bias
  // y += scale * s, the residual, instead of y = s. Only a residual's scale may differ from 1.
  bool accumulate = false;
  float scale = 1.0f;
  // LoRA's terms of these rows and this y, which are part of s, and where they are computed. Their
  // LoraArgs::scale is the scale above. Inside and after, LoraShrink came before.
  const LoraArgs* lora = nullptr;
  LoraPlace lora_place = LoraPlace::kAfter;  // inside, beside or after, or CHECK-fails
  // [m, n / 2] of x's type, or null: GatedActivation of y, in its bits. y's left half is the gate's
  // and its right half up's. Then y is scratch, its rows without gaps. If everything else happens
  // in the GEMM's kernel on a GPU, too, that touches only kept_rows of y.
  void* activated = nullptr;
  // [m, n] of x's type, or null: y, rounded, on a GPU only. Beside `activated` it is what
  // GatedActivation copies. In a transposed product with LoRA inside it takes y's place, and y is
  // not touched.
  void* rounded = nullptr;
  // Beside `activated`: rows of y that are wanted, too, because more is to be added to them.
  struct RowRange {
    int32_t begin = 0;
    int32_t end = 0;
  } kept_rows;
};

// Memory that a product of codes may write on a GPU, of GemmRoomBytes for what it is to hold. The
// next product on the same stream may have the same.
struct GemmRoom {
  void* data = nullptr;  // on a border of 256 bytes
  int64_t bytes = 0;
};

struct GemmArgs {
  // Computes y = x W, which turns the gradient of x W^T into that of x; n and k change places
  // below. Needs GemmReadsTransposed, and x's rows on borders of 16 bytes.
  bool transposed = false;
  const void* x = nullptr;  // [m, k] of weight.dtype() or fp32, rows x_stride elements apart
  int64_t x_stride = 0;
  int64_t m = 0;  // 0 is allowed and does nothing
  const GemmWeight* weight = nullptr;
  float* y = nullptr;  // [m, n], rows y_stride elements apart
  int64_t y_stride = 0;
  GemmEpilogue epilogue;
  // x is fp32 whatever weight.dtype() is. CPU only. Beside bf16 weights it is multiplied as it is
  // or, if vdpbf16ps multiplies, as refined bf16: bf16 plus the larger half of its errors.
  bool x_is_fp32 = false;
  // Bytes of shared memory that a GPU's kernel leaves of each multiprocessor, so that launches
  // after it can begin beside it.
  int32_t spared_shared_bytes = 0;
  // A GPU's products of codes need room for x where the format has an input order. Without room for
  // W's numbers many rows take longer.
  GemmRoom room;
};

void Gemm(const GemmArgs& args, Stream& stream);

// The bytes that Gemm keeps beside its operands on the CPU, in the calling thread, after calls of
// up to m rows and weights of up to k columns.
int64_t GemmScratchBytes(int64_t m, int64_t k, const WeightFormat& format, int num_threads);

// What GemmArgs::room needs for products of up to m rows: x in the weight's input order and, where
// `numbers`, W's numbers. 0 on the CPU, and of plain weights.
int64_t GemmRoomBytes(int64_t m, int64_t n, int64_t k, const WeightFormat& format,
                      const Device& device, bool numbers = true);

// Whether a Gemm can add LoRA inside, for weights and adapters of these types.
bool GemmTakesLora(DType dtype, DType adapters, const Device& device);

// Whether it can compute LoRA beside itself, for weights and adapters of this type and m rows.
bool GemmRunsLoraBeside(DType dtype, int64_t m, const Device& device);

// Whether GemmArgs::transposed works for weights of this type. The bits are those of a weight that
// Transposed made.
bool GemmReadsTransposed(DType dtype, const Device& device);

// Whether a Gemm of weights of this type, without LoRA inside or beside it, lets no kernel begin
// before x and all else is there. Then a LoraShrink of its x may follow it:
// LoraArgs::follows_product. It does where launches overlap; elsewhere there is nothing to gain.
bool GemmHoldsNext(DType dtype, const Device& device);

}  // namespace graft
