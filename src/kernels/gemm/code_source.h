// Weights as codes of few bits: where they come from, and what makes them of plain numbers.
// Immutable; any thread.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/gemm/weight_format.h"
#include "kernels/gemm/weight_source.h"

namespace graft {

// What a block of codes of a row shares.
struct CodeScale {
  float scale = 0.0f;
  float zero = 0.0f;  // of integers with zero points
};

// Where the codes of a weight come from while it is packed.
class CodeSource {
 public:
  virtual ~CodeSource() = default;

  virtual int64_t n() const = 0;
  virtual int64_t k() const = 0;
  // Row n: a byte for each of k codes, and a scale for each block of format.scale_numbers.
  virtual void ReadRow(int64_t n, uint8_t* codes, CodeScale* scales) const = 0;
  // [k], of a format with an input order: which of x's numbers code i of every row multiplies.
  // Empty of others: number i.
  virtual std::span<const int32_t> InputOrder() const { return {}; }
};

// Plain numbers rounded to codes of `format`, which has no zero points. NF4 takes a block's largest
// magnitude as its scale, as bitsandbytes does. Integers have scales that bf16 holds, as files have
// them: with 8 bits the largest magnitude becomes the code 127; with 4 bits it is the scale, among
// some that clip more and more, that has the least squared error. Borrows the numbers.
class RoundedCodes : public CodeSource {
 public:
  RoundedCodes(const WeightSource& numbers, const WeightFormat& format)
      : numbers_(numbers), format_(format) {}

  int64_t n() const override { return numbers_.n(); }
  int64_t k() const override { return numbers_.k(); }
  void ReadRow(int64_t n, uint8_t* codes, CodeScale* scales) const override;

 private:
  const WeightSource& numbers_;
  const WeightFormat format_;
};

// The number that a code stands for.
float NumberOfCode(const WeightFormat& format, uint8_t code, const CodeScale& scale);

}  // namespace graft
