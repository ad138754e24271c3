#include "kernels/small_copy/small_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/common/op_test_util.h"
#include "tensor/cuda_memory.h"

namespace graft {
namespace small_copy_test {

using testing::ForEachDevice;
using testing::Output;

TEST(SmallCopyTest, CopiesTheRangesAndNoOtherByte) {
  constexpr int64_t kBytes = 90'000;
  std::vector<ByteRange> many;  // more than one launch takes
  for (int64_t i = 0; i < 60; ++i) many.push_back({i * 1000, i * 1000 + 1 + i * 13});
  const std::vector<std::vector<ByteRange>> cases = {
      {}, {{0, 1}}, {{0, kBytes}}, {{15, 17}, {32, 48}, {50, 70'001}}, {{1, 16}, {16, 31}}, many};
  for (const int64_t misalign : {0, 1, 4}) {
    const PinnedBuffer source(kBytes + misalign);
    char* const from = source.as<char>() + misalign;
    for (int64_t i = 0; i < kBytes; ++i) from[i] = static_cast<char>(i * 37 + i / 256);
    for (const std::vector<ByteRange>& ranges : cases) {
      SCOPED_TRACE(std::to_string(ranges.size()) + " ranges, " + std::to_string(misalign) +
                   " past a border");
      ForEachDevice([&](Stream& stream) {
        Output<uint8_t> target(kBytes, misalign);
        SmallCopy({.target = target.data(), .source = from, .ranges = ranges}, stream);
        Synchronize(stream);
        EXPECT_TRUE(target.GuardsIntact());
        std::vector<bool> copied(kBytes);
        for (const auto [begin, end] : ranges) {
          std::fill(copied.begin() + begin, copied.begin() + end, true);
        }
        for (int64_t i = 0; i < kBytes; ++i) {
          if (copied[i]) {
            ASSERT_EQ(static_cast<char>(target[i]), from[i]) << "byte " << i;
          } else {
            ASSERT_TRUE(target.IsUntouched(i));
          }
        }
      });
    }
  }
}

// As in steps, the same place holds other numbers each time.
TEST(SmallCopyTest, ReadsTheHostsMemoryAnew) {
  constexpr int64_t kBytes = 4096;
  const std::vector<ByteRange> all = {{0, kBytes}};
  const PinnedBuffer source(kBytes);
  ForEachDevice([&](Stream& stream) {
    Output<uint8_t> target(kBytes);
    for (int round = 1; round < 20; ++round) {
      std::fill_n(source.as<char>(), kBytes, static_cast<char>(round));
      SmallCopy({.target = target.data(), .source = source.as<char>(), .ranges = all}, stream);
      Synchronize(stream);
      for (int64_t i = 0; i < kBytes; ++i) ASSERT_EQ(target[i], round) << "byte " << i;
    }
  });
}

}  // namespace small_copy_test
}  // namespace graft
