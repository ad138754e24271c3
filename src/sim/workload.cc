#include "sim/workload.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <sstream>

#include "base/check.h"
#include "base/file.h"
#include "base/strings.h"
#include "sim/arrivals.h"

namespace graft {
namespace {

constexpr double kSkew = 1.5;

// The first column with one of `words` in its lower-cased name, or -1.
int FindColumn(const std::vector<std::string>& names, const std::vector<std::string>& words) {
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string name = LowerCase(names[i]);
    for (const std::string& word : words) {
      if (name.find(word) != std::string::npos) return static_cast<int>(i);
    }
  }
  return -1;
}

}  // namespace

std::vector<std::string> SplitAtCommas(const std::string& line) {
  std::vector<std::string> fields;
  std::stringstream stream(line);
  for (std::string field; std::getline(stream, field, ',');) fields.push_back(std::move(field));
  return fields;
}

std::vector<int32_t> AssignAdapters(Popularity popularity, int32_t n, int32_t num_adapters,
                                    Random& random) {
  CHECK_GT(num_adapters, 0);
  std::vector<int32_t> adapters(n, 0);
  const int32_t num_popular =
      std::min(num_adapters, static_cast<int32_t>(std::ceil(std::sqrt(static_cast<double>(n)))));
  std::vector<double> weights(num_popular);
  for (int32_t i = 0; i < num_popular; ++i) weights[i] = std::pow(kSkew, -i);
  const WeightedPicker popular(weights);
  for (int32_t i = 0; i < n; ++i) {
    switch (popularity) {
      case Popularity::kDistinct:
        adapters[i] = i % num_adapters;
        break;
      case Popularity::kUniform:
        adapters[i] = i % num_popular;
        break;
      case Popularity::kSkewed:
        adapters[i] = popular.Pick(random);
        break;
      case Popularity::kIdentical:
        break;
    }
  }
  return adapters;
}

std::vector<double> ArrivalSeconds(int32_t n, double requests_per_second, Random& random) {
  std::vector<double> arrivals(n, 0.0);
  if (requests_per_second <= 0.0) return arrivals;
  double now = 0.0;
  for (double& arrival : arrivals) {
    now += random.Exponential() / requests_per_second;
    arrival = now;
  }
  return arrivals;
}

Result<std::vector<RequestLengths>> ReadLengths(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  std::stringstream stream(text);
  std::string line;
  std::getline(stream, line);
  const std::vector<std::string> names = SplitAtCommas(line);
  const int prompt = FindColumn(names, {"prompt", "input", "context", "prefill"});
  const int output = FindColumn(names, {"response", "output", "generated", "decode"});
  if (prompt < 0 || output < 0) {
    return InvalidArgumentError(path + ": the first line must name a prompt and an output column");
  }
  std::vector<RequestLengths> lengths;
  while (std::getline(stream, line)) {
    const std::vector<std::string> fields = SplitAtCommas(line);
    if (static_cast<int>(fields.size()) <= std::max(prompt, output)) continue;
    const RequestLengths row{std::atoi(fields[prompt].c_str()), std::atoi(fields[output].c_str())};
    if (row.prompt_tokens > 0 && row.output_tokens > 0) lengths.push_back(row);
  }
  if (lengths.empty()) return InvalidArgumentError(path + ": no row with two positive lengths");
  return lengths;
}

Percentiles ComputePercentiles(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto rank = [&](double share) {
    const auto idx = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
    return values[std::max<size_t>(idx, 1) - 1];
  };
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return {.mean = sum / static_cast<double>(values.size()),
          .p50 = rank(0.5),
          .p90 = rank(0.9),
          .p95 = rank(0.95),
          .p99 = rank(0.99),
          .max = values.back()};
}

}  // namespace graft
