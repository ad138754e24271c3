// Where the numbers of a weight come from while it is packed: tensors of a file, or numbers drawn
// at random. Immutable; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/buffer.h"
#include "tensor/dtype.h"

namespace graft {

class WeightSource {
 public:
  virtual ~WeightSource() = default;

  virtual int64_t n() const = 0;
  virtual int64_t k() const = 0;
  // Values [k_begin, k_begin + k) of row n to `out`, as `dtype`.
  virtual void Read(int64_t n, int64_t k_begin, int64_t k, DType dtype, char* out) const = 0;
};

// Tensors of [n_i, k] in memory of the host, one below the other. Borrowed.
class StackedTensors : public WeightSource {
 public:
  explicit StackedTensors(std::span<const TensorView> parts);

  int64_t n() const override { return n_; }
  int64_t k() const override { return parts_[0].shape[1]; }
  void Read(int64_t n, int64_t k_begin, int64_t k, DType dtype, char* out) const override;

 private:
  const std::span<const TensorView> parts_;
  int64_t n_ = 0;
};

// n rows, of which element i has the bits that (seed, i) gives.
struct DrawnRows {
  int64_t n = 0;
  uint64_t seed = 0;
};

// Rows drawn uniformly with that standard deviation, the same on every device.
class RandomNumbers : public WeightSource {
 public:
  RandomNumbers(std::span<const DrawnRows> parts, int64_t k, float deviation);

  int64_t n() const override { return n_; }
  int64_t k() const override { return k_; }
  void Read(int64_t n, int64_t k_begin, int64_t k, DType dtype, char* out) const override;

 private:
  const std::vector<DrawnRows> parts_;
  const int64_t k_;
  const float deviation_;
  int64_t n_ = 0;
};

}  // namespace graft
