// OpCheck: an op computed on a device and compared, number by number, with its definition in double
// precision on the host. Inputs are small and drawn, the same everywhere, so that all checks take
// less than ten seconds together. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tensor/dtype.h"
#include "tensor/stream.h"

namespace graft {

// What a check found. The first number that differs says more than how many do.
class Comparison {
 public:
  // Numbers may differ by `tolerance` times the sum of the magnitudes that went into them, and by a
  // step of fp16's smallest numbers.
  explicit Comparison(double tolerance) : tolerance_(tolerance) {}

  // `magnitude`: the sum of the magnitudes of the terms that make up `expected`.
  void Expect(std::string_view what, int64_t index, double actual, double expected,
              double magnitude);

  bool is_equal() const { return first_difference_.empty(); }
  // "" or the first number that differs, with what it should be.
  const std::string& first_difference() const { return first_difference_; }
  int64_t num_compared() const { return num_compared_; }

 private:
  const double tolerance_;
  std::string first_difference_;
  int64_t num_compared_ = 0;
};

struct OpCheck {
  std::string_view op;
  // What is computed, with weights, adapters, keys and values in `dtype`.
  Comparison (*run)(DType dtype, Stream& stream);
};

// The ops of a step that serves, in the order in which a layer has them.
std::span<const OpCheck> AllOpChecks();

Comparison CheckEmbedding(DType dtype, Stream& stream);
Comparison CheckRmsNorm(DType dtype, Stream& stream);
Comparison CheckGemm(DType dtype, Stream& stream);
Comparison CheckLora(DType dtype, Stream& stream);
Comparison CheckGemmWithLora(DType dtype, Stream& stream);
Comparison CheckRopeKvWrite(DType dtype, Stream& stream);
Comparison CheckDecodeAttention(DType dtype, Stream& stream);
Comparison CheckPromptAttention(DType dtype, Stream& stream);
Comparison CheckGatedActivation(DType dtype, Stream& stream);
Comparison CheckSampling(DType dtype, Stream& stream);

}  // namespace graft
