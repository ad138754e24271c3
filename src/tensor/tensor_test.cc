#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tensor/buffer.h"

namespace graft {
namespace {

TEST(DTypeTest, EveryHalfSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Float16 half{static_cast<uint16_t>(bits)};
    const float wide = ToFloat(half);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(ToFloat(FromFloat<Float16>(wide))));
    } else {
      EXPECT_EQ(FromFloat<Float16>(wide).bits, half.bits);
    }
    const Bfloat16 brain{static_cast<uint16_t>(bits)};
    const float brain_wide = ToFloat(brain);
    if (!std::isnan(brain_wide)) {
      EXPECT_EQ(FromFloat<Bfloat16>(brain_wide).bits, brain.bits);
    }
  }
}

TEST(DTypeTest, NarrowsToNearestEven) {
  EXPECT_EQ(ToFloat(FromFloat<Bfloat16>(1.0f + 1.0f / 256)), 1.0f);  // tie, even below
  EXPECT_EQ(ToFloat(FromFloat<Bfloat16>(1.0f + 3.0f / 256)), 1.0f + 4.0f / 256);
  EXPECT_EQ(ToFloat(FromFloat<Float16>(1.0f + 1.0f / 2048)), 1.0f);
  EXPECT_EQ(ToFloat(FromFloat<Float16>(65519.0f)), 65504.0f);
  EXPECT_TRUE(std::isinf(ToFloat(FromFloat<Float16>(65520.0f))));
  EXPECT_EQ(ToFloat(FromFloat<Float16>(0x1p-25f)), 0.0f);
  EXPECT_EQ(ToFloat(FromFloat<Float16>(0x1.8p-24f)), 0x1p-23f);
  EXPECT_TRUE(std::isnan(ToFloat(FromFloat<Bfloat16>(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(DTypeTest, ConvertsMisalignedBytes) {
  alignas(8) char bytes[9] = {};
  const float value = 3.25f;
  std::memcpy(bytes + 1, &value, 4);
  Bfloat16 out{};
  ConvertElements(DType::kF32, bytes + 1, DType::kBF16, &out, 1);
  EXPECT_EQ(ToFloat(out), 3.25f);
}

TEST(BufferTest, IsZeroedAlignedAndMovable) {
  for (const int64_t bytes : {0, 1, 63, 64, 100000, 9 << 20}) {
    Buffer buffer(bytes);
    EXPECT_EQ(buffer.bytes(), bytes);
    if (bytes == 0) continue;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
    EXPECT_EQ(buffer.as<char>()[bytes - 1], 0);
    const void* data = buffer.data();
    Buffer moved = std::move(buffer);
    EXPECT_EQ(moved.data(), data);
  }
}

TEST(DeviceTest, ParsesAndRefuses) {
  EXPECT_TRUE(ParseDevice("cpu")->is_cpu());
  EXPECT_TRUE(ParseDevice("auto").ok());
  EXPECT_EQ(ParseDevice("cuda:0").status().code(), StatusCode::kUnimplemented);
  EXPECT_EQ(ParseDevice("tpu").status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace graft
