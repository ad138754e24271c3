// A sequence's key head at a time: its keys and values are transposed once, then every query of the
// head's group goes over the positions before it, twice forwards (scores and their gradients) and
// once backwards. Every sum is in a fixed order.
#include "kernels/attention_backward/attention_backward.h"

#include "kernels/attention_backward/attention_backward_scratch.h"
#include "kernels/common/simd.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

class HeadRun {
 public:
  HeadRun(const AttentionBackwardArgs& args, int32_t sequence, int32_t kv_head, float* scratch)
      : args_(args),
        first_row_(args.row_begin[sequence]),
        num_rows_(args.row_begin[sequence + 1] - first_row_),
        dim_(args.head_dim),
        positions_(AttentionBackwardPositions(num_rows_)),
        kv_head_(kv_head),
        keys_(scratch),
        values_(keys_ + positions_ * dim_),
        weights_(values_ + positions_ * dim_),
        gradients_(weights_ + positions_) {}

  void Run() {
    const int64_t key = int64_t{args_.num_heads + kv_head_} * dim_;
    const int64_t value = key + int64_t{args_.num_kv_heads} * dim_;
    Transpose(key, keys_);
    Transpose(value, values_);
    for (int32_t row = 0; row < num_rows_; ++row) {
      Zero(DRow(row) + key);
      Zero(DRow(row) + value);
    }
    const int32_t group = args_.num_heads / args_.num_kv_heads;
    for (int32_t row = 0; row < num_rows_; ++row) {
      for (int32_t head = kv_head_ * group; head < (kv_head_ + 1) * group; ++head) {
        const float* d_out =
            args_.d_out + (first_row_ + row) * args_.num_heads * dim_ + head * dim_;
        const float* query = Row(row) + head * dim_;
        Dots(query, keys_, row + 1, weights_);
        Dots(d_out, values_, row + 1, gradients_);
        Softmax(row + 1);
        SpreadRow(row, head, key, value, query, d_out);
      }
    }
  }

 private:
  const float* Row(int32_t row) const { return args_.qkv + (first_row_ + row) * args_.qkv_stride; }
  float* DRow(int32_t row) const { return args_.d_qkv + (first_row_ + row) * args_.qkv_stride; }

  void Zero(float* p) const {
    for (int i = 0; i < dim_; ++i) p[i] = 0.0f;
  }

  void Transpose(int64_t column, float* out) const {
    for (int64_t position = 0; position < positions_; ++position) {
      const bool exists = position < num_rows_;
      const float* row = exists ? Row(static_cast<int32_t>(position)) + column : nullptr;
      for (int i = 0; i < dim_; ++i) out[i * positions_ + position] = exists ? row[i] : 0.0f;
    }
  }

  // out[s] = sum over i of x[i] * transposed[i][s].
  void Dots(const float* x, const float* transposed, int32_t count, float* out) const {
    for (int64_t s = 0; s < count; s += Vec::kLanes) {
      Vec sum = Vec::Zero();
      for (int i = 0; i < dim_; ++i) {
        sum = Fma(Vec::Set(x[i]), Vec::Load(transposed + i * positions_ + s), sum);
      }
      sum.Store(out + s);
    }
  }

  // Scores become the softmax's weights, and the weights' gradients those of q k^T.
  void Softmax(int32_t count) {
    float max = weights_[0];
    for (int32_t s = 1; s < count; ++s) max = weights_[s] > max ? weights_[s] : max;
    for (int64_t s = count; s < positions_ && s % Vec::kLanes != 0; ++s) weights_[s] = max;
    const Vec shift = Vec::Set(max);
    for (int64_t s = 0; s < count; s += Vec::kLanes) {
      ExpOrZero((Vec::Load(weights_ + s) - shift) * Vec::Set(args_.scale)).Store(weights_ + s);
    }
    float sum = 0.0f;
    for (int32_t s = 0; s < count; ++s) sum += weights_[s];
    const float inverse = 1.0f / sum;
    float mean = 0.0f;  // of the gradients, by the weights
    for (int32_t s = 0; s < count; ++s) {
      weights_[s] *= inverse;
      mean += weights_[s] * gradients_[s];
    }
    for (int32_t s = 0; s < count; ++s) {
      gradients_[s] = weights_[s] * (gradients_[s] - mean) * args_.scale;
    }
  }

  void SpreadRow(int32_t row, int32_t head, int64_t key, int64_t value, const float* query,
                 const float* d_out) const {
    for (int i = 0; i < dim_; i += Vec::kLanes) {
      const int lanes = dim_ - i < Vec::kLanes ? dim_ - i : Vec::kLanes;
      const Vec q = Vec::LoadPartial(query + i, lanes);
      const Vec d = Vec::LoadPartial(d_out + i, lanes);
      Vec d_query = Vec::Zero();
      for (int32_t s = 0; s <= row; ++s) {
        const Vec gradient = Vec::Set(gradients_[s]);
        float* d_key = DRow(s) + key + i;
        float* d_value = DRow(s) + value + i;
        d_query = Fma(gradient, Vec::LoadPartial(Row(s) + key + i, lanes), d_query);
        Fma(gradient, q, Vec::LoadPartial(d_key, lanes)).StorePartial(d_key, lanes);
        Fma(Vec::Set(weights_[s]), d, Vec::LoadPartial(d_value, lanes))
            .StorePartial(d_value, lanes);
      }
      d_query.StorePartial(DRow(row) + head * dim_ + i, lanes);
    }
  }

  const AttentionBackwardArgs& args_;
  const int32_t first_row_;
  const int32_t num_rows_;
  const int dim_;
  const int64_t positions_;
  const int32_t kv_head_;
  float* const keys_;    // [head_dim][positions]
  float* const values_;  // likewise
  float* const weights_;
  float* const gradients_;
};

}  // namespace

void AttentionBackward(const AttentionBackwardArgs& args, Stream& stream) {
  int32_t rows_max = 0;
  for (int32_t i = 0; i < args.num_sequences; ++i) {
    const int32_t rows = args.row_begin[i + 1] - args.row_begin[i];
    rows_max = rows > rows_max ? rows : rows_max;
  }
  const int64_t floats = AttentionBackwardThreadFloats(rows_max, args.head_dim);
  const int32_t num_items = args.num_sequences * args.num_kv_heads;
  const int num_threads = stream.cpu_threads->num_threads();
  stream.cpu_threads->Run([&](int worker_idx) {
    for (int32_t item = worker_idx; item < num_items; item += num_threads) {
      HeadRun(args, item / args.num_kv_heads, item % args.num_kv_heads,
              args.scratch + worker_idx * floats)
          .Run();
    }
  });
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
