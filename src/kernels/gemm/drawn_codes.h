// For the tests of products of codes: formats, and codes that are drawn.
#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "kernels/gemm/code_source.h"

namespace graft::testing {

struct CodesCase {
  std::string name;
  WeightFormat format;
  int64_t n;
  int64_t k;
};

inline WeightFormat InAnOrder(WeightFormat format) {
  format.has_input_order = true;
  return format;
}

inline std::vector<CodesCase> CodesCases() {
  const DType bf16 = DType::kBF16;
  return {{"int4 of 128", WeightFormat::Integers(bf16, 4, 128, false, bf16), 70, 384},
          {"int4 of 128, a tail of k", WeightFormat::Integers(bf16, 4, 128), 33, 333},
          {"int4 of 32", WeightFormat::Integers(bf16, 4, 32, false, bf16), 32, 96},
          {"int4 of 96", WeightFormat::Integers(bf16, 4, 96), 5, 500},
          {"int4 of 256", WeightFormat::Integers(bf16, 4, 256, false, bf16), 40, 512},
          {"int4 of 64 with zero points", WeightFormat::Integers(bf16, 4, 64, true), 47, 200},
          {"int4 of 128 with zero points, scales in bf16",
           WeightFormat::Integers(bf16, 4, 128, true, bf16), 264, 200},
          {"int4 of 128, more rows than columns", WeightFormat::Integers(bf16, 4, 128, false, bf16),
           330, 264},
          {"int8 of rows", WeightFormat::Integers(bf16, 8, 1000, false, bf16), 64, 1000},
          {"int8 of 128", WeightFormat::Integers(bf16, 8, 128, false, bf16), 390, 328},
          {"int8 of 32 with zero points", WeightFormat::Integers(bf16, 8, 32, true), 1, 64},
          {"int8 of 64 with zero points, scales in bf16",
           WeightFormat::Integers(bf16, 8, 64, true, bf16), 23, 192},
          {"int4 of 64 with zero points, in an order",
           InAnOrder(WeightFormat::Integers(bf16, 4, 64, true)), 37, 320},
          {"int8 of 96, in an order, a tail of k", InAnOrder(WeightFormat::Integers(bf16, 8, 96)),
           70, 250},
          {"NF4", WeightFormat::Normal4(bf16), 66, 320},
          {"NF4, more rows than columns", WeightFormat::Normal4(bf16), 264, 200},
          {"NF4, a tail of k", WeightFormat::Normal4(bf16), 31, 7}};
}

// Codes of all values, scales of both signs.
class DrawnCodes : public CodeSource {
 public:
  explicit DrawnCodes(const CodesCase& c) : case_(c) {
    if (!c.format.has_input_order) return;
    order_.resize(static_cast<size_t>(c.k));
    std::iota(order_.begin(), order_.end(), 0);
    Random random(5);
    for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random.Bits() % i]);
  }

  int64_t n() const override { return case_.n; }
  int64_t k() const override { return case_.k; }
  void ReadRow(int64_t n, uint8_t* codes, CodeScale* scales) const override {
    Random random(static_cast<uint64_t>(n) + 1);
    const uint64_t mask = (uint64_t{1} << case_.format.bits) - 1;
    for (int64_t i = 0; i < case_.k; ++i) codes[i] = static_cast<uint8_t>(random.Bits() & mask);
    for (int64_t i = 0; i < case_.k; i += case_.format.scale_numbers, ++scales) {
      scales->scale = static_cast<float>(random.Normal() * 0.05);
      if (case_.format.scales == DType::kBF16) {
        scales->scale = ToFloat(FromFloat<Bfloat16>(scales->scale));
      }
      scales->zero = static_cast<float>(random.Bits() & mask);
    }
  }

  std::span<const int32_t> InputOrder() const override { return order_; }

  // The numbers [n, k] that the codes stand for, each where its input is.
  std::vector<float> Numbers() const {
    std::vector<float> numbers(static_cast<size_t>(case_.n * case_.k));
    std::vector<uint8_t> codes(static_cast<size_t>(case_.k));
    std::vector<CodeScale> scales(static_cast<size_t>(case_.k));
    for (int64_t row = 0; row < case_.n; ++row) {
      ReadRow(row, codes.data(), scales.data());
      for (int64_t i = 0; i < case_.k; ++i) {
        const int64_t input = order_.empty() ? i : order_[i];
        numbers[row * case_.k + input] =
            NumberOfCode(case_.format, codes[i], scales[i / case_.format.scale_numbers]);
      }
    }
    return numbers;
  }

 private:
  const CodesCase case_;
  std::vector<int32_t> order_;
};

}  // namespace graft::testing
