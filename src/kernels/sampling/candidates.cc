#include "kernels/sampling/candidates.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "base/random.h"
#include "kernels/sampling/row_scan.h"

namespace graft {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// A temperature so small that its inverse would overflow draws among the equals of the maximum, as
// this one does.
float InverseTemperature(float temperature) { return 1.0f / std::max(temperature, 1e-30f); }

void GatherAtLeast(const ScannedRow& row, float bound, Candidates* out) {
  out->Clear();
  size_t count = 0;
  for (int32_t begin = 0; begin < row.n; begin += kScanBlock) {
    if (row.maxima[begin / kScanBlock] < bound) continue;
    const int32_t end = std::min(row.n, begin + kScanBlock);
    // Written always and counted if wanted: the branch would be a coin toss.
    out->tokens.resize(count + kScanBlock);
    out->logits.resize(count + kScanBlock);
    for (int32_t i = begin; i < end; ++i) {
      out->tokens[count] = i;
      out->logits[count] = row.logits[i];
      count += row.logits[i] >= bound ? 1 : 0;
    }
  }
  out->tokens.resize(count);
  out->logits.resize(count);
}

// Integers that ascend as (logit descending, index ascending). The low half is the index.
uint64_t RankKey(float logit, size_t idx) {
  const auto bits = std::bit_cast<uint32_t>(logit + 0.0f);  // -0 becomes 0
  const uint32_t ascending = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  return uint64_t{~ascending} << 32 | idx;
}

size_t RankIdx(uint64_t key) { return static_cast<uint32_t>(key); }

std::vector<uint64_t>& RankKeys(const Candidates& candidates, RowScratch& scratch) {
  scratch.order.resize(candidates.tokens.size());
  for (size_t i = 0; i < scratch.order.size(); ++i) {
    scratch.order[i] = RankKey(candidates.logits[i], i);
  }
  return scratch.order;
}

// Fills out->weights and returns their sum.
double Weigh(const float* logits, int32_t n, float maximum, float inverse_temperature,
             Stream& stream, RowScratch& scratch, float* weights) {
  scratch.sums.resize(NumScanBlocks(n));
  WeighRow({.logits = logits,
            .n = n,
            .maximum = maximum,
            .inverse_temperature = inverse_temperature,
            .weights = weights,
            .sums = scratch.sums.data()},
           stream);
  double total = 0.0;
  for (const float sum : scratch.sums) total += sum;
  return total;
}

// Keeps the k largest and their equals.
void KeepLargest(int32_t k, RowScratch& scratch, Candidates* out) {
  if (static_cast<size_t>(k) >= out->tokens.size()) return;
  scratch.selection = out->logits;
  const auto kth = scratch.selection.begin() + (k - 1);
  std::nth_element(scratch.selection.begin(), kth, scratch.selection.end(), std::greater<>());
  const float bound = *kth;
  out->KeepIf([&](size_t i) { return out->logits[i] >= bound; });
}

// Keeps the likeliest candidates, as few as have a total weight of `target` or more; all candidates
// if even they weigh less. Quickselect by weight: each round parts the undecided by a pivot and
// goes on with the side in which the target is reached.
void KeepLikeliest(double target, RowScratch& scratch, Candidates* out) {
  std::vector<uint64_t>& order = RankKeys(*out, scratch);
  auto begin = order.begin();
  auto end = order.end();
  double before = 0.0;  // weight of what is kept for certain, [order.begin(), begin)
  while (end - begin > 1) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end);
    double upper = 0.0;
    for (auto it = begin; it != middle; ++it) upper += out->weights[RankIdx(*it)];
    if (before + upper >= target) {
      end = middle;
    } else {
      before += upper;
      begin = middle;
    }
  }
  // The target is reached at *begin, the last one kept.
  const uint64_t last = *begin;
  out->KeepIf([out, last](size_t i) { return RankKey(out->logits[i], i) <= last; });
}

// The first index at which the running sum of the weights exceeds `target`. If rounding keeps the
// sum from that, the last index with a weight above zero.
int32_t FindWeight(const float* weights, int32_t n, double target) {
  int32_t last = -1;
  double sum = 0.0;
  for (int32_t i = 0; i < n; ++i) {
    if (weights[i] <= 0.0f) continue;
    last = i;
    sum += weights[i];
    if (sum > target) break;
  }
  return last;
}

// A draw from the whole vocabulary: first the block, then the token in it.
int32_t DrawFromRow(const ScannedRow& row, double uniform, float inverse_temperature,
                    Stream& stream, RowScratch& scratch) {
  scratch.weights.resize(row.n);
  const double total = Weigh(row.logits, row.n, row.maximum, inverse_temperature, stream, scratch,
                             scratch.weights.data());
  const double target = uniform * total;
  double before = 0.0;
  double chosen_before = 0.0;
  int32_t chosen = 0;
  for (size_t block = 0; block < scratch.sums.size(); ++block) {
    if (scratch.sums[block] <= 0.0f) continue;
    chosen = static_cast<int32_t>(block);
    chosen_before = before;
    before += scratch.sums[block];
    if (before > target) break;
  }
  const int32_t begin = chosen * kScanBlock;
  const int32_t count = std::min(kScanBlock, row.n - begin);
  return begin + FindWeight(scratch.weights.data() + begin, count, target - chosen_before);
}

}  // namespace

void Candidates::Clear() {
  tokens.clear();
  logits.clear();
  weights.clear();
}

void GatherLargest(const ScannedRow& row, int32_t k, RowScratch& scratch, Candidates* out) {
  // If the maxima of k blocks reach the bound, these blocks hold k logits that reach it.
  float bound = kMinusInfinity;
  const int32_t num_blocks = NumScanBlocks(row.n);
  if (k <= num_blocks) {
    scratch.selection.assign(row.maxima, row.maxima + num_blocks);
    const auto kth = scratch.selection.begin() + (k - 1);
    std::nth_element(scratch.selection.begin(), kth, scratch.selection.end(), std::greater<>());
    bound = *kth;
  }
  GatherAtLeast(row, bound, out);
}

int32_t RankLargest(const Candidates& candidates, int32_t k, RowScratch& scratch, int32_t* ranked) {
  std::vector<uint64_t>& order = RankKeys(candidates, scratch);
  const auto count = static_cast<int32_t>(std::min<size_t>(k, order.size()));
  std::partial_sort(order.begin(), order.begin() + count, order.end());
  for (int32_t i = 0; i < count; ++i) ranked[i] = static_cast<int32_t>(RankIdx(order[i]));
  return count;
}

bool HasFilter(const SamplingRow& settings, int32_t vocab_size) {
  return (settings.top_k > 0 && settings.top_k < vocab_size) || settings.top_p < 1.0f ||
         settings.min_p > 0.0f;
}

void FilterRow(const ScannedRow& row, const SamplingRow& settings, Stream& stream,
               RowScratch& scratch, Candidates* out) {
  const float inverse_temperature = InverseTemperature(settings.temperature);
  const bool cuts_k = settings.top_k > 0 && settings.top_k < row.n;
  double total = 0.0;
  if (cuts_k) {
    GatherLargest(row, settings.top_k, scratch, out);
    KeepLargest(settings.top_k, scratch, out);
  } else {
    // The exponent below which no token can be kept, with room for rounding.
    double exponent_min = -std::numeric_limits<double>::infinity();
    if (settings.min_p > 0.0f) exponent_min = std::log(settings.min_p) - 1e-3;
    if (settings.top_p < 1.0f) {
      total = Weigh(row.logits, row.n, row.maximum, inverse_temperature, stream, scratch, nullptr);
      // All tokens below it together weigh less than what top_p may leave out.
      const double left_out = (1.0 - settings.top_p) * total / row.n;
      exponent_min = std::max(exponent_min, std::log(left_out) - 1e-3);
    }
    const double bound = std::max(row.maximum + exponent_min / inverse_temperature,
                                  double{std::numeric_limits<float>::lowest()});
    // One step down, should narrowing have rounded up.
    GatherAtLeast(row, std::nextafter(static_cast<float>(bound), kMinusInfinity), out);
  }
  const auto num_candidates = static_cast<int32_t>(out->tokens.size());
  out->weights.resize(num_candidates);
  const double candidates_total = Weigh(out->logits.data(), num_candidates, row.maximum,
                                        inverse_temperature, stream, scratch, out->weights.data());
  if (cuts_k) total = candidates_total;
  if (settings.top_p < 1.0f) KeepLikeliest(settings.top_p * total, scratch, out);
  if (settings.min_p > 0.0f) {
    out->KeepIf([&](size_t i) { return out->weights[i] >= settings.min_p; });
  }
}

int32_t DrawToken(const ScannedRow& row, const SamplingRow& settings, Stream& stream,
                  RowScratch& scratch) {
  const double uniform = RandomUniform(settings.seed, settings.draw_idx);
  if (!HasFilter(settings, row.n)) {
    return DrawFromRow(row, uniform, InverseTemperature(settings.temperature), stream, scratch);
  }
  Candidates& kept = scratch.candidates;
  FilterRow(row, settings, stream, scratch, &kept);
  double total = 0.0;
  for (const float weight : kept.weights) total += weight;
  const int32_t idx =
      FindWeight(kept.weights.data(), static_cast<int32_t>(kept.weights.size()), uniform * total);
  return kept.tokens[idx];
}

}  // namespace graft
