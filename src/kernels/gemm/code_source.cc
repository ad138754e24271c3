#include "kernels/gemm/code_source.h"

#include <vector>

#include "base/check.h"
#include "kernels/common/cpu_isa.h"
#include "kernels/gemm/code_rounding.h"

namespace graft {

GRAFT_CPU_OP(RoundToCodes, RoundToCodesArgs)

void RoundedCodes::ReadRow(int64_t n, uint8_t* codes, CodeScale* scales) const {
  CHECK(!format_.has_zero_points);
  static thread_local std::vector<float> row, row_scales;
  row.resize(static_cast<size_t>(k()));
  row_scales.resize(static_cast<size_t>(NumScales(format_, k())));
  numbers_.Read(n, 0, k(), DType::kF32, reinterpret_cast<char*>(row.data()));
  Stream alone;  // a row is one thread's work
  RoundToCodesCpu({.format = format_,
                   .numbers = row.data(),
                   .k = k(),
                   .codes = codes,
                   .scales = row_scales.data()},
                  alone);
  for (const float scale : row_scales) *scales++ = {.scale = scale};
}

float NumberOfCode(const WeightFormat& format, uint8_t code, const CodeScale& scale) {
  if (format.codes == WeightCodes::kNormal4) return scale.scale * kNormal4Numbers[code];
  const float zero =
      format.has_zero_points ? scale.zero : static_cast<float>(1 << (format.bits - 1));
  return scale.scale * (static_cast<float>(code) - zero);
}

}  // namespace graft
