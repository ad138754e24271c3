#include "doctor/doctor_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>

namespace graft {
namespace {

// The driver and this program's own context take less than the rest.
constexpr double kFreeOfLoneCard = 0.85;

std::string Gib(int64_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (int64_t{1} << 30));
}

std::string CardText(const DoctorReport& report) {
  std::string text = fmt::format("driver       CUDA {}\n", report.driver);
  text += fmt::format("kernels      {}\n", KernelsText(report.traits));
  return text + "\n" + KernelListText(report.kernels, report.traits);
}

std::string ChecksText(const std::vector<CheckedOp>& checks) {
  std::string text;
  for (const CheckedOp& check : checks) {
    text += fmt::format("{:<20} {:<5} {}\n", check.op, DTypeName(check.dtype),
                        check.difference.empty() ? fmt::format("ok, {} numbers", check.num_compared)
                                                 : "DIFFERS: " + check.difference);
  }
  return text;
}

// "a token takes 5.6 ms alone and 6.4 ms beside 31 others, at 512 tokens\n..."
std::string SpeedLines(const ExpectedSpeed& speed) {
  std::string text = fmt::format(
      "             a token takes {:.1f} ms alone and {:.1f} ms beside 31 others, at 512 tokens\n",
      speed.decode_ms_of_1, speed.decode_ms_of_32);
  if (speed.prompt_ms == 0.0) return text;
  return text +
         fmt::format("             a prompt of 2,048 tokens takes {:.0f} ms\n", speed.prompt_ms);
}

std::string SpeedText(const DoctorReport& report) {
  std::string text = fmt::format("memory       {:.0f} GB/s\nproducts     {:.0f} GFLOP/s in bf16\n",
                                 report.rates.gbytes_per_s, report.rates.bf16_gflops);
  if (report.device.is_cpu()) return text;
  const FamilyShares& shares = SharesOf(report.traits);
  text += fmt::format(
      "expected     Llama-3.1-8B in bf16, by these rates and the shares of them measured on {}:\n",
      shares.measured_on);
  text += SpeedLines(ExpectSpeed(report.rates, shares));
  const KnownCard* const card = FindKnownCard(report.description);
  if (card == nullptr) return text;
  const CardRates sheet = SheetRates(*card, SharesOf(TraitsOfKnown(*card)));
  text += fmt::format(
      "predicted    the same by the card's data sheet, from {:.0f} GB/s and {:.0f} GFLOP/s "
      "(docs/gpu.md):\n",
      sheet.gbytes_per_s, sheet.bf16_gflops);
  return text + SpeedLines(PredictSpeed(*card));
}

OrderedJson SpeedJson(const ExpectedSpeed& speed) {
  OrderedJson json = {{"model", "Llama-3.1-8B, bf16"},
                      {"decode_ms_batch_1", speed.decode_ms_of_1},
                      {"decode_ms_batch_32", speed.decode_ms_of_32}};
  if (speed.prompt_ms > 0.0) json["prompt_2048_ms"] = speed.prompt_ms;
  return json;
}

}  // namespace

int DoctorReport::num_different() const {
  return static_cast<int>(std::ranges::count_if(
      checks, [](const CheckedOp& check) { return !check.difference.empty(); }));
}

bool DoctorReport::is_shared() const {
  return static_cast<double>(free_bytes) < kFreeOfLoneCard * static_cast<double>(total_bytes);
}

std::vector<CheckedOp> RunOpChecks(std::span<const OpCheck> checks, Stream& stream) {
  std::vector<DType> dtypes = {DType::kBF16, DType::kF32};
  if (!stream.device.is_cpu()) dtypes.insert(dtypes.begin() + 1, DType::kF16);
  std::vector<CheckedOp> checked;
  for (const OpCheck& check : checks) {
    for (const DType dtype : dtypes) {
      const Comparison found = check.run(dtype, stream);
      checked.push_back({.op = std::string(check.op),
                         .dtype = dtype,
                         .difference = found.first_difference(),
                         .num_compared = found.num_compared()});
    }
  }
  return checked;
}

std::string DoctorText(const DoctorReport& report) {
  std::string text = fmt::format("device       {}: {}, {} free\n", report.device.ToString(),
                                 report.description, Gib(report.free_bytes));
  if (!report.warning.empty()) text += fmt::format("warning      {}\n", report.warning);
  if (report.is_shared()) {
    text += fmt::format(
        "warning      other programs have {} of the card's {}: while they compute, the rates below "
        "are too low\n",
        Gib(report.total_bytes - report.free_bytes), Gib(report.total_bytes));
  }
  text += fmt::format("host         {} instructions, {} threads\n", report.instructions,
                      report.num_threads);
  if (!report.device.is_cpu()) text += CardText(report);
  text += "\n" + ChecksText(report.checks) + "\n" + SpeedText(report);
  const int num_different = report.num_different();
  return text + (num_different == 0
                     ? "\nall ops agree with their definitions\n"
                     : fmt::format("\n{} of {} checks differ: do not serve on this device, and "
                                   "report this output\n",
                                   num_different, report.checks.size()));
}

OrderedJson DoctorJson(const DoctorReport& report) {
  OrderedJson json = {{"device", report.device.ToString()},
                      {"description", report.description},
                      {"free_bytes", report.free_bytes},
                      {"instructions", report.instructions},
                      {"threads", report.num_threads}};
  if (!report.warning.empty()) json["warning"] = report.warning;
  if (report.total_bytes > 0) {
    json["total_bytes"] = report.total_bytes;
    json["shared"] = report.is_shared();
  }
  OrderedJson checks = OrderedJson::array();
  for (const CheckedOp& check : report.checks) {
    OrderedJson row = {{"op", check.op},
                       {"dtype", std::string(DTypeName(check.dtype))},
                       {"agrees", check.difference.empty()},
                       {"numbers", check.num_compared}};
    if (!check.difference.empty()) row["difference"] = check.difference;
    checks.push_back(std::move(row));
  }
  json["checks"] = std::move(checks);
  json["gbytes_per_s"] = report.rates.gbytes_per_s;
  json["bf16_gflops"] = report.rates.bf16_gflops;
  if (report.device.is_cpu()) return json;
  const FamilyShares& shares = SharesOf(report.traits);
  json["driver"] = report.driver;
  json["compute_capability"] = report.traits.own_compute();
  if (report.traits.is_forced()) json["stands_in_for"] = std::string(report.traits.stands_in_for);
  json["family"] = std::string(shares.family);
  json["tuned"] = shares.is_tuned;
  OrderedJson kernels = OrderedJson::array();
  for (const KernelFacts& kernel : report.kernels) {
    if (!kernel.needs.AreMetBy(report.traits)) continue;
    kernels.push_back({{"op", std::string(kernel.op)},
                       {"kernel", std::string(kernel.name)},
                       {"takes", std::string(kernel.takes)}});
  }
  json["kernels"] = std::move(kernels);
  json["expected"] = SpeedJson(ExpectSpeed(report.rates, shares));
  json["expected"]["shares_measured_on"] = std::string(shares.measured_on);
  if (const KnownCard* const card = FindKnownCard(report.description); card != nullptr) {
    json["predicted"] = SpeedJson(PredictSpeed(*card));
    json["predicted"]["data_sheet"] = std::string(card->source);
  }
  return json;
}

}  // namespace graft
