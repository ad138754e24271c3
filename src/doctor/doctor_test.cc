#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>

#include "base/file.h"
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

TEST(DoctorTest, ACardThatOthersUseIsTold) {
  DoctorReport report = ReportOf({});
  EXPECT_FALSE(report.is_shared()) << "a CPU";
  report.device = {DeviceKind::kCuda, 0};
  report.total_bytes = int64_t{80} << 30;
  report.free_bytes = int64_t{79} << 30;
  EXPECT_FALSE(report.is_shared());
  EXPECT_EQ(DoctorText(report).find("warning"), std::string::npos);
  report.free_bytes = int64_t{60} << 30;
  EXPECT_NE(DoctorText(report).find("other programs have 20.0 GiB of the card's 80.0 GiB"),
            std::string::npos);
  EXPECT_EQ(DoctorJson(report)["shared"], true);
}

TEST(DoctorTest, ACardThatStandsInIsTold) {
  DoctorReport report = ReportOf({});
  report.device = {DeviceKind::kCuda, 0};
  report.traits = LoweredTo("ada", {.compute = 90, .has_hopper_code = true});
  const OrderedJson json = DoctorJson(report);
  EXPECT_EQ(json["compute_capability"], 90);
  EXPECT_EQ(json["stands_in_for"], "ada");
}

TEST(DoctorTest, ExpectedSpeedFollowsTheRatesAndTheShares) {
  const FamilyShares shares{.decode_of_1 = 0.5, .decode_of_32 = 0.5, .prompt = 0.5};
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
  EXPECT_FALSE(SharesOf({.compute = 120, .overlaps_launches = true}).is_tuned);
}

TEST(DoctorTest, KnownCardsAreFoundByAWordOfTheirNames) {
  const auto name_of = [](std::string_view description) -> std::string_view {
    const KnownCard* const card = FindKnownCard(description);
    return card == nullptr ? "" : card->name;
  };
  EXPECT_EQ(name_of("NVIDIA A100-SXM4-80GB, compute capability 8.0, 79 GiB"), "A100");
  EXPECT_EQ(name_of("NVIDIA A10, compute capability 8.6, 22 GiB"), "A10");
  EXPECT_EQ(name_of("NVIDIA L4, compute capability 8.9, 22 GiB"), "L4");
  EXPECT_EQ(name_of("NVIDIA L40S, compute capability 8.9, 44 GiB"), "L40S");
  EXPECT_EQ(name_of("NVIDIA GeForce RTX 4090, compute capability 8.9, 23 GiB"), "RTX 4090");
  EXPECT_EQ(name_of("NVIDIA GeForce RTX 40900"), "");
  EXPECT_EQ(name_of("NVIDIA A16, compute capability 8.6, 14 GiB"), "");
  EXPECT_EQ(name_of("NVIDIA H100 80GB HBM3, compute capability 9.0, 79 GiB"), "H100");
  for (const char* const other :
       {"NVIDIA A100-PCIE-40GB", "NVIDIA A100-SXM4-40GB", "NVIDIA H100 PCIe", "NVIDIA H100 NVL",
        "NVIDIA GeForce RTX 3090 Ti", "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 4090 Laptop GPU"}) {
    EXPECT_EQ(name_of(other + std::string(", compute capability 8.6, 23 GiB")), "") << other;
  }
}

// The figures that were measured on an H100 (workshop/benchmarks.md): the model that predicts
// others has to find these.
TEST(DoctorTest, TheModelFindsWhatAnH100Took) {
  const ExpectedSpeed speed = PredictSpeed(*FindKnownCard("NVIDIA H100 80GB HBM3"));
  EXPECT_NEAR(speed.decode_ms_of_1, 5.63, 0.3);
  EXPECT_NEAR(speed.decode_ms_of_32, 6.41, 0.3);
  EXPECT_NEAR(speed.prompt_ms, 48.0, 3.0);
}

// A card with exactly the rates that its data sheet promises is expected to do what is predicted.
TEST(DoctorTest, TheReportOfACardSaysWhatThePagePredicts) {
  for (const KnownCard& card : KnownCards()) {
    DoctorReport report = ReportOf({});
    report.device = {DeviceKind::kCuda, 0};
    report.description = "NVIDIA " + std::string(card.name) + ", compute capability";
    report.traits = TraitsOfKnown(card);
    report.rates = SheetRates(card, SharesOf(report.traits));
    const OrderedJson json = DoctorJson(report);
    const ExpectedSpeed speed = PredictSpeed(card);
    EXPECT_EQ(json["predicted"]["decode_ms_batch_1"], speed.decode_ms_of_1) << card.name;
    EXPECT_EQ(json["predicted"]["decode_ms_batch_1"], json["expected"]["decode_ms_batch_1"]);
    EXPECT_EQ(json["predicted"]["decode_ms_batch_32"], json["expected"]["decode_ms_batch_32"]);
    EXPECT_EQ(json["predicted"].contains("prompt_2048_ms"), !card.is_decode_alone) << card.name;
    const std::string text = DoctorText(report);
    EXPECT_NE(text.find("predicted    the same by the card's data sheet"), std::string::npos);
  }
}

// Rows of docs/gpu.md, in the form that it has them.
std::string PredictionRows() {
  std::string rows =
      "| card | capability | memory, GB | GB/s | bf16, TFLOP/s | a token alone / beside 31, ms | "
      "prompt of 2,048, ms | GiB for pages | its owner's `graft doctor` |\n"
      "|---|---|---|---|---|---|---|---|---|\n";
  for (const KnownCard& card : KnownCards()) {
    const bool is_measured = SharesOf(TraitsOfKnown(card)).is_tuned;
    const ExpectedSpeed speed = PredictSpeed(card);
    const std::string prompt =
        card.is_decode_alone ? "not predicted" : fmt::format("{:.0f}", speed.prompt_ms);
    rows += fmt::format(
        "| {}, {} | {}.{} | {:.0f} | {:.0f} | {:g} | {:.1f} / {:.1f} | {} | {:.0f} "
        "| {} |\n",
        card.name, is_measured ? "to compare with" : "predicted", card.compute / 10,
        card.compute % 10, card.memory_gb, card.gbytes_per_s, card.bf16_tflops,
        speed.decode_ms_of_1, speed.decode_ms_of_32, prompt, PoolGibOf(card), card.seen);
  }
  return rows;
}

// With GRAFT_WRITE_DOCS=1 the test writes the table.
TEST(DoctorTest, ThePageHasThePredictions) {
  const char* const root = std::getenv("GRAFT_SOURCE_DIR");
  const std::string path = std::string(root == nullptr ? "." : root) + "/docs/gpu.md";
  const Result<std::string> page = ReadFile(path);
  ASSERT_TRUE(page.ok()) << page.status().ToString();
  const std::string mark = "<!-- predictions -->\n";
  const size_t first = page->find(mark) + mark.size();
  const size_t end = page->find("<!-- end -->", first);
  ASSERT_TRUE(page->find(mark) != page->npos && end != page->npos);
  const std::string rows = page->substr(first, end - first);
  const std::string wanted = PredictionRows();
  if (rows != wanted && std::getenv("GRAFT_WRITE_DOCS") != nullptr) {
    std::ofstream(path) << page->substr(0, first) << wanted << page->substr(end);
    return;
  }
  EXPECT_EQ(rows, wanted) << "docs/gpu.md is behind src/doctor/expected_speed.cc; run doctor_test "
                             "with GRAFT_WRITE_DOCS=1";
  for (const KnownCard& card : KnownCards()) {
    EXPECT_NE(page->find(card.source), page->npos) << "the page names its source: " << card.source;
  }
}

}  // namespace
}  // namespace graft
