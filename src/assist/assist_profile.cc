#include "assist/assist_profile.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/thread_pool.h"
#include "kernels/lora/lora.h"

namespace graft {
namespace {

constexpr int32_t kFewRows = 4;
constexpr int32_t kManyRows = 24;
constexpr int kRepeats = 3;

// One worker's Lora over a projection of the model, on small numbers.
class Workload {
 public:
  Workload(const ModelConfig& config, LoraModule first, DType dtype, bool x_is_fp32) {
    args_.dtype = dtype;
    args_.x_is_fp32 = x_is_fp32;
    args_.num_slices = 0;
    for (const LoraModule module : ModulesOfProjection(first)) {
      const LoraModuleShape shape = ShapeOfLoraModule(config, module);
      args_.k = shape.in;
      args_.slice_begin[args_.num_slices] = args_.y_stride;
      args_.slice_n[args_.num_slices++] = shape.out;
      args_.y_stride += shape.out;
    }
    args_.x_stride = args_.k;
    const int64_t bytes = DTypeBytes(dtype);
    const int64_t rank_max = AssistProfile::kRanks.back();
    weights_.resize(
        static_cast<size_t>((args_.num_slices * args_.k + args_.y_stride) * rank_max * bytes));
    x_.resize(static_cast<size_t>(kManyRows * args_.k));
    y_.resize(static_cast<size_t>(kManyRows * args_.y_stride));
    h_.resize(static_cast<size_t>(args_.num_slices * kManyRows * rank_max));
    const char* row = weights_.data();
    for (int32_t s = 0; s < args_.num_slices; ++s) {
      for (int32_t j = 0; j < rank_max; ++j, row += args_.k * bytes) a_rows_[s].push_back(row);
      for (int32_t j = 0; j < rank_max; ++j, row += args_.slice_n[s] * bytes) {
        b_rows_[s].push_back(row);
      }
    }
  }

  // The least of a few runs, in microseconds.
  double Run(int32_t rank, int32_t num_rows, Stream& stream) {
    LoraMatrix matrices[kLoraSlicesMax];
    const LoraSegment segment{0, num_rows, 0};
    args_.segments = &segment;
    args_.num_segments = 1;
    args_.matrices = matrices;
    args_.matrices_stride = args_.num_slices;
    args_.x = x_.data();
    args_.y = y_.data();
    args_.h = h_.data();
    args_.h_stride = rank;
    args_.num_rows = num_rows;
    int64_t least_ns = INT64_MAX;
    for (int i = 0; i < kRepeats; ++i) {
      // Other rows each time: those of the last run are near.
      next_row_ = next_row_ + 2 * rank <= AssistProfile::kRanks.back() ? next_row_ + rank : 0;
      for (int32_t s = 0; s < args_.num_slices; ++s) {
        matrices[s] = {a_rows_[s].data() + next_row_, b_rows_[s].data() + next_row_, rank, 1.0f};
      }
      const int64_t begin_ns = SteadyClock::Get().NowNs();
      Lora(args_, stream);
      least_ns = std::min(least_ns, SteadyClock::Get().NowNs() - begin_ns);
    }
    return static_cast<double>(least_ns) * 1e-3;
  }

 private:
  LoraArgs args_;
  int32_t next_row_ = 0;
  std::vector<char> weights_;
  std::vector<float> x_, y_, h_;
  std::vector<const void*> a_rows_[kLoraSlicesMax], b_rows_[kLoraSlicesMax];
};

}  // namespace

std::span<const LoraModule> ModulesOfProjection(LoraModule first) {
  const std::span<const LoraModule> all(kAllLoraModules);
  switch (first) {
    case LoraModule::kQ:
      return all.subspan(0, 3);
    case LoraModule::kGate:
      return all.subspan(4, 2);
    default:
      return all.subspan(static_cast<size_t>(first), 1);
  }
}

AssistProfile AssistProfile::Measure(const ModelConfig& config, DType dtype, bool x_is_fp32) {
  CHECK(HasDenseTargets(config)) << "targets that were not measured";
  AssistProfile profile;
  ThreadPool alone(1);
  Stream stream{.device = {}, .cpu_threads = &alone};
  for (const LoraModule first : kFirstModules) {
    Workload workload(config, first, dtype, x_is_fp32);
    for (const int32_t rank : kRanks) {
      const double few_us = workload.Run(rank, kFewRows, stream);
      const double many_us = workload.Run(rank, kManyRows, stream);
      // A busy machine may measure nonsense: at least a tenth of what the many rows took is theirs.
      AssistCost& cost = profile.Of(first, rank);
      cost.row_us = std::max(many_us - few_us, 0.1 * many_us) / (kManyRows - kFewRows);
      cost.fixed_us = std::max(few_us - kFewRows * cost.row_us, 0.0);
    }
  }
  return profile;
}

const AssistCost& AssistProfile::Of(LoraModule first, int32_t rank) const {
  const auto module = std::find(kFirstModules.begin(), kFirstModules.end(), first);
  CHECK(module != kFirstModules.end()) << LoraModuleName(first) << " begins no projection";
  const auto at = std::find_if(kRanks.begin(), kRanks.end() - 1,
                               [rank](int32_t measured) { return rank <= measured; });
  return costs_[static_cast<size_t>(module - kFirstModules.begin())]
               [static_cast<size_t>(at - kRanks.begin())];
}

BridgeRates RatesOf(const AssistProfile& profile, const ModelConfig& config, DType dtype,
                    int32_t num_workers) {
  int64_t rank_bytes = 0;  // of a layer, per rank
  for (const LoraModule module : config.lora_modules()) {
    const LoraModuleShape shape = ShapeOfLoraModule(config, module);
    rank_bytes += (shape.in + shape.out) * DTypeBytes(dtype);
  }
  BridgeRates rates{.ranks = {}, .num_workers = num_workers};
  for (const int32_t rank : AssistProfile::kRanks) {
    AssistCost all;
    for (const LoraModule first : AssistProfile::kFirstModules) {
      all.fixed_us += profile.Of(first, rank).fixed_us;
      all.row_us += profile.Of(first, rank).row_us;
    }
    const double byte_ns = 1e3 / static_cast<double>(rank_bytes * rank);
    rates.ranks.push_back({rank, all.fixed_us * byte_ns, all.row_us * byte_ns});
  }
  return rates;
}

int32_t SplitRows(std::span<const AssistPart> parts, int32_t num_workers, int32_t* share_begin) {
  int32_t num_rows = 0;
  double total_us = 0.0;
  double worth = 0.0;  // how many workers' fixed costs the rows are worth
  for (const AssistPart& part : parts) {
    const double part_us = part.num_rows * part.cost.row_us;
    num_rows += part.num_rows;
    total_us += part_us;
    worth += part.cost.fixed_us > 0.0 ? part_us / part.cost.fixed_us : part.num_rows;
  }
  const int32_t shares_max = std::max(1, std::min(num_workers, num_rows));
  const auto num_shares =
      static_cast<int32_t>(std::clamp(worth, 1.0, static_cast<double>(shares_max)));
  int32_t share = 0;
  int32_t row = 0;
  double before_us = 0.0;
  share_begin[0] = 0;
  for (const AssistPart& part : parts) {
    const double part_us = part.num_rows * part.cost.row_us;
    // Borders that fall into this part.
    while (share + 1 < num_shares) {
      const double border_us = total_us * (share + 1) / num_shares;
      if (border_us > before_us + part_us) break;
      const double rows = part.cost.row_us > 0.0 ? (border_us - before_us) / part.cost.row_us : 0.0;
      const auto begin = row + static_cast<int32_t>(std::lround(rows));
      ++share;
      share_begin[share] = std::max(share_begin[share - 1], begin);
    }
    before_us += part_us;
    row += part.num_rows;
  }
  while (share < num_shares) share_begin[++share] = num_rows;
  return num_shares;
}

}  // namespace graft
