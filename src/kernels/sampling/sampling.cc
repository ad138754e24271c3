#include "kernels/sampling/sampling.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "kernels/common/cpu_isa.h"
#include "kernels/common/parallel_rows.h"
#include "kernels/sampling/candidates.h"
#include "kernels/sampling/row_scan.h"
#include "kernels/sampling/sampling_device.h"

namespace graft {

GRAFT_CPU_OP(ScanRow, ScanRowArgs)
GRAFT_CPU_OP(WeighRow, WeighRowArgs)

void ScanRow(const ScanRowArgs& args, Stream& stream) { ScanRowCpu(args, stream); }
void WeighRow(const WeighRowArgs& args, Stream& stream) { WeighRowCpu(args, stream); }

namespace {

constexpr float kNegativeInfinity = -std::numeric_limits<float>::infinity();

void CheckToken(int32_t token, int32_t vocab_size, const char* what) {
  CHECK(token >= 0 && token < vocab_size)
      << what << " names token " << token << " of a vocabulary of " << vocab_size;
}

void CheckRow(const SamplingRow& row) {
  CHECK(row.temperature >= 0.0f && std::isfinite(row.temperature)) << row.temperature;
  CHECK(row.top_p > 0.0f && row.top_p <= 1.0f) << row.top_p;
  CHECK_GE(row.top_k, 0);
  CHECK(row.min_p >= 0.0f && row.min_p <= 1.0f) << row.min_p;
  CHECK_GT(row.repetition_penalty, 0.0f);
  CHECK(row.num_logprobs >= -1 && row.num_logprobs <= kLogprobsMax) << row.num_logprobs;
  CHECK(row.num_counts == 0 || row.counts != nullptr);
  CHECK(row.num_logit_bias == 0 || row.logit_bias != nullptr);
  CHECK(row.num_banned == 0 || row.banned != nullptr);
}

// False: NaN, +Inf or nothing but -Inf.
bool Scan(const float* logits, int32_t n, Stream& stream, RowScratch& scratch, ScannedRow* row) {
  scratch.maxima.resize(NumScanBlocks(n));
  bool finite = false;
  ScanRow({.logits = logits, .n = n, .maxima = scratch.maxima.data(), .finite = &finite}, stream);
  if (!finite) return false;
  const float maximum = *std::max_element(scratch.maxima.begin(), scratch.maxima.end());
  *row = {.logits = logits, .n = n, .maxima = scratch.maxima.data(), .maximum = maximum};
  return maximum > kNegativeInfinity;
}

// log(sum(exp(logits))).
double LogSumExp(const ScannedRow& row, Stream& stream, RowScratch& scratch) {
  scratch.sums.resize(NumScanBlocks(row.n));
  WeighRow({.logits = row.logits, .n = row.n, .maximum = row.maximum, .sums = scratch.sums.data()},
           stream);
  double total = 0.0;
  for (const float sum : scratch.sums) total += sum;
  return row.maximum + std::log(total);
}

// The likeliest tokens; those of probability zero are left out.
void FillTop(const ScannedRow& row, int32_t num_top, double log_sum, RowScratch& scratch,
             SampledToken* out) {
  if (num_top <= 0) return;
  Candidates& candidates = scratch.candidates;
  GatherLargest(row, num_top, scratch, &candidates);
  int32_t ranked[kLogprobsMax];
  const int32_t count = RankLargest(candidates, num_top, scratch, ranked);
  for (int32_t i = 0; i < count; ++i) {
    const float logit = candidates.logits[ranked[i]];
    if (logit == kNegativeInfinity) break;
    out->top_tokens[i] = candidates.tokens[ranked[i]];
    out->top_logprobs[i] = static_cast<float>(logit - log_sum);
    out->num_top = i + 1;
  }
}

bool AdjustsLogits(const SamplingRow& row) {
  const bool penalises = row.repetition_penalty != 1.0f || row.frequency_penalty != 0.0f ||
                         row.presence_penalty != 0.0f;
  return (penalises && row.num_counts > 0) || row.num_logit_bias > 0 || row.num_banned > 0 ||
         row.mask != nullptr;
}

// Most words of a grammar's mask have no token, or all.
void MaskLogits(const uint32_t* mask, int32_t n, float* logits) {
  for (int32_t begin = 0; begin < n; begin += 32) {
    const uint32_t word = mask[begin / 32];
    if (word == ~uint32_t{0}) continue;
    const int32_t end = std::min(n, begin + 32);
    for (int32_t i = begin; i < end; ++i) {
      if ((word >> (i - begin) & 1) == 0) logits[i] = kNegativeInfinity;
    }
  }
}

void AdjustLogits(const SamplingRow& row, int32_t n, float* logits) {
  for (int32_t i = 0; i < row.num_counts; ++i) {
    const TokenCount& count = row.counts[i];
    CheckToken(count.token, n, "counts");
    float& logit = logits[count.token];
    if (count.in_prompt || count.num_output > 0) {
      logit = logit < 0.0f ? logit * row.repetition_penalty : logit / row.repetition_penalty;
    }
    if (count.num_output > 0) {
      logit -= row.frequency_penalty * static_cast<float>(count.num_output) + row.presence_penalty;
    }
  }
  for (int32_t i = 0; i < row.num_logit_bias; ++i) {
    CheckToken(row.logit_bias[i].first, n, "logit_bias");
    logits[row.logit_bias[i].first] += row.logit_bias[i].second;
  }
  for (int32_t i = 0; i < row.num_banned; ++i) {
    CheckToken(row.banned[i], n, "banned");
    logits[row.banned[i]] = kNegativeInfinity;
  }
  if (row.mask != nullptr) MaskLogits(row.mask, n, logits);
}

// The lowest id among the largest.
int32_t LikeliestToken(const ScannedRow& row) {
  int32_t block = 0;
  while (row.maxima[block] < row.maximum) ++block;
  int32_t token = block * kScanBlock;
  while (row.logits[token] < row.maximum) ++token;
  return token;
}

void SampleRow(const float* logits, int32_t n, const SamplingRow& settings, Stream& stream,
               RowScratch& scratch, SampledToken* out) {
  *out = SampledToken{};
  out->not_finite = true;
  ScannedRow row;
  if (!Scan(logits, n, stream, scratch, &row)) return;
  double log_sum = 0.0;
  if (settings.num_logprobs >= 0) {
    log_sum = LogSumExp(row, stream, scratch);
    FillTop(row, settings.num_logprobs, log_sum, scratch, out);
  }
  if (AdjustsLogits(settings)) {
    scratch.adjusted.assign(logits, logits + n);
    AdjustLogits(settings, n, scratch.adjusted.data());
    if (!Scan(scratch.adjusted.data(), n, stream, scratch, &row)) {
      out->num_top = 0;
      return;
    }
  }
  out->not_finite = false;
  out->token = settings.temperature == 0.0f ? LikeliestToken(row)
                                            : DrawToken(row, settings, stream, scratch);
  if (settings.num_logprobs >= 0) {
    out->logprob = static_cast<float>(logits[out->token] - log_sum);
  }
}

// Grows to the vocabulary once per thread instead of once per step.
RowScratch& ThreadScratch() {
  static thread_local RowScratch scratch;
  return scratch;
}

// Calls function(row_idx, scratch) for every row; threads take the next one when they are free, for
// rows differ in cost.
template <typename Function>
void ForEachRow(int32_t num_rows, int32_t vocab_size, Stream& stream, const Function& function) {
  std::atomic<int32_t> next{0};
  const auto work = [&](int) {
    RowScratch& scratch = ThreadScratch();
    for (int32_t row = next++; row < num_rows; row = next++) function(row, scratch);
  };
  const int64_t bytes = int64_t{num_rows} * vocab_size * static_cast<int64_t>(sizeof(float));
  if (num_rows > 1 && bytes >= kForkBytes) {
    stream.cpu_threads->Run(work);
  } else {
    work(0);
  }
}

// Largest logit, nothing else: needs no look at the settings.
bool IsPlainGreedy(const SamplingRow& row) {
  return row.temperature == 0.0f && row.num_logprobs < 0 && !AdjustsLogits(row);
}

// Bytes that each row takes in SamplingScratch.
constexpr int64_t kSettingsBytes = sizeof(DeviceRow) + sizeof(int32_t);
constexpr int64_t kGreedyBytes = sizeof(uint64_t) + sizeof(uint32_t);

// Copies a row's lists to page-locked memory and points the row there.
class ListPacker {
 public:
  // Makes room for the lists of all rows.
  ListPacker(const SamplingArgs& args, PinnedBuffer& lists) {
    int64_t bytes = 0;
    for (int32_t i = 0; i < args.num_rows; ++i) {
      const SamplingRow& row = args.rows[i];
      bytes += row.num_counts * Bytes(row.counts) + row.num_logit_bias * Bytes(row.logit_bias) +
               row.num_banned * Bytes(row.banned) +
               NumWords(row, args.vocab_size) * Bytes(row.mask);
    }
    if (bytes > lists.bytes()) lists = PinnedBuffer(2 * bytes);
    next_ = lists.as<char>();
  }

  void Pack(int32_t vocab_size, SamplingRow* row) {
    for (int32_t i = 0; i < row->num_counts; ++i) {
      CheckToken(row->counts[i].token, vocab_size, "counts");
    }
    for (int32_t i = 0; i < row->num_logit_bias; ++i) {
      CheckToken(row->logit_bias[i].first, vocab_size, "logit_bias");
    }
    for (int32_t i = 0; i < row->num_banned; ++i) {
      CheckToken(row->banned[i], vocab_size, "banned");
    }
    row->counts = Copy(row->counts, row->num_counts);
    row->logit_bias = Copy(row->logit_bias, row->num_logit_bias);
    row->banned = Copy(row->banned, row->num_banned);
    if (row->mask != nullptr) row->mask = Copy(row->mask, NumWords(*row, vocab_size));
  }

 private:
  static int32_t NumWords(const SamplingRow& row, int32_t vocab_size) {
    return row.mask == nullptr ? 0 : NumMaskWords(vocab_size);
  }
  template <typename T>
  static int64_t Bytes(const T*) {
    static_assert(sizeof(T) % 4 == 0 && alignof(T) <= 4, "lists follow each other");
    return static_cast<int64_t>(sizeof(T));
  }
  template <typename T>
  const T* Copy(const T* list, int32_t n) {
    T* copy = reinterpret_cast<T*>(next_);
    std::copy_n(list, n, copy);
    next_ += n * Bytes(list);
    return copy;
  }

  char* next_ = nullptr;
};

void CheckScratch(const SamplingScratch* scratch, int32_t num_rows, int32_t vocab_size) {
  CHECK(scratch != nullptr);
  CHECK(num_rows <= scratch->rows_max && vocab_size <= scratch->vocab_size)
      << num_rows << " rows of " << vocab_size << " are more than there is scratch for";
}

SamplingScratch::Settings& NextSettings(SamplingScratch& scratch) {
  return scratch.settings[scratch.num_calls++ % scratch.settings.size()];
}

// Where the parts of the scratch lie; which rows there are is left open.
DrawRowsArgs PlaceScratch(SamplingScratch& scratch, const SamplingScratch::Settings& settings) {
  DrawRowsArgs args;
  args.rows = settings.rows.as<DeviceRow>();
  args.greedy_rows = reinterpret_cast<int32_t*>(settings.rows.as<DeviceRow>() + scratch.rows_max);
  args.adjusted = scratch.adjusted.as<float>();
  args.greedy_best = scratch.greedy.as<uint64_t>();
  args.tickets = reinterpret_cast<uint32_t*>(args.greedy_best + scratch.rows_max);
  return args;
}

void DrawRows(const DrawRowsArgs& args, Stream& stream) {
  if constexpr (kHasCuda) DrawRowsCuda(args, stream);
}

void SampleOnGpu(const SamplingArgs& args, Stream& stream) {
  CheckScratch(args.scratch, args.num_rows, args.vocab_size);
  SamplingScratch::Settings& settings = NextSettings(*args.scratch);
  ListPacker lists(args, settings.lists);
  DrawRowsArgs draw = PlaceScratch(*args.scratch, settings);
  draw.logits = args.logits;
  draw.vocab_size = args.vocab_size;
  draw.out = args.out;
  draw.device_tokens = args.device_tokens;
  DeviceRow* rows = settings.rows.as<DeviceRow>();
  int32_t* greedy_rows = reinterpret_cast<int32_t*>(rows + args.scratch->rows_max);
  for (int32_t i = 0; i < args.num_rows; ++i) {
    if (IsPlainGreedy(args.rows[i])) {
      greedy_rows[draw.num_greedy++] = i;
      continue;
    }
    DeviceRow& row = rows[draw.num_rows++];
    row = {.settings = args.rows[i], .row_idx = i};
    lists.Pack(args.vocab_size, &row.settings);
  }
  if (draw.num_greedy == args.num_rows) draw.greedy_rows = nullptr;
  DrawRows(draw, stream);
}

void TokenLogprobsOnGpu(const TokenLogprobsArgs& args, Stream& stream) {
  CheckScratch(args.scratch, args.num_rows, args.vocab_size);
  const SamplingScratch::Settings& settings = NextSettings(*args.scratch);
  DrawRowsArgs draw = PlaceScratch(*args.scratch, settings);
  draw.logits = args.logits;
  draw.vocab_size = args.vocab_size;
  draw.out = args.out;
  draw.num_rows = args.num_rows;
  DeviceRow* rows = settings.rows.as<DeviceRow>();
  for (int32_t i = 0; i < args.num_rows; ++i) {
    rows[i] = {
        .settings = {.num_logprobs = args.num_top}, .row_idx = i, .given_token = args.tokens[i]};
  }
  DrawRows(draw, stream);
}

}  // namespace

SamplingScratch::SamplingScratch(int32_t rows_max, int32_t vocab_size, const Device& device)
    : rows_max(rows_max), vocab_size(vocab_size) {
  if (device.is_cpu()) return;
  for (Settings& one : settings) one.rows = PinnedBuffer(rows_max * kSettingsBytes);
  adjusted = Buffer(int64_t{rows_max} * vocab_size * 4, device);
  greedy = Buffer(rows_max * kGreedyBytes, device);
}

BytesNeeded SamplingScratch::BytesFor(int32_t rows_max, int32_t vocab_size, const Device& device) {
  if (device.is_cpu()) return {};
  const auto num_settings = static_cast<int64_t>(std::tuple_size_v<decltype(settings)>);
  return {.on_device = rows_max * (int64_t{vocab_size} * 4 + kGreedyBytes),
          .on_host = num_settings * rows_max * kSettingsBytes};
}

void Sample(const SamplingArgs& args, Stream& stream) {
  CHECK_GE(args.num_rows, 0);
  if (args.num_rows == 0) return;
  CHECK_GT(args.vocab_size, 0);
  CHECK(args.logits != nullptr && args.rows != nullptr && args.out != nullptr);
  for (int32_t i = 0; i < args.num_rows; ++i) CheckRow(args.rows[i]);
  if (!stream.device.is_cpu()) return SampleOnGpu(args, stream);
  CHECK(args.device_tokens == nullptr);
  ForEachRow(args.num_rows, args.vocab_size, stream, [&](int32_t i, RowScratch& scratch) {
    SampleRow(args.logits + int64_t{i} * args.vocab_size, args.vocab_size, args.rows[i], stream,
              scratch, &args.out[i]);
  });
}

void TokenLogprobs(const TokenLogprobsArgs& args, Stream& stream) {
  CHECK_GE(args.num_rows, 0);
  CHECK(args.num_top >= 0 && args.num_top <= kLogprobsMax) << args.num_top;
  if (args.num_rows == 0) return;
  CHECK_GT(args.vocab_size, 0);
  CHECK(args.logits != nullptr && args.tokens != nullptr && args.out != nullptr);
  for (int32_t i = 0; i < args.num_rows; ++i) CheckToken(args.tokens[i], args.vocab_size, "tokens");
  if (!stream.device.is_cpu()) return TokenLogprobsOnGpu(args, stream);
  ForEachRow(args.num_rows, args.vocab_size, stream, [&](int32_t i, RowScratch& scratch) {
    const float* logits = args.logits + int64_t{i} * args.vocab_size;
    SampledToken* out = &args.out[i];
    *out = SampledToken{};
    ScannedRow row;
    out->not_finite = !Scan(logits, args.vocab_size, stream, scratch, &row);
    if (out->not_finite) return;
    const double log_sum = LogSumExp(row, stream, scratch);
    out->token = args.tokens[i];
    out->logprob = static_cast<float>(logits[args.tokens[i]] - log_sum);
    FillTop(row, args.num_top, log_sum, scratch, out);
  });
}

}  // namespace graft
