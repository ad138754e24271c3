// Weights that stay codes: the format that a stacked matrix of a quantised checkpoint is kept in,
// and its rows as the codes of one matrix. Thread-compatible.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/gemm/code_source.h"
#include "layers/served_types.h"
#include "model/config.h"
#include "model/packed_matrix.h"
#include "model/shard.h"

namespace graft {

// Some rows and columns of a quantised weight.
struct CodesPart {
  std::shared_ptr<const PackedMatrix> matrix;
  IndexRange rows;
  IndexRange columns;
};

// The parts below each other, which have as many columns.
class StackedCodes : public CodeSource {
 public:
  // Null where kernels do not take them as one matrix: kinds of codes, sizes of groups or dtypes
  // differ, inputs lie in groups of other sizes or of other inputs than those of the first part, or
  // columns begin within a group.
  static std::unique_ptr<StackedCodes> Make(std::vector<CodesPart> parts, DType operands);

  const WeightFormat& format() const { return format_; }
  int64_t n() const override { return n_; }
  int64_t k() const override { return parts_[0].columns.size(); }
  void ReadRow(int64_t n, uint8_t* codes, CodeScale* scales) const override;
  std::span<const int32_t> InputOrder() const override { return order_; }

 private:
  StackedCodes(std::vector<CodesPart> parts, const WeightFormat& format,
               std::vector<int32_t> order);

  const std::vector<CodesPart> parts_;
  const WeightFormat format_;
  const std::vector<int32_t> order_;  // group after group; empty where inputs are in order
  int64_t n_ = 0;
};

// What the matrix of a layer's product takes on one of num_ranks ranks, if it is kept as `types`
// says: as codes, where the checkpoint has codes that kernels take, or as numbers.
class MatrixFormats {
 public:
  // `config` is the whole model's or, for a rank, ShardConfig's.
  MatrixFormats(const ModelConfig& config, const ServedTypes& types);
  ~MatrixFormats();

  WeightFormat Of(int32_t layer, LayerProduct product) const;

 private:
  const ModelConfig& config_;
  const ServedTypes types_;
  std::unique_ptr<ModuleSchemes> schemes_;  // null: none
};

}  // namespace graft
