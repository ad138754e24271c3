// The GPU's layout of codes, read as a warp's lanes read it, and all that lanes compute from codes:
// the numbers must be NumberOfCode's, rounded to bf16.
#include "kernels/gemm/gemm_bricks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/gemm/code_pairs.h"
#include "kernels/gemm/drawn_codes.h"
#include "kernels/gemm/gemm.h"

namespace graft {
namespace gemm_bricks_test {

using testing::CodesCase;
using testing::CodesCases;
using testing::DrawnCodes;

uint16_t RoundedNumber(const WeightFormat& format, uint8_t code, const CodeScale& scale) {
  return FromFloat<Bfloat16>(NumberOfCode(format, code, scale)).bits;
}

template <typename T>
T ValueAt(const char* p) {
  T value;
  std::memcpy(&value, p, sizeof(value));
  return value;
}

// What a lane makes of pair `i` of a word, with its row's entry.
uint32_t PairOfWord(const WeightFormat& format, bool is_narrow, uint32_t word, int i,
                    const char* entry) {
  const bool is_wide = !is_narrow;
  const char* const zero = entry + 4;
  const float wide = is_wide ? ValueAt<float>(entry) : 0.0f;
  if (format.codes == WeightCodes::kNormal4) {
    const uint32_t byte = word >> 8 * i & 0xff;
    return codes::RoundedPair(kNormal4Numbers[byte % 16] * wide, kNormal4Numbers[byte / 16] * wide);
  }
  uint32_t minus = format.bits == 4 ? codes::kMinusMiddle4 : 0;
  if (format.has_zero_points) minus = codes::Both(ValueAt<uint16_t>(zero));
  const uint32_t values =
      format.bits == 4 ? codes::ValuePair4(word, i, minus) : codes::ValuePair8(word, i, minus);
  if (is_wide) return codes::ScaledPair(values, wide);
  return codes::ScaledPair(values, codes::Both(ValueAt<uint16_t>(entry)));
}

// All of a packed weight's numbers in bf16, [strips * 8, bricks * 128].
std::vector<uint16_t> NumbersOf(const WeightFormat& format, int64_t k,
                                const std::vector<char>& packed, const GemmBricksLayout& layout) {
  const bool is_narrow = HasNarrowScales(format, k);
  const int64_t columns = layout.num_bricks * kBrickColumns;
  std::vector<uint16_t> numbers(static_cast<size_t>(layout.num_strips * kBrickRows * columns));
  const int words_pairs = 16 / format.bits;
  const int64_t unit_columns = 8 * words_pairs;
  for (int64_t strip = 0; strip < layout.num_strips; ++strip) {
    for (int64_t brick = 0; brick < layout.num_bricks; ++brick) {
      const char* const at =
          packed.data() + strip * layout.strip_bytes() + brick * layout.brick_bytes;
      for (int64_t word = 0; word < layout.code_bytes / 4; ++word) {
        const int64_t unit = word / 32, g = word % 32 / 4, t = word % 4;
        const int64_t entry =
            g * layout.scales_of_row() + unit * unit_columns / layout.scale_numbers;
        for (int i = 0; i < words_pairs; ++i) {
          const uint32_t pair = PairOfWord(format, is_narrow, ValueAt<uint32_t>(at + word * 4), i,
                                           at + layout.code_bytes + entry * layout.entry_bytes);
          uint16_t* const out = numbers.data() + (strip * kBrickRows + g) * columns +
                                brick * kBrickColumns + unit * unit_columns + 8 * i + 2 * t;
          out[0] = static_cast<uint16_t>(pair);
          out[1] = static_cast<uint16_t>(pair >> 16);
        }
      }
    }
  }
  return numbers;
}

TEST(GemmBricksTest, LanesReadTheNumbersOfTheCodes) {
  for (const CodesCase& c : CodesCases()) {
    SCOPED_TRACE(c.name);
    const DrawnCodes source(c);
    const GemmBricksLayout layout(c.format, c.n, c.k);
    std::vector<char> packed(static_cast<size_t>(layout.order_begin()), 0x5a);
    for (int64_t strip = 0; strip < layout.num_strips; ++strip) {
      PackBricks(source, c.format, strip, packed.data() + strip * layout.strip_bytes());
    }
    const std::vector<uint16_t> numbers = NumbersOf(c.format, c.k, packed, layout);
    std::vector<uint8_t> codes(static_cast<size_t>(c.k));
    std::vector<CodeScale> scales(static_cast<size_t>(NumScales(c.format, c.k)));
    const int64_t columns = layout.num_bricks * kBrickColumns;
    for (int64_t row = 0; row < layout.num_strips * kBrickRows; ++row) {
      const uint16_t* const numbers_of_row = numbers.data() + row * columns;
      if (row < c.n) source.ReadRow(row, codes.data(), scales.data());
      for (int64_t i = 0; i < columns; ++i) {
        if (row >= c.n) {
          ASSERT_EQ(numbers_of_row[i] & 0x7fff, 0) << "row " << row << ", column " << i;
        } else if (i < c.k) {
          ASSERT_EQ(numbers_of_row[i],
                    RoundedNumber(c.format, codes[i], scales[i / c.format.scale_numbers]))
              << "row " << row << ", column " << i;
        } else {  // meets a zero of x
          ASSERT_TRUE(std::isfinite(ToFloat(Bfloat16{numbers_of_row[i]}))) << "column " << i;
        }
      }
    }
  }
}

// Scales of all exponents, of both signs, with all bits of the mantissa set and none.
std::vector<float> ScalesToTry() {
  std::vector<float> scales = {0.0f};
  for (int exponent = -126; exponent <= 110; exponent += 4) {
    for (const float mantissa : {1.0f, 1.0078125f, 1.5f, 1.9921875f, -1.3359375f}) {
      scales.push_back(std::ldexp(mantissa, exponent));
    }
  }
  return scales;
}

// Every code with every zero point, in every place of a word.
void TryIntegers(int bits, bool is_wide) {
  const WeightFormat format = WeightFormat::Integers(DType::kBF16, bits, 128, is_wide,
                                                     is_wide ? DType::kF32 : DType::kBF16);
  const auto num_codes = static_cast<uint32_t>(1 << bits);
  for (const float bf16_scale : ScalesToTry()) {
    CodeScale scale{.scale = is_wide ? bf16_scale * 1.0001f : bf16_scale};
    for (uint32_t zero = 0; zero < num_codes; zero += bits == 4 ? 1 : 5) {
      if (!is_wide && zero > 0) break;
      scale.zero = static_cast<float>(zero);
      char entry[8] = {};
      const uint16_t narrow = FromFloat<Bfloat16>(scale.scale).bits;
      std::memcpy(entry, is_wide ? static_cast<const void*>(&scale.scale) : &narrow,
                  is_wide ? 4 : 2);
      const auto minus = static_cast<uint16_t>(bits == 4 ? codes::MinusRaised4(zero)
                                                         : codes::MinusSigned8(scale.zero));
      std::memcpy(entry + 4, &minus, 2);
      for (uint32_t code = 0; code < num_codes; ++code) {
        const int pairs = 16 / bits;
        const int i = static_cast<int>(code) % pairs;
        const uint32_t other = num_codes - 1 - code;
        // Other bits of the word are of other numbers.
        const uint32_t mine = (num_codes - 1) << bits * i | (num_codes - 1) << (16 + bits * i);
        const uint32_t word = (code << bits * i | other << (16 + bits * i)) | (0xa5c3f09eu & ~mine);
        const uint32_t pair = PairOfWord(format, !is_wide, word, i, entry);
        ASSERT_EQ(pair & 0xffff, RoundedNumber(format, static_cast<uint8_t>(code), scale))
            << bits << " bits, code " << code << ", zero " << zero << ", scale " << scale.scale;
        ASSERT_EQ(pair >> 16, RoundedNumber(format, static_cast<uint8_t>(other), scale))
            << bits << " bits, code " << other << ", zero " << zero << ", scale " << scale.scale;
      }
    }
  }
}

TEST(CodePairsTest, EveryCodeBecomesItsNumber) {
  for (const bool is_wide : {false, true}) {
    TryIntegers(4, is_wide);
    TryIntegers(8, is_wide);
  }
}

TEST(GemmBricksTest, AGpusWeightTakesWhatItsBricksDo) {
  constexpr Device kGpu{DeviceKind::kCuda, 0};
  const auto bytes_of = [&](const WeightFormat& format, int64_t n, int64_t k) {
    return GemmWeight::BytesFor(n, k, format, kGpu);
  };
  const DType bf16 = DType::kBF16;
  // Two strips of a brick, of 512 bytes of codes and 8 scales.
  EXPECT_EQ(bytes_of(WeightFormat::Integers(bf16, 4, 128, false, bf16), 9, 100), 2 * (512 + 16));
  EXPECT_EQ(bytes_of(WeightFormat::Integers(bf16, 4, 128), 9, 100), 2 * (512 + 32));
  EXPECT_EQ(bytes_of(WeightFormat::Integers(bf16, 4, 32, true, bf16), 8, 256),
            2 * (512 + 8 * 4 * 8));
  EXPECT_EQ(bytes_of(WeightFormat::Integers(bf16, 8, 4096, false, bf16), 16, 4096),
            2 * 32 * (1024 + 16));
  EXPECT_EQ(bytes_of(WeightFormat::Normal4(bf16), 8, 128), 512 + 64);
  WeightFormat ordered = WeightFormat::Integers(bf16, 4, 96);
  ordered.has_input_order = true;
  EXPECT_EQ(bytes_of(ordered, 8, 192), 2 * (512 + 8 * 4 * 4) + 192 * 4);
}

TEST(GemmBricksTest, RoomIsForNumbersAndForXInAnOrder) {
  constexpr Device kGpu{DeviceKind::kCuda, 0};
  WeightFormat format = WeightFormat::Integers(DType::kBF16, 4, 32);
  EXPECT_EQ(GemmRoomBytes(5, 16, 130, DType::kBF16, kGpu), 0);
  EXPECT_EQ(GemmRoomBytes(5, 16, 130, format, {}), 0) << "the CPU reads codes";
  EXPECT_EQ(GemmRoomBytes(5, 16, 130, format, kGpu), 16 * 136 * 2);
  EXPECT_EQ(GemmRoomBytes(5, 16, 130, format, kGpu, /*numbers=*/false), 0);
  format.has_input_order = true;
  EXPECT_EQ(GemmRoomBytes(5, 16, 130, format, kGpu, /*numbers=*/false), 1536) << "5 x 136 x 2, up";
  EXPECT_EQ(GemmRoomBytes(5, 16, 130, format, kGpu), 1536 + 16 * 136 * 2);
}

// It must not depend on anything but the weight's shape.
TEST(GemmBricksTest, TheLongerSideOfKIsSummedInTwoRanges) {
  EXPECT_EQ(BricksOfFirstRange(4096, 14336), 56);
  EXPECT_EQ(BricksOfFirstRange(4096, 4096), 16);
  EXPECT_EQ(BricksOfFirstRange(6144, 4096), 32);
  EXPECT_EQ(BricksOfFirstRange(28672, 4096), 32);
  EXPECT_EQ(BricksOfFirstRange(8, 300), 2) << "of three";
  EXPECT_EQ(BricksOfFirstRange(8, 100), 1) << "of one";
}

}  // namespace gemm_bricks_test
}  // namespace graft
