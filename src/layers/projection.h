// Projection: one of a layer's four products, y = x W^T + bias (+ y), with the adapters' share of
// the targets that lie side by side in y: the launches of the step's plan, which of several ranks
// end with the sum of all ranks' y. Where the step learns, it goes back, too: to x, and to LoRA's
// matrices. Engine thread, or the thread that trains.
#pragma once

#include <cstdint>

#include "kernels/gemm/gemm.h"
#include "layers/layer_context.h"
#include "layers/layer_step.h"
#include "layers/lora_targets.h"

namespace graft {

// The targets of a product: `first` and those after it, in columns of y one after the other.
struct ProductTargets {
  LoraModule first = LoraModule::kQ;
  int32_t count = 1;
  int64_t n[kLoraSlicesMax] = {};  // columns of each
};
ProductTargets TargetsOf(const ModelShape& shape, LayerProduct product);

// LoRA on these targets of a product: `args` with what follows from that, which is the slices and
// how far rows of x and y lie apart.
LoraArgs MakeLoraArgs(const ProductTargets& targets, const GemmWeight& weight, LoraArgs args);

class Projection {
 public:
  // Borrows all. `bias` may be empty.
  Projection(LayerContext& context, int32_t layer, LayerProduct product, const GemmWeight& weight,
             const Buffer& bias);

  struct Call {
    const void* x = nullptr;    // [rows, k] of LayerContext::activations
    ResidualTarget target;      // [rows, n]; of all ranks together, where they share the inputs
    void* activated = nullptr;  // see GemmEpilogue::activated; of gate and up null: it comes later
    Activation activation = Activation::kSilu;
    void* kept = nullptr;  // beside `activated`, for a backward: GemmEpilogue::rounded
  };
  void Run(const Call& call, const LayerStep& step) const;

  struct BackCall {
    const void* d_y = nullptr;  // [rows, n] of LayerContext::activations
    void* d_x = nullptr;        // [rows, k], the gradient of x; null: it is not asked for
    bool may_round = true;      // d_x may be of activations
  };
  // After a Run of the same step that learns. Returns d_x's type: fp32, or that of activations.
  DType Back(const BackCall& call, const LayerStep& step) const;
  // After Back: the gradients of LoRA's matrices. x as Run took it, d_y as Back did.
  void AddGradients(const void* x, const void* d_y, const LayerStep& step) const;

 private:
  struct Work {
    const Call& call;
    ResidualTarget part;  // where this rank writes its part
  };
  void RunLaunches(const Call& call, const LayerStep& step) const;
  void Launch(const graft::Launch& launch, const Work& work, const LoraArgs& lora,
              const LayerStep& step) const;
  void Multiply(const graft::Launch& launch, const Work& work, const LoraArgs& lora,
                const LayerStep& step) const;
  void Activate(const Work& work, const GemmEpilogue::RowRange& rows, const LayerStep& step) const;
  void ActivateWithoutGate(const Work& work, const GemmEpilogue::RowRange& rows,
                           const LayerStep& step) const;
  // Without segments.
  LoraArgs ArgsOfLora(const Work& work, const LayerStep& step) const;
  LoraBeside MakeLoraBeside(const LayerStep& step) const;

  // Where a step learns.
  void RunToLearn(const Call& call, const LayerStep& step) const;
  Call OfPart(Call call, const RowPart& part) const;
  double FlopOf(int64_t num_rows) const;
  // So many elements of activations further on; of null: null.
  const void* Elements(const void* x, int64_t count) const;
  void* Elements(void* x, int64_t count) const;
  int64_t RankStride(const LayerStep& step) const;
  // Where a row of rounded h begins, and the forward's in a backward's room.
  void* RankRows(void* h, int64_t row, const LayerStep& step) const;
  void* RoundedH(const LayerStep& step) const;
  void RoundH(const RowPart& part, const LayerStep& step) const;
  void RoundBackH(const RowPart& part, const LayerStep& step) const;
  LoraArgs BackLora(const BackCall& call, int32_t slice, const RowPart& part, const LayerStep& step,
                    bool stacked = false) const;
  GemmArgs BackGemm(const BackCall& call, const RowPart& part, GemmArgs gemm, LoraPlace lora_place,
                    bool rounds) const;
  void BackThroughDocuments(const BackCall& call, const LayerStep& step) const;

  LayerContext& context_;
  const int32_t layer_;
  const LayerProduct product_;
  const GemmWeight& weight_;
  const float* const bias_;
  const ProductTargets targets_;
};

}  // namespace graft
