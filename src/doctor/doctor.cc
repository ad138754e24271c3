#include "doctor/doctor.h"

#include <cstdio>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/log_format.h"
#include "base/thread_pool.h"
#include "doctor/doctor_report.h"
#include "kernels/common/cpu_isa.h"
#include "kernels/peak/peak.h"
#include "tensor/cuda_memory.h"
#include "tensor/device_choice.h"

namespace graft {
namespace {

// Larger than the last-level cache of a processor.
constexpr int64_t kPeakMemoryBytes = int64_t{256} << 20;
// The best of so many counts, because a shared host's rate drifts.
constexpr int kPeakTries = 20;

struct DoctorOptions {
  DeviceChoice device;
  int32_t threads = 0;
  bool json = false;
};

CardRates MeasureRates(Stream& stream) {
  MachinePeaks peaks(kPeakMemoryBytes, stream);
  CardRates rates;
  const int tries = stream.device.is_cpu() ? kPeakTries : 1;
  for (int i = 0; i < tries; ++i) {
    rates.gbytes_per_s = std::max(rates.gbytes_per_s, peaks.MeasureGbytesPerSecond());
    rates.bf16_gflops = std::max(rates.bf16_gflops, peaks.MeasureGflops(DType::kBF16));
  }
  return rates;
}

Status Run(const DoctorOptions& options) {
  RETURN_IF_ERROR(InitLog("warn"));
  RETURN_IF_ERROR(CheckCpuRunsKernels());
  const std::vector<CudaCard> cards = ListCudaCards();
  ASSIGN_OR_RETURN(const ChosenDevice chosen, ChooseDevice(options.device, cards));
  if (!chosen.device.is_cpu()) RETURN_IF_ERROR(CheckRunsCode(chosen.device));
  UseDevice(chosen.device);
  ThreadPool threads(options.threads > 0 ? options.threads : NumCpus());
  OwnedStream stream(chosen.device, &threads);
  const bool is_cpu = chosen.device.is_cpu();
  DoctorReport report{.device = chosen.device,
                      .description = DescribeDevice(chosen.device),
                      .driver = is_cpu ? "" : CudaDriverVersion(),
                      .free_bytes = FreeMemoryBytes(chosen.device),
                      .total_bytes = TotalMemoryBytes(chosen.device),
                      .traits = TraitsOf(chosen.device),
                      .instructions = std::string(CpuIsaName(BestCpuIsa())) +
                                      (CpuHasAvx512Bf16() ? " with bf16" : ""),
                      .num_threads = threads.num_threads(),
                      .warning = chosen.warning};
  if (!is_cpu) report.kernels = ListKernels();
  report.checks = RunOpChecks(AllOpChecks(), stream.get());
  report.rates = MeasureRates(stream.get());
  const std::string text = options.json ? DoctorJson(report).dump(2) + "\n" : DoctorText(report);
  std::fputs(text.c_str(), stdout);
  if (report.num_different() == 0) return OkStatus();
  return FailedPreconditionError(std::to_string(report.num_different()) + " checks differ on " +
                                 chosen.device.ToString() + ": do not serve on it");
}

}  // namespace

Command DoctorCommand() {
  const auto options = std::make_shared<DoctorOptions>();  // lives as long as the command
  return {
      .name = "doctor",
      .help =
          "Check that the ops of this binary compute rightly on a device, and say which "
          "kernels it takes and how fast it should be. Takes some ten seconds and sends "
          "nothing; the exit code is 1 where an op differs.\n"
          "  graft doctor --device cuda:0",
      .groups = {{"Device",
                  {{"device", Parsed(options->device, ParseDeviceChoice, "auto|cpu|cuda:N", "auto"),
                    "what is checked; auto: the first GPU that this binary has code for, else "
                    "the CPU"},
                   {"threads", Number(options->threads, Between(0, 1024)),
                    "of the host; 0: as many as there are cores"},
                   {"json", Switch(options->json), "print JSON"}}}},
      .run = [options] { return Run(*options); }};
}

}  // namespace graft
