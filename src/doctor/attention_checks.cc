// Checks of attention over pages that lie scattered: rows that are drawn, one of each sequence, and
// rows of prompts, which begin behind what is in the pages already.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"
#include "base/shuffle.h"
#include "doctor/op_check.h"
#include "doctor/op_operands.h"
#include "kernels/attention/attention.h"

namespace graft {
namespace {

constexpr int32_t kQueryHeads = 8, kKvHeads = 2, kHeadDim = 64, kPageTokens = 16;

struct SequenceShape {
  int32_t num_rows;
  int32_t kv_tokens;  // that its last row sees
};

// Sequences with drawn queries, keys and values, on the host and on the device.
class AttentionCase {
 public:
  AttentionCase(std::vector<SequenceShape> sequences, DType dtype, Stream& stream)
      : sequences_(std::move(sequences)),
        layout_{.num_layers = 1,
                .num_kv_heads = kKvHeads,
                .head_dim = kHeadDim,
                .page_tokens = kPageTokens,
                .dtype = KvBeside(dtype, stream)},
        out_dtype_(ActivationsBeside(dtype, stream)),
        stream_(stream) {
    for (const SequenceShape& sequence : sequences_) {
      row_begin_.push_back(row_begin_.back() + sequence.num_rows);
      page_begin_.push_back(page_begin_.back() +
                            (sequence.kv_tokens + kPageTokens - 1) / kPageTokens);
      kv_tokens_.push_back(sequence.kv_tokens);
    }
    pages_.resize(page_begin_.back());
    std::iota(pages_.begin(), pages_.end(), 0);
    Random random(14);
    Shuffle(pages_, random);
    q_ = DrawNumbers(row_begin_.back() * kRow, 15, DType::kF32);
    pool_ = DrawNumbers(page_begin_.back() * layout_.PageElements(), 16, layout_.dtype);
  }

  // Compares the op's rows with softmax in double precision.
  Comparison Run() {
    const std::vector<float> actual = Compute();
    Comparison found(ToleranceOf(out_dtype_ == DType::kF32 ? layout_.dtype : out_dtype_));
    for (size_t s = 0; s < sequences_.size(); ++s) {
      const SequenceShape& sequence = sequences_[s];
      for (int32_t row = 0; row < sequence.num_rows; ++row) {
        const int32_t visible = sequence.kv_tokens - sequence.num_rows + row + 1;
        for (int32_t head = 0; head < kQueryHeads; ++head) {
          CompareHead(s, row_begin_[s] + row, visible, head, actual, &found);
        }
      }
    }
    return found;
  }

 private:
  static constexpr int64_t kRow = int64_t{kQueryHeads} * kHeadDim;

  std::vector<float> Compute() {
    const auto num_sequences = static_cast<int32_t>(sequences_.size());
    const int32_t kv_tokens_max = *std::ranges::max_element(kv_tokens_);
    const bool are_given =
        sequences_[0].num_rows > 1 && AttentionTellsGivenRows(layout_, stream_.device);
    std::vector<AttentionSplit> list;
    if (!are_given) ListAttentionSplits(row_begin_, page_begin_, kv_tokens_, 0, list);
    const Buffer num_splits =
        OnDevice(std::vector<int32_t>{static_cast<int32_t>(list.size())}, stream_);
    list.resize(AttentionSplitsMax(num_sequences, kv_tokens_max));
    const Buffer splits = OnDevice(list, stream_), pages = OnDevice(pages_, stream_);
    const Buffer page_begin = OnDevice(page_begin_, stream_);
    const Buffer row_begin = OnDevice(row_begin_, stream_);
    const Buffer kv_tokens = OnDevice(kv_tokens_, stream_);
    const Buffer q = NumbersOnDevice(q_, DType::kF32, stream_);
    const Buffer pool = NumbersOnDevice(pool_, layout_.dtype, stream_);
    const auto num_numbers = static_cast<int64_t>(q_.size());
    Buffer out(num_numbers * DTypeBytes(out_dtype_), stream_.device);
    Buffer scratch(
        AttentionScratchBytes(layout_, kQueryHeads, num_sequences, kv_tokens_max, stream_.device),
        stream_.device);
    Attention({.layout = layout_,
               .pool = pool.data(),
               .pages = pages.as<int32_t>(),
               .page_begin = page_begin.as<int32_t>(),
               .row_begin = row_begin.as<int32_t>(),
               .kv_tokens = kv_tokens.as<int32_t>(),
               .num_sequences = num_sequences,
               .num_heads = kQueryHeads,
               .q = q.as<float>(),
               .q_stride = kRow,
               .out = out.data(),
               .out_dtype = out_dtype_,
               .scale = Scale(),
               .num_given = are_given ? num_sequences : 0,
               .splits = splits.as<AttentionSplit>(),
               .num_splits = num_splits.as<int32_t>(),
               .rows_max = row_begin_.back(),
               .sequence_rows_max = sequences_[0].num_rows,
               .kv_tokens_max = kv_tokens_max,
               .scratch = scratch.as<float>()},
              stream_);
    return NumbersFrom(out, out_dtype_, num_numbers, stream_);
  }

  static float Scale() { return 1.0f / std::sqrt(static_cast<float>(kHeadDim)); }

  const float* KeyAt(size_t sequence, int32_t head, int32_t position) const {
    const int32_t page = pages_[page_begin_[sequence] + position / kPageTokens];
    return pool_.data() +
           layout_.KeyOffset(page, 0, head / (kQueryHeads / kKvHeads), position % kPageTokens);
  }

  void CompareHead(size_t sequence, int32_t row, int32_t visible, int32_t head,
                   const std::vector<float>& actual, Comparison* found) const {
    const float* query = q_.data() + row * kRow + int64_t{head} * kHeadDim;
    std::vector<double> weights(static_cast<size_t>(visible));
    for (int32_t position = 0; position < visible; ++position) {
      const float* key = KeyAt(sequence, head, position);
      double score = 0.0;
      for (int32_t i = 0; i < kHeadDim; ++i) score += double{query[i]} * key[i];
      weights[position] = score * Scale();
    }
    const double peak = *std::ranges::max_element(weights);
    double sum = 0.0;
    for (double& weight : weights) sum += weight = std::exp(weight - peak);
    for (int32_t i = 0; i < kHeadDim; ++i) {
      double value = 0.0, magnitude = 0.0;
      for (int32_t position = 0; position < visible; ++position) {
        const double term =
            weights[position] / sum * KeyAt(sequence, head, position)[layout_.KeyElements() + i];
        value += term;
        magnitude += std::fabs(term);
      }
      const int64_t at = row * kRow + int64_t{head} * kHeadDim + i;
      found->Expect("element", at, actual[at], value, magnitude);
    }
  }

  const std::vector<SequenceShape> sequences_;
  const KvLayout layout_;
  const DType out_dtype_;
  Stream& stream_;
  std::vector<int32_t> row_begin_ = {0}, page_begin_ = {0}, kv_tokens_, pages_;
  std::vector<float> q_, pool_;
};

}  // namespace

Comparison CheckDecodeAttention(DType dtype, Stream& stream) {
  return AttentionCase({{1, 1}, {1, 700}, {1, 33}, {1, 128}}, dtype, stream).Run();
}

Comparison CheckPromptAttention(DType dtype, Stream& stream) {
  return AttentionCase({{150, 150}, {20, 70}}, dtype, stream).Run();
}

}  // namespace graft
