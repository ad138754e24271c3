#include "profile/report.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <fstream>

#include "base/file.h"
#include "base/out_of_memory.h"
#include "base/thread_pool.h"
#include "kernels/common/cpu_isa.h"
#include "tensor/host_memory.h"

namespace graft {
namespace {

// The value of the first line of /proc/cpuinfo that starts with `key`.
std::string CpuInfo(const std::string& key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) != 0) continue;
    const size_t colon = line.find(": ");
    return colon == std::string::npos ? "" : line.substr(colon + 2);
  }
  return "unknown";
}

}  // namespace

std::vector<Option> BenchModelOptionRows(std::string& shape, RuntimeOptions& runtime) {
  std::vector<Option> rows = ModelOptionRows(runtime);
  rows.push_back({"shape", Text(shape),
                  "an HF config.json whose shape gets random weights, instead of --model"});
  return rows;
}

Option JsonOptionRow(std::string& path) {
  return {"json", Text(path), "write the figures to this file, too"};
}

Result<std::unique_ptr<LoadedModel>> LoadBenchModel(const RuntimeOptions& options,
                                                    const std::string& shape,
                                                    const CheckMemory& check) {
  return shape.empty() ? LoadModel(options, /*quiet=*/false, check)
                       : RandomModel(options, shape, /*quiet=*/false, check);
}

std::string BenchModelName(const RuntimeOptions& options, const std::string& shape) {
  return shape.empty() ? options.model : shape;
}

OrderedJson DescribeMachine() {
  const double memory = static_cast<double>(TotalHostBytes()) / (1 << 30);
  return {{"processor", CpuInfo("model name")},
          {"cpus", NumCpus()},
          {"instructions",
           std::string(CpuIsaName(BestCpuIsa())) + (CpuHasAvx512Bf16() ? " with bf16" : "")},
          {"memory_gib", static_cast<int>(memory + 0.5)}};
}

std::string Text(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

StepResult RunStep(Executor& executor, const StepPlan& plan) {
  StepResult result = executor.Run(plan);
  if (!result.status.ok()) ThrowOutOfMemory(result.status.message());
  CHECK_EQ(result.sequences.size(), plan.sequences.size());
  return result;
}

double UpperMedian(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace graft
