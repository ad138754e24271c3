// PackedMatrix: a quantised weight as one form, whatever its files look like: codes, and for each
// run of inputs a scale and a zero point. Readers of formats make it (weight_formats/). Kernels
// that compute with codes pack these; Dequantise makes numbers of them. Immutable; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "model/shard.h"
#include "tensor/dtype.h"

namespace graft {

// How the numbers of a matrix W [n, k] follow from its codes. W[row, input] is rounded once to
// `dtype` from the fp32 product of value and scale: codes[row, input] less the zero point of the
// input's group or, where there is a code book, its entry; times the group's scale.
struct PackedForm {
  int64_t n = 0;
  int64_t k = 0;
  int32_t bits = 4;            // of a code: 4 or 8
  int64_t groups = 1;          // of inputs, as many in each
  DType dtype = DType::kBF16;  // of the numbers, as the library has them
  // [2^bits], or empty: codes are integers and have zero points.
  std::vector<float> code_book = {};
  // [k]: the group of each input; empty: input / (k / groups).
  std::vector<int32_t> group_of = {};

  int64_t group_size() const { return k / groups; }
};

class PackedMatrix {
 public:
  explicit PackedMatrix(PackedForm form) : form_(std::move(form)) {}
  virtual ~PackedMatrix() = default;

  const PackedForm& form() const { return form_; }

  // Codes below 2^bits to out [rows, inputs]; inputs.begin is a multiple of 8.
  virtual void Codes(const IndexRange& rows, const IndexRange& inputs, uint8_t* out) const = 0;
  // To out [rows, groups], finite.
  virtual void Scales(const IndexRange& rows, float* out) const = 0;
  // To out [rows, groups], below 2^bits; not called where there is a code book.
  virtual void Zeros(const IndexRange& rows, uint8_t* out) const = 0;

 private:
  const PackedForm form_;
};

// The numbers as [n, k] of form().dtype, in the library's bits, on these threads.
void Dequantise(const PackedMatrix& matrix, void* out, ThreadPool& threads);

}  // namespace graft
