#include "kernels/gemm/gemm_bricks.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "kernels/gemm/code_pairs.h"

namespace graft {
namespace {

// Where in a word of 4 bits number `i` of its eight lies: columns 2t, 2t + 1, 2t + 8, 2t + 9 and
// the same 16 further.
int ShiftOf4(const WeightFormat& format, int i) {
  if (format.codes == WeightCodes::kNormal4) return 4 * i;
  return i / 2 * 4 + i % 2 * 16;
}
int ShiftOf8(int i) { return i / 2 * 8 + i % 2 * 16; }

// A row's words of a brick, to the lanes of row `g`. codes: of its 128 columns.
void PackWords(const WeightFormat& format, const uint8_t* codes, int64_t g, uint32_t* words) {
  const int numbers = 32 / format.bits;
  const int64_t unit_columns = 4 * numbers;
  for (int64_t unit = 0; unit * unit_columns < kBrickColumns; ++unit) {
    for (int64_t t = 0; t < 4; ++t) {
      uint32_t word = 0;
      for (int i = 0; i < numbers; ++i) {
        const int64_t column = unit * unit_columns + i / 2 * 8 + 2 * t + i % 2;
        const int shift = format.bits == 4 ? ShiftOf4(format, i) : ShiftOf8(i);
        word |= uint32_t{codes[column]} << shift;
      }
      words[unit * 32 + g * 4 + t] = word;
    }
  }
}

void PackEntry(const WeightFormat& format, bool is_narrow, const CodeScale& scale, char* out) {
  if (is_narrow) {
    const Bfloat16 rounded = FromFloat<Bfloat16>(scale.scale);
    CHECK(ToFloat(rounded) == scale.scale) << "bf16 does not hold the scale " << scale.scale;
    std::memcpy(out, &rounded, sizeof(rounded));
  } else {
    std::memcpy(out, &scale.scale, sizeof(scale.scale));
  }
  if (!format.has_zero_points) return;
  const uint32_t minus = format.bits == 4 ? codes::MinusRaised4(static_cast<uint32_t>(scale.zero))
                                          : codes::MinusSigned8(scale.zero);
  const auto bits = static_cast<uint16_t>(minus);
  std::memcpy(out + sizeof(scale.scale), &bits, sizeof(bits));
}

}  // namespace

void PackBricks(const CodeSource& source, const WeightFormat& format, int64_t strip, char* out) {
  CHECK(format.scales == DType::kBF16 || format.scales == DType::kF32);
  const int64_t k = source.k();
  const GemmBricksLayout layout(format, source.n(), k);
  std::vector<uint8_t> codes(static_cast<size_t>(layout.num_bricks * kBrickColumns));
  std::vector<CodeScale> scales(static_cast<size_t>(NumScales(format, k)));
  std::memset(out, 0, static_cast<size_t>(layout.strip_bytes()));
  const int64_t num_rows = std::min(kBrickRows, source.n() - strip * kBrickRows);
  for (int64_t g = 0; g < num_rows; ++g) {
    source.ReadRow(strip * kBrickRows + g, codes.data(), scales.data());
    for (int64_t brick = 0; brick < layout.num_bricks; ++brick) {
      char* const brick_out = out + brick * layout.brick_bytes;
      PackWords(format, codes.data() + brick * kBrickColumns, g,
                reinterpret_cast<uint32_t*>(brick_out));
      for (int64_t i = 0; i < layout.scales_of_row(); ++i) {
        const int64_t column = brick * kBrickColumns + i * layout.scale_numbers;
        if (column >= k) break;
        PackEntry(
            format, HasNarrowScales(format, k), scales[column / format.scale_numbers],
            brick_out + layout.code_bytes + (g * layout.scales_of_row() + i) * layout.entry_bytes);
      }
    }
  }
}

}  // namespace graft
