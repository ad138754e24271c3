// One adapter's matrices in the layout the kernels read: per module A as rows [rank][in] and B^T as
// rows [rank][out], every row aligned to 64 bytes, all in one buffer, in the served dtype. Modules
// that the checkpoint stacks in one projection share the rows of one A, and have their own slices
// of its B. Reading is strict: each tensor of the file must be A or B of a module that the config
// targets, in exactly the shape that the config and the model give, with finite values. Movable:
// pointers stay valid. Immutable once made, any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "adapters/peft_config.h"
#include "adapters/peft_modules.h"
#include "base/status.h"
#include "base/work_crew.h"
#include "kernels/lora/lora.h"
#include "layers/owned_lora.h"
#include "model/config.h"
#include "model/lora_module.h"
#include "model/safetensors.h"
#include "model/shard.h"
#include "tensor/buffer.h"

namespace graft {

enum class LoraSide : uint8_t { kA, kB };

// The name that PEFT gives a tensor of the projection that holds the module:
// "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight".
std::string LoraTensorName(const ModelConfig& model, int32_t layer, LoraModule module,
                           LoraSide side);

// Both matrices of one module as the file holds them: A [rank, in], B [out, rank].
struct LoraTensors {
  TensorView a;
  TensorView b;
  int64_t b_row = 0;  // of the file's tensor, where B begins
  TensorView file_b;  // that tensor, of all modules that share it
  Buffer b_rows;      // where the file has B's rows in pieces: b, which points here; else empty
};

// What the config targets, by the names that the file's modules have: those of a wrapper's text
// depend on the class that the adapter was trained on (ClassModulePath).
Result<std::vector<LoraTarget>> LoraTargetsOf(const SafetensorsFile& file, const PeftConfig& peft,
                                              const ModelConfig& model);

// TellSkippedTargets of the same.
std::string TellSkippedTargetsOf(const SafetensorsFile& file, const PeftConfig& peft,
                                 const ModelConfig& model);

// The file's tensors of a wrapper's towers, which are left out where ModelConfig::text_only says
// so.
std::vector<std::string> TowerTensors(const SafetensorsFile& file, const ModelConfig& model);

// The file's tensors, matched with the config's targets and checked for shape against the model;
// in the order of `targets`. Values are not looked at.
Result<std::vector<LoraTensors>> MatchLoraTensors(const SafetensorsFile& file,
                                                  std::span<const LoraTarget> targets,
                                                  const PeftConfig& peft, const ModelConfig& model);

// Bytes from one row of `elements` to the next: rows begin on borders of 64 bytes.
int64_t LoraRowBytes(int64_t elements, DType dtype);

// One of the adapters that a sum is made of.
struct LoraAddend {
  std::span<const LoraMatrix> matrices;  // as LoraWeights::matrices
  float weight = 1.0f;                   // finite, not 0
};

class LoraWeights {
 public:
  // kInvalidArgument names the tensor and what is wrong with it. A crew helps, if there is one.
  static Result<LoraWeights> Load(const SafetensorsFile& file, const PeftConfig& peft,
                                  const ModelConfig& model, DType dtype, WorkCrew* crew = nullptr);

  // An adapter that leaves all modules alone.
  static LoraWeights None(const ModelConfig& model, DType dtype);
  // The adapter that adds what these add, each times its weight: their ranks one after the other,
  // as PEFT's add_weighted_adapter with combination_type "cat". Weights times scales are one scale
  // for each projection, and factors of at most 1 of the others' rows of A, so that no more is
  // rounded than must be. kInvalidArgument where the ranks are more than kLoraRankMax.
  static Result<LoraWeights> Sum(std::span<const LoraAddend> addends, const ModelConfig& model,
                                 DType dtype);
  // What one of several ranks has of an adapter of `model`, the whole one.
  LoraWeights SliceOf(const ModelConfig& model, const Shard& shard) const;

  // [ModelShape::num_lora_matrices]; rank 0 where the adapter leaves a module alone.
  std::span<const LoraMatrix> matrices() const { return matrices_; }
  const LoraMatrix& matrix(int32_t layer, LoraModule module) const {
    return matrices_[static_cast<size_t>(layer * num_targets_) + static_cast<size_t>(module)];
  }
  // The bytes that the row tables point into, and the row tables of all matrices.
  const Buffer& buffer() const { return buffer_; }
  std::span<const void* const> rows() const { return rows_; }
  std::span<const LoraTarget> targets() const { return targets_; }
  DType dtype() const { return dtype_; }
  int32_t rank_max() const { return rank_max_; }
  // The bytes of the buffer and the row tables.
  int64_t bytes() const;
  // All of it, for LoraStore::Set.
  OwnedLora TakeRows() && {
    return {
        .matrices = std::move(matrices_), .rows = std::move(rows_), .buffer = std::move(buffer_)};
  }

 private:
  LoraWeights() = default;
  void LayOut(const ModelConfig& model);
  Status TargetSum(std::span<const LoraAddend> addends, const ModelConfig& model);

  DType dtype_ = DType::kF32;
  int32_t rank_max_ = 0;
  int32_t num_targets_ = 0;  // of a layer
  std::vector<LoraTarget> targets_;
  Buffer buffer_;
  std::vector<const void*> rows_;  // row pointers of all modules: A's, then B's
  std::vector<LoraMatrix> matrices_;
};

}  // namespace graft
