#include "kernels/kernel_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace graft {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Numbers {
  int n = 0;
};
void Launch(const Numbers&, Stream&) {}
bool IsEven(const Numbers& numbers) { return numbers.n % 2 == 0; }

constexpr KernelRow<Numbers> kTable[] = {
    {"hopper", "even", {.hopper_code = true}, IsEven, Launch},
    {"large", "all", {.shared_bytes = 100 << 10}, nullptr, Launch},
    {"plain", "all", {}, nullptr, Launch}};

TEST(KernelTableTest, TheFirstThatTheCardHasAndTheArgumentsAllowIsTaken) {
  const DeviceTraits hopper = {.has_hopper_code = true, .shared_bytes_max = 227 << 10};
  const DeviceTraits ada = {.shared_bytes_max = 99 << 10};
  EXPECT_EQ(ChooseKernel(kTable, Numbers{2}, hopper).name, "hopper");
  EXPECT_EQ(ChooseKernel(kTable, Numbers{3}, hopper).name, "large");
  EXPECT_EQ(ChooseKernel(kTable, Numbers{2}, ada).name, "plain");
}

// The last row of every op takes what is left, on any card.
TEST(KernelListTest, TheLastOfEachOpWorksEverywhere) {
  std::map<std::string_view, KernelFacts> last;
  const KernelList list = ListKernels();
  for (const KernelFacts& kernel : list) last[kernel.op] = kernel;
  EXPECT_EQ(last.size(), kHasCuda ? 5u : 0u);
  for (const auto& [op, kernel] : last) EXPECT_TRUE(kernel.needs.AreMetBy({})) << op;
}

TEST(KernelListTest, TheTextSaysWhatACardHas) {
  const KernelList list = {{"gemm", "hopper", "bf16", {.hopper_code = true}},
                           {"attention", "large", "all", {.shared_bytes = 224 << 10}}};
  const std::string text = KernelListText(list, {.compute = 90, .shared_bytes_max = 227 << 10});
  EXPECT_THAT(text, HasSubstr("gemm                 hopper         no   Hopper "));
  EXPECT_THAT(text,
              HasSubstr("attention            large          yes  any card, 224 KiB of shared"));
  EXPECT_THAT(KernelListText(list, {}), Not(HasSubstr("yes"))) << "on a CPU";
}

}  // namespace
}  // namespace graft
