// Checks of attention over pages that lie scattered: rows that are drawn, one of each sequence, and
// rows of prompts, which begin behind what is in the pages already.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "base/random.h"
#include "base/shuffle.h"
#include "doctor/op_check.h"
#include "doctor/op_operands.h"
#include "kernels/attention/attention.h"

namespace graft {
namespace {

constexpr int32_t kPageTokens = 16;

struct HeadShape {
  int32_t query_heads;
  int32_t kv_heads;
  int32_t head_dim;
  int32_t window = 0;
  float score_cap = 0.0f;

  std::string ToString() const {
    std::string text = "heads of " + std::to_string(head_dim);
    if (window > 0) text += ", a window";
    if (score_cap > 0.0f) text += ", capped scores";
    return text;
  }
};
// A GPU's kernels are others for each of these sizes, and for more than eight heads of a key head.
constexpr HeadShape kHeadShapes[] = {{.query_heads = 8, .kv_heads = 2, .head_dim = 64},
                                     {.query_heads = 8, .kv_heads = 2, .head_dim = 128},
                                     {.query_heads = 16, .kv_heads = 1, .head_dim = 128},
                                     {6, 2, 96, /*window=*/40},
                                     {4, 2, 256, /*window=*/0, /*score_cap=*/20.0f}};

struct SequenceShape {
  int32_t num_rows;
  int32_t kv_tokens;  // that its last row sees
};

// Sequences with drawn queries, keys and values, on the host and on the device.
class AttentionCase {
 public:
  AttentionCase(const HeadShape& shape, std::vector<SequenceShape> sequences, DType dtype,
                Stream& stream)
      : shape_(shape),
        row_numbers_(int64_t{shape.query_heads} * shape.head_dim),
        what_(shape.ToString() + ", element"),
        sequences_(std::move(sequences)),
        layout_{.num_layers = 1,
                .num_kv_heads = shape.kv_heads,
                .head_dim = shape.head_dim,
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
    q_ = DrawNumbers(row_begin_.back() * row_numbers_, 15, DType::kF32);
    pool_ = DrawNumbers(page_begin_.back() * layout_.PageElements(), 16, layout_.dtype);
  }

  // Compares the op's rows with softmax in double precision.
  void Run(Comparison* found) {
    const std::vector<float> actual = Compute();
    for (size_t s = 0; s < sequences_.size(); ++s) {
      const SequenceShape& sequence = sequences_[s];
      for (int32_t row = 0; row < sequence.num_rows; ++row) {
        const int32_t end = sequence.kv_tokens - sequence.num_rows + row + 1;
        for (int32_t head = 0; head < shape_.query_heads; ++head) {
          CompareHead(s, row_begin_[s] + row, end, head, actual, found);
        }
      }
    }
  }

 private:
  std::vector<float> Compute() {
    const auto num_sequences = static_cast<int32_t>(sequences_.size());
    const int32_t kv_tokens_max = *std::ranges::max_element(kv_tokens_);
    const bool are_given =
        sequences_[0].num_rows > 1 && AttentionTellsGivenRows(layout_, stream_.device);
    std::vector<AttentionSplit> list;
    if (!are_given) ListAttentionSplits(row_begin_, page_begin_, kv_tokens_, shape_.window, list);
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
    Buffer scratch(AttentionScratchBytes(layout_, shape_.query_heads, num_sequences, kv_tokens_max,
                                         stream_.device),
                   stream_.device);
    Attention({.layout = layout_,
               .pool = pool.data(),
               .pages = pages.as<int32_t>(),
               .page_begin = page_begin.as<int32_t>(),
               .row_begin = row_begin.as<int32_t>(),
               .kv_tokens = kv_tokens.as<int32_t>(),
               .num_sequences = num_sequences,
               .num_heads = shape_.query_heads,
               .q = q.as<float>(),
               .q_stride = row_numbers_,
               .out = out.data(),
               .out_dtype = out_dtype_,
               .scale = Scale(),
               .score_cap = shape_.score_cap,
               .window = shape_.window,
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

  float Scale() const { return 1.0f / std::sqrt(static_cast<float>(shape_.head_dim)); }

  const float* KeyAt(size_t sequence, int32_t head, int32_t position) const {
    const int32_t page = pages_[page_begin_[sequence] + position / kPageTokens];
    const int32_t kv_head = head / (shape_.query_heads / shape_.kv_heads);
    return pool_.data() + layout_.KeyOffset(page, 0, kv_head, position % kPageTokens);
  }

  double ScoreOf(const float* query, const float* key) const {
    double score = 0.0;
    for (int32_t i = 0; i < shape_.head_dim; ++i) score += double{query[i]} * key[i];
    score *= Scale();
    return shape_.score_cap > 0.0f ? shape_.score_cap * std::tanh(score / shape_.score_cap) : score;
  }

  // A head of a row that sees positions below `end`.
  void CompareHead(size_t sequence, int32_t row, int32_t end, int32_t head,
                   const std::vector<float>& actual, Comparison* found) const {
    const int64_t first = row * row_numbers_ + int64_t{head} * shape_.head_dim;
    const int32_t begin = shape_.window > 0 ? std::max(0, end - shape_.window) : 0;
    std::vector<double> weights;
    for (int32_t position = begin; position < end; ++position) {
      weights.push_back(ScoreOf(q_.data() + first, KeyAt(sequence, head, position)));
    }
    const double peak = *std::ranges::max_element(weights);
    double sum = 0.0;
    for (double& weight : weights) sum += weight = std::exp(weight - peak);
    std::vector<double> values(static_cast<size_t>(shape_.head_dim)), magnitudes = values;
    for (int32_t position = begin; position < end; ++position) {
      const float* const of_position = KeyAt(sequence, head, position) + layout_.KeyElements();
      const double weight = weights[position - begin] / sum;
      for (int32_t i = 0; i < shape_.head_dim; ++i) {
        values[i] += weight * of_position[i];
        magnitudes[i] += weight * std::fabs(of_position[i]);
      }
    }
    for (int32_t i = 0; i < shape_.head_dim; ++i) {
      found->Expect(what_, first + i, actual[first + i], values[i], magnitudes[i]);
    }
  }

  const HeadShape shape_;
  const int64_t row_numbers_;
  const std::string what_;
  const std::vector<SequenceShape> sequences_;
  const KvLayout layout_;
  const DType out_dtype_;
  Stream& stream_;
  std::vector<int32_t> row_begin_ = {0}, page_begin_ = {0}, kv_tokens_, pages_;
  std::vector<float> q_, pool_;
};

Comparison CheckShapes(const std::vector<SequenceShape>& sequences, DType dtype, Stream& stream) {
  // Queries, weights and what comes of them are rounded, each by itself.
  const DType out_dtype = ActivationsBeside(dtype, stream);
  const DType rounded = out_dtype == DType::kF32 ? KvBeside(dtype, stream) : out_dtype;
  Comparison found(2 * ToleranceOf(rounded));
  for (const HeadShape& shape : kHeadShapes) {
    AttentionCase(shape, sequences, dtype, stream).Run(&found);
  }
  return found;
}

}  // namespace

Comparison CheckDecodeAttention(DType dtype, Stream& stream) {
  return CheckShapes({{1, 1}, {1, 700}, {1, 33}, {1, 128}}, dtype, stream);
}

Comparison CheckPromptAttention(DType dtype, Stream& stream) {
  // More than 128 queries of a key head, behind what the pages have, and a prompt's beginning.
  return CheckShapes({{33, 150}, {20, 20}}, dtype, stream);
}

}  // namespace graft
