#include "kernels/common/launch_ledger.h"

#include <gtest/gtest.h>

namespace graft {
namespace launch_ledger_test {

constexpr int kStreams[2] = {};
constexpr int kOperands[2] = {};
const void* const kStream = &kStreams[0];
const void* const kOtherStream = &kStreams[1];
const void* const kX = &kOperands[0];
const void* const kOtherX = &kOperands[1];

TEST(LaunchLedgerTest, AProductBefore) {
  LaunchLedger ledger;
  ledger.Launched(kStream);
  EXPECT_DEATH(ledger.ExpectProductBefore(kStream, kX), "no product of this x");
  ledger.LaunchedProduct(kStream, kX);
  ledger.ExpectProductBefore(kStream, kX);
  EXPECT_DEATH(ledger.ExpectProductBefore(kStream, kOtherX), "no product of this x");
  EXPECT_DEATH(ledger.ExpectProductBefore(kOtherStream, kX), "no product of this x");
  ledger.Launched(kOtherStream);
  ledger.ExpectProductBefore(kStream, kX);
  ledger.Launched(kStream);
  EXPECT_DEATH(ledger.ExpectProductBefore(kStream, kX), "no product of this x");
}

TEST(LaunchLedgerTest, AProductThatIsAwaited) {
  LaunchLedger ledger;
  EXPECT_DEATH(ledger.ExpectAwaited(kStream, kX), "awaits a product");
  ledger.Launched(kStream);
  ledger.AwaitProduct(kStream, kX);
  EXPECT_DEATH(ledger.Launched(kStream), "would be launched next");
  ledger.Launched(kOtherStream);
  EXPECT_DEATH(ledger.ExpectAwaited(kStream, kOtherX), "awaits a product");
  ledger.ExpectAwaited(kStream, kX);
  ledger.Launched(kStream);
  EXPECT_DEATH(ledger.ExpectAwaited(kStream, kX), "awaits a product");
}

}  // namespace launch_ledger_test
}  // namespace graft
