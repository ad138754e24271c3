#include "executor/pooled_states.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include "kernels/row_sum/row_sum.h"

namespace graft {

PooledStates::PooledStates(Transformer& transformer, int32_t sequences_max, const Device& device)
    : transformer_(transformer),
      sums_(static_cast<size_t>(sequences_max)),
      rows_(transformer.limits().step_tokens_max * int64_t{sizeof(int32_t)}, device),
      host_sums_(transformer.config().hidden_size * int64_t{sizeof(double)}, device) {
  if (!device.is_cpu()) device_sums_ = Buffer(host_sums_.bytes(), device);
}

BytesNeeded PooledStates::BytesFor(int32_t step_tokens_max, int64_t hidden, const Device& device) {
  const int64_t sums = hidden * int64_t{sizeof(double)};
  const int64_t on_host = step_tokens_max * int64_t{sizeof(int32_t)} + sums;
  if (device.is_cpu()) return {.on_device = on_host};
  return {.on_device = sums, .on_host = on_host};
}

// In batches of as many rows as there are logits for.
bool PooledStates::Add(int32_t slot, int32_t first_row, int32_t num_rows, Stream& stream) {
  const int64_t hidden = transformer_.config().hidden_size;
  std::vector<double>& sums = sums_[static_cast<size_t>(slot)];
  sums.resize(static_cast<size_t>(hidden), 0.0);
  std::copy(sums.begin(), sums.end(), host_sums_.as<double>());
  const bool is_cpu = stream.device.is_cpu();
  double* const target = is_cpu ? host_sums_.as<double>() : device_sums_.as<double>();
  if (!is_cpu) CopyToDevice(target, host_sums_.as<double>(), host_sums_.bytes(), stream);
  const std::span<int32_t> rows(rows_.as<int32_t>(), static_cast<size_t>(num_rows));
  std::iota(rows.begin(), rows.end(), first_row);
  const auto rows_max = static_cast<size_t>(transformer_.limits().logits_rows_max);
  for (size_t done = 0; done < rows.size(); done += rows_max) {
    const std::span<int32_t> batch = rows.subspan(done, std::min(rows_max, rows.size() - done));
    RowSum({.x = transformer_.HiddenStates(batch, stream),
            .num_rows = static_cast<int64_t>(batch.size()),
            .n = hidden,
            .sums = target},
           stream);
  }
  if (!is_cpu) CopyFromDevice(host_sums_.as<double>(), target, host_sums_.bytes(), stream);
  Synchronize(stream);
  std::copy_n(host_sums_.as<double>(), hidden, sums.begin());
  return std::all_of(sums.begin(), sums.end(), [](double sum) { return std::isfinite(sum); });
}

std::vector<float> PooledStates::Take(int32_t slot, double count) {
  const std::vector<double> sums = std::exchange(sums_[static_cast<size_t>(slot)], {});
  std::vector<float> means;
  means.reserve(sums.size());
  for (const double sum : sums) means.push_back(static_cast<float>(sum / count));
  return means;
}

}  // namespace graft
