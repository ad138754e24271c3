// For benches: a weight of codes of which all rows are the same, since a product takes as long
// whatever they are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/random.h"
#include "kernels/gemm/code_source.h"

namespace graft {

class RepeatedCodes : public CodeSource {
 public:
  RepeatedCodes(int64_t n, int64_t k, const WeightFormat& format)
      : n_(n), row_(static_cast<size_t>(k)), format_(format) {
    Random random(1);
    const uint64_t mask = (uint64_t{1} << format.bits) - 1;
    for (uint8_t& code : row_) code = static_cast<uint8_t>(random.Bits() & mask);
  }

  int64_t n() const override { return n_; }
  int64_t k() const override { return static_cast<int64_t>(row_.size()); }
  void ReadRow(int64_t /*n*/, uint8_t* codes, CodeScale* scales) const override {
    std::copy(row_.begin(), row_.end(), codes);
    std::fill_n(scales, NumScales(format_, k()), CodeScale{.scale = 0x1p-7f, .zero = 8.0f});
  }

 private:
  const int64_t n_;
  std::vector<uint8_t> row_;
  const WeightFormat format_;
};

}  // namespace graft
