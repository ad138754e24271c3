// graft-bench ops: every kernel against what this machine's memory and arithmetic allow.
#include <cstdio>
#include <memory>

#include "bench/bench_commands.h"
#include "bench/lora_merge/lora_merge.h"
#include "bench/lora_padded/lora_padded.h"
#include "kernels/common/bench.h"
#include "kernels/kernel_list.h"
#include "profile/report.h"
#include "runtime/runtime.h"
#include "tensor/cuda_memory.h"
#include "tensor/device_traits.h"

namespace graft {
namespace {

// Ops that no server has, to compare with.
constexpr NamedOpBench kBaselines[] = {{"lora_merge", BenchLoraMerge},
                                       {"lora_padded", BenchLoraPadded}};

struct BenchOpsOptions {
  DeviceChoice device;
  std::string filter;
  std::string json;
  int threads = 0;
  double seconds_per_case = 0.15;
  bool lists_kernels = false;
};

void PrintHeading(const OrderedJson& machine, bool is_cpu) {
  std::printf("%s\n\n%-10s %-56s %10s %8s %9s %8s\n", machine.dump().c_str(), "op", "case",
              "median us", "GB/s", is_cpu ? "GFLOP/s" : "TFLOP/s", "of peak");
}

void PrintRow(const OpBenchRow& row, bool is_cpu) {
  const int digits = is_cpu ? 1 : 2;
  std::printf("%-10s %-56s %10.*f %8.1f %9.*f %6.0f %%\n", row.op.c_str(), row.name.c_str(), digits,
              row.median_us, row.gbytes_per_s, digits, is_cpu ? row.gflops : row.gflops * 1e-3,
              row.share_of_peak * 100.0);
  std::fflush(stdout);
}

OrderedJson ToJson(const OpBenchRow& row) {
  OrderedJson json = {{"op", row.op},
                      {"case", row.name},
                      {"bytes", row.work.bytes},
                      {"flops", row.work.flops},
                      {"median_us", row.median_us},
                      {"gbytes_per_s", row.gbytes_per_s},
                      {"gflops", row.gflops},
                      {"peak_gbytes_per_s", row.peak_gbytes_per_s},
                      {"peak_gflops", row.peak_gflops},
                      {"share_of_peak", row.share_of_peak}};
  const OpBenchLabels& labels = row.work.labels;
  if (row.work.flops > 0.0) json["dtype"] = std::string(DTypeName(row.work.dtype));
  if (labels.rows > 0) json["rows"] = labels.rows;
  if (labels.rank > 0) json["rank"] = labels.rank;
  if (!labels.law.empty()) json["law"] = labels.law;
  if (!labels.method.empty()) json["method"] = labels.method;
  return json;
}

Status RunBenchOps(const BenchOpsOptions& options) {
  ASSIGN_OR_RETURN(const Device device, PickDevice(options.device));
  if (options.lists_kernels) {
    std::fputs(KernelListText(ListKernels(), TraitsOf(device)).c_str(), stdout);
    return OkStatus();
  }
  ThreadPool threads(options.threads == 0 ? NumCpus() : options.threads);
  OwnedStream owned_stream(device, &threads);
  OrderedJson machine = DescribeMachine();
  if (!device.is_cpu()) machine["device"] = DescribeDevice(device);
  PrintHeading(machine, device.is_cpu());
  OpBenchOptions bench_options;
  bench_options.seconds_per_case = options.seconds_per_case;
  bench_options.on_row = [&](const OpBenchRow& row) { PrintRow(row, device.is_cpu()); };
  OrderedJson rows = OrderedJson::array();
  for (const OpBenchRow& row :
       BenchOps(options.filter, owned_stream.get(), bench_options, kBaselines)) {
    rows.push_back(ToJson(row));
  }
  if (rows.empty()) return NotFoundError("no op's name contains '" + options.filter + "'");
  return WriteJson(options.json, {{"machine", machine}, {"rows", rows}});
}

}  // namespace

Command BenchOpsCommand() {
  const auto options = std::make_shared<BenchOpsOptions>();  // lives as long as the command
  std::vector<Option> rows = DeviceOptionRows(options->device, options->threads);
  rows.push_back({"filter", Text(options->filter), "only ops whose name contains this"});
  rows.push_back(
      {"seconds-per-case", Number(options->seconds_per_case, Above(0)), "time spent on a case"});
  rows.push_back({"kernels", Switch(options->lists_kernels),
                  "print the kernels that ops choose from on a GPU, and which of them this device "
                  "can run, instead"});
  rows.push_back(JsonOptionRow(options->json));
  return {.name = "ops",
          .help = "Time each kernel and say which share of the machine's measured peak it reaches.",
          .groups = {{"Options", std::move(rows)}},
          .run = [options] { return RunBenchOps(*options); }};
}

}  // namespace graft
