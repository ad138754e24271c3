#include "runtime/adapter_reading.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

constexpr int64_t kGib = int64_t{1} << 30;

TEST(AdapterReadingTest, CoresAreLeftToSteps) {
  const Device gpu{DeviceKind::kCuda, 0};
  EXPECT_EQ(AdapterCores(1, gpu), 2);
  EXPECT_EQ(AdapterCores(2, gpu), 2);
  EXPECT_EQ(AdapterCores(4, gpu), 2);
  EXPECT_EQ(AdapterCores(16, gpu), 14);
  EXPECT_EQ(AdapterCores(16, Device()), 2) << "steps compute on all of them";
}

TEST(AdapterReadingTest, LimitsFollowCoresAndMemory) {
  const FetchLimits small = FetchLimitsOf(2, 4 * kGib);
  EXPECT_EQ(small.threads, 2);
  EXPECT_EQ(small.bytes_max, kGib / 4);
  EXPECT_EQ(FetchesAtOnce(small), 4);
  const FetchLimits large = FetchLimitsOf(14, 64 * kGib);
  EXPECT_EQ(large.threads, 14);
  EXPECT_EQ(large.bytes_max, 4 * kGib);
  EXPECT_EQ(FetchesAtOnce(large), 28);
  EXPECT_EQ(FetchLimitsOf(14, 1024 * kGib).bytes_max, 7 * kGib);
  EXPECT_EQ(FetchLimitsOf(100, 64 * kGib).threads, 32);
  EXPECT_EQ(FetchLimitsOf(2, kGib / 2).bytes_max, kGib / 8) << "the rest is for others";
  EXPECT_GT(FetchLimitsOf(2, 0).bytes_max, 0);
  EXPECT_EQ(large.give_up_ns, FetchLimits().give_up_ns);
}

TEST(AdapterReadingTest, AMemoryOfHashesCanBeSwitchedOff) {
  EXPECT_EQ(MakeHashMemory("off"), nullptr);
  const std::string path = ::testing::TempDir() + "adapter_reading_test/hashes";
  EXPECT_EQ(MakeHashMemory(path)->num_entries(), 0);
}

}  // namespace
}  // namespace graft
