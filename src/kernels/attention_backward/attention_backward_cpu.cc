// Takes one key head of a sequence at a time. The keys and values of its prefix and rows are
// transposed once. Then every query of the head's group goes over the positions that it sees, twice
// forward (scores and their gradients) and once backward. Every sum is in a fixed order.
#include "kernels/attention_backward/attention_backward.h"

#include "kernels/attention_backward/attention_backward_scratch.h"
#include "kernels/common/simd.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

class HeadRun {
 public:
  HeadRun(const AttentionBackwardArgs& args, int32_t sequence, int32_t kv_head, float* scratch)
      : args_(args),
        prefix_(args.prefixes == nullptr ? AttentionPrefix() : args.prefixes[sequence]),
        first_row_(args.row_begin[sequence]),
        num_rows_(args.row_begin[sequence + 1] - first_row_),
        num_before_(prefix_.num_tokens),
        dim_(args.head_dim),
        positions_(AttentionBackwardPositions(num_before_ + num_rows_)),
        kv_head_(kv_head),
        keys_(scratch),
        values_(keys_ + positions_ * dim_),
        weights_(values_ + positions_ * dim_),
        gradients_(weights_ + positions_),
        slopes_(gradients_ + positions_) {}

  void Run() {
    Transpose(Side::kKey, keys_);
    Transpose(Side::kValue, values_);
    for (int32_t position = 0; position < num_before_ + num_rows_; ++position) {
      Zero(Gradient(position, Side::kKey));
      Zero(Gradient(position, Side::kValue));
    }
    const int32_t group = args_.num_heads / args_.num_kv_heads;
    for (int32_t row = 0; row < num_rows_; ++row) {
      for (int32_t head = kv_head_ * group; head < (kv_head_ + 1) * group; ++head) {
        const float* d_out = static_cast<const float*>(args_.d_out) +
                             (first_row_ + row) * args_.num_heads * dim_ + head * dim_;
        const float* query = Row(row) + head * dim_;
        const Span seen = SeenFrom(num_before_ + row);
        Dots(query, keys_, seen, weights_);
        Dots(d_out, values_, seen, gradients_);
        Softmax(seen);
        SpreadRow(row, head, seen, query, d_out);
      }
    }
  }

 private:
  enum class Side : uint8_t { kKey, kValue };

  // Positions [begin, end); vectors of them start at `vectors`.
  struct Span {
    int32_t begin;
    int32_t end;
    int64_t vectors() const { return begin / Vec::kLanes * Vec::kLanes; }
  };
  Span SeenFrom(int32_t position) const {
    const int32_t first = position - args_.window + 1;
    return {args_.window > 0 && first > 0 ? first : 0, position + 1};
  }

  const float* Row(int32_t row) const {
    return static_cast<const float*>(args_.qkv) + (first_row_ + row) * args_.qkv_stride;
  }
  float* DRow(int32_t row) const {
    return static_cast<float*>(args_.d_qkv) + (first_row_ + row) * args_.qkv_stride;
  }

  // Where a side of this head begins, in a row and in a position of the prefix.
  int64_t Column(Side side) const {
    const int64_t heads = args_.num_heads + (side == Side::kValue ? args_.num_kv_heads : 0);
    return (heads + kv_head_) * dim_;
  }
  int64_t PrefixColumn(Side side) const { return Column(side) - int64_t{args_.num_heads} * dim_; }

  // Where a position's key or value of this head begins, and below its gradient. Positions count
  // through the prefix and then through the sequence's own rows.
  const float* Element(int32_t position, Side side) const {
    if (position < num_before_) {
      return static_cast<const float*>(prefix_.keys_values) + position * prefix_.stride +
             PrefixColumn(side);
    }
    return Row(position - num_before_) + Column(side);
  }
  float* Gradient(int32_t position, Side side) const {
    if (position < num_before_) {
      return prefix_.d_keys_values + int64_t{position} * 2 * args_.num_kv_heads * dim_ +
             PrefixColumn(side);
    }
    return DRow(position - num_before_) + Column(side);
  }

  void Zero(float* p) const {
    for (int i = 0; i < dim_; ++i) p[i] = 0.0f;
  }

  void Transpose(Side side, float* out) const {
    for (int64_t position = 0; position < positions_; ++position) {
      const bool exists = position < num_before_ + num_rows_;
      const float* from = exists ? Element(static_cast<int32_t>(position), side) : nullptr;
      for (int i = 0; i < dim_; ++i) out[i * positions_ + position] = exists ? from[i] : 0.0f;
    }
  }

  // out[s] = sum over i of x[i] * transposed[i][s].
  void Dots(const float* x, const float* transposed, Span seen, float* out) const {
    for (int64_t s = seen.vectors(); s < seen.end; s += Vec::kLanes) {
      Vec sum = Vec::Zero();
      for (int i = 0; i < dim_; ++i) {
        sum = Fma(Vec::Set(x[i]), Vec::Load(transposed + i * positions_ + s), sum);
      }
      sum.Store(out + s);
    }
  }

  // Products q k become tanh(x), x = scale q k / cap; slopes_: its derivative by x, 1 - tanh(x)^2.
  // With u = 1 / (1 + e^(2 x)) these are 1 - 2 u and 4 u (1 - u).
  void Cap(Span seen) const {
    const Vec to_exponent = Vec::Set(2.0f * args_.scale / args_.score_cap);
    const Vec one = Vec::Set(1.0f), two = Vec::Set(2.0f), four = Vec::Set(4.0f);
    for (int64_t s = seen.vectors(); s < seen.end; s += Vec::kLanes) {
      const Vec u = one / (one + Exp(Vec::Load(weights_ + s) * to_exponent));
      (one - two * u).Store(weights_ + s);
      (four * u * (one - u)).Store(slopes_ + s);
    }
  }

  // Scores become the softmax's weights, and the weights' gradients those of q k^T.
  void Softmax(Span seen) {
    const bool caps = args_.score_cap > 0.0f;
    if (caps) Cap(seen);
    float max = weights_[seen.begin];
    for (int32_t s = seen.begin + 1; s < seen.end; ++s) max = weights_[s] > max ? weights_[s] : max;
    for (int64_t s = seen.vectors(); s < seen.begin; ++s) weights_[s] = max;
    for (int64_t s = seen.end; s < positions_ && s % Vec::kLanes != 0; ++s) weights_[s] = max;
    const Vec shift = Vec::Set(max);
    const Vec to_score = Vec::Set(caps ? args_.score_cap : args_.scale);
    for (int64_t s = seen.vectors(); s < seen.end; s += Vec::kLanes) {
      ExpOrZero((Vec::Load(weights_ + s) - shift) * to_score).Store(weights_ + s);
    }
    float sum = 0.0f;
    for (int32_t s = seen.begin; s < seen.end; ++s) sum += weights_[s];
    const float inverse = 1.0f / sum;
    float mean = 0.0f;  // of the gradients, weighted
    for (int32_t s = seen.begin; s < seen.end; ++s) {
      weights_[s] *= inverse;
      mean += weights_[s] * gradients_[s];
    }
    for (int32_t s = seen.begin; s < seen.end; ++s) {
      gradients_[s] = weights_[s] * (gradients_[s] - mean) * args_.scale;
    }
    for (int32_t s = seen.begin; caps && s < seen.end; ++s) gradients_[s] *= slopes_[s];
  }

  void SpreadRow(int32_t row, int32_t head, Span seen, const float* query,
                 const float* d_out) const {
    for (int i = 0; i < dim_; i += Vec::kLanes) {
      const int lanes = dim_ - i < Vec::kLanes ? dim_ - i : Vec::kLanes;
      const Vec q = Vec::LoadPartial(query + i, lanes);
      const Vec d = Vec::LoadPartial(d_out + i, lanes);
      Vec d_query = Vec::Zero();
      for (int32_t s = seen.begin; s < seen.end; ++s) {
        const Vec gradient = Vec::Set(gradients_[s]);
        float* d_key = Gradient(s, Side::kKey) + i;
        float* d_value = Gradient(s, Side::kValue) + i;
        d_query = Fma(gradient, Vec::LoadPartial(Element(s, Side::kKey) + i, lanes), d_query);
        Fma(gradient, q, Vec::LoadPartial(d_key, lanes)).StorePartial(d_key, lanes);
        Fma(Vec::Set(weights_[s]), d, Vec::LoadPartial(d_value, lanes))
            .StorePartial(d_value, lanes);
      }
      d_query.StorePartial(DRow(row) + head * dim_ + i, lanes);
    }
  }

  const AttentionBackwardArgs& args_;
  const AttentionPrefix prefix_;
  const int32_t first_row_;
  const int32_t num_rows_;
  const int32_t num_before_;  // positions of the prefix
  const int dim_;
  const int64_t positions_;
  const int32_t kv_head_;
  float* const keys_;    // [head_dim][positions]
  float* const values_;  // [head_dim][positions]
  float* const weights_;
  float* const gradients_;
  float* const slopes_;
};

}  // namespace

void AttentionBackward(const AttentionBackwardArgs& args, Stream& stream) {
  int32_t positions_max = 0;
  for (int32_t i = 0; i < args.num_sequences; ++i) {
    const int32_t positions = args.row_begin[i + 1] - args.row_begin[i] +
                              (args.prefixes == nullptr ? 0 : args.prefixes[i].num_tokens);
    positions_max = positions > positions_max ? positions : positions_max;
  }
  const int64_t floats = AttentionBackwardThreadFloats(positions_max, args.head_dim);
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
