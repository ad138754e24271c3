#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/thread_pool.h"
#include "doctor/doctor_report.h"
#include "kernels/common/cpu_isa.h"

namespace graft {
namespace {

Stream CpuStream() {
  static ThreadPool* const threads = new ThreadPool(2);
  return {.device = {}, .cpu_threads = threads};
}

DoctorReport ReportOf(std::vector<CheckedOp> checks) {
  return {
      .description = "CPU", .instructions = "avx2", .num_threads = 2, .checks = std::move(checks)};
}

TEST(DoctorTest, EveryOpAgreesWithItsDefinitionForEveryInstructionSet) {
  Stream stream = CpuStream();
  for (const CpuIsa isa : {CpuIsa::kPortable, CpuIsa::kAvx2, CpuIsa::kAvx512}) {
    if (isa > BestCpuIsa()) continue;
    const ScopedCpuIsa scope(isa);
    const std::vector<CheckedOp> checks = RunOpChecks(AllOpChecks(), stream);
    EXPECT_EQ(checks.size(), 2 * AllOpChecks().size());  // bf16 and fp32
    for (const CheckedOp& check : checks) {
      EXPECT_EQ(check.difference, "") << check.op << ", " << CpuIsaName(isa);
      EXPECT_GT(check.num_compared, 0) << check.op;
    }
  }
}

TEST(DoctorTest, TheFirstNumberThatDiffersIsTold) {
  Comparison found(0.01);
  found.Expect("element", 0, 1.009, 1.0, 1.0);
  EXPECT_TRUE(found.is_equal());
  found.Expect("element", 1, 1.011, 1.0, 1.0);
  found.Expect("element", 2, 9.0, 1.0, 1.0);
  EXPECT_EQ(found.first_difference(), "element 1: 1.011 instead of 1");
  EXPECT_EQ(found.num_compared(), 3);
}

TEST(DoctorTest, NumbersThatFp16HasNoDigitsForAreEqual) {
  Comparison found(0.0);
  found.Expect("element", 0, 5.96e-7, 6.03e-7, 6e-7);
  EXPECT_TRUE(found.is_equal());
  found.Expect("element", 1, 5e-7, 6e-7, 6e-7);
  EXPECT_FALSE(found.is_equal());
}

TEST(DoctorTest, ANumberThatIsNoneDiffers) {
  Comparison found(0.01);
  found.Expect("element", 7, std::numeric_limits<double>::quiet_NaN(), 1.0, 1.0);
  EXPECT_FALSE(found.is_equal());
}

TEST(DoctorTest, AnOpThatComputesWronglyIsNamedInTextAndJson) {
  static constexpr OpCheck kWrong[] = {{"half", [](DType, Stream&) {
                                          Comparison found(0.0);
                                          found.Expect("element", 3, 0.25, 0.5, 0.5);
                                          return found;
                                        }}};
  Stream stream = CpuStream();
  const DoctorReport report = ReportOf(RunOpChecks(kWrong, stream));
  EXPECT_EQ(report.num_different(), 2);
  const std::string text = DoctorText(report);
  EXPECT_NE(text.find("DIFFERS: element 3: 0.25 instead of 0.5"), std::string::npos) << text;
  EXPECT_NE(text.find("2 of 2 checks differ"), std::string::npos) << text;
  const OrderedJson json = DoctorJson(report);
  EXPECT_EQ(json["checks"][0]["agrees"], false);
  EXPECT_EQ(json["checks"][0]["difference"], "element 3: 0.25 instead of 0.5");
}

TEST(DoctorTest, ExpectedSpeedFollowsTheRatesAndTheShares) {
  const FamilyShares shares{.family = "some", .decode = 0.5, .prompt = 0.5};
  const ExpectedSpeed one = ExpectSpeed({.gbytes_per_s = 1000, .bf16_gflops = 100'000}, shares);
  const ExpectedSpeed two = ExpectSpeed({.gbytes_per_s = 2000, .bf16_gflops = 200'000}, shares);
  // 15 GB of weights and 67 MB of keys and values at 500 GB/s.
  EXPECT_NEAR(one.decode_ms_of_1, 30.2, 0.1);
  EXPECT_NEAR(one.decode_ms_of_1, 2 * two.decode_ms_of_1, 1e-9);
  EXPECT_GT(one.decode_ms_of_32, one.decode_ms_of_1);
  EXPECT_NEAR(one.prompt_ms, 2 * two.prompt_ms, 1e-9);
}

TEST(DoctorTest, CardsWithHopperCodeAreTuned) {
  EXPECT_TRUE(SharesOf({.compute = 90, .has_hopper_code = true}).is_tuned);
  EXPECT_FALSE(SharesOf({.compute = 80}).is_tuned);
}

}  // namespace
}  // namespace graft
