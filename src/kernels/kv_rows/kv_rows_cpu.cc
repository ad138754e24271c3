#include "kernels/common/cpu_isa.h"
#include "kernels/common/parallel_rows.h"
#include "kernels/kv_rows/kv_rows.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

// A turn by `positions`, which may be below 0. What it turns is read from `x` and given to `put`
// with its place in the head.
template <typename Put>
void TurnHead(const KvRowsArgs& args, int32_t positions, const float* x, const Put& put) {
  const int32_t half = args.rotary_dim / 2;
  const float sign = positions < 0 ? -1.0f : 1.0f;
  const int64_t angle = int64_t{positions < 0 ? -positions : positions} * half;
  for (int32_t i = 0; i < half; ++i) {
    const int32_t first = args.interleaved ? 2 * i : i;
    const int32_t second = args.interleaved ? 2 * i + 1 : i + half;
    const float cos = args.cos[angle + i];
    const float sin = sign * args.sin[angle + i];
    put(first, x[first] * cos - x[second] * sin);
    put(second, x[second] * cos + x[first] * sin);
  }
  for (int32_t i = args.rotary_dim; i < args.head_dim; ++i) put(i, x[i]);
}

template <typename Do>
void ForEachKvRow(const KvRowsArgs& args, Stream& stream, const Do& one) {
  const int64_t bytes = int64_t{4} * args.num_kv_heads * args.head_dim * int64_t{sizeof(float)};
  ParallelRows(args.num_rows, bytes, stream, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const KvRow& row = args.rows[i];
      one(row, static_cast<float*>(args.keys_values) + row.row * args.stride + args.key_column,
          row.token + args.token_offset);
    }
  });
}

}  // namespace

void TakeKvRows(const KvRowsArgs& args, Stream& stream) {
  const int64_t size = int64_t{args.num_kv_heads} * args.head_dim;
  ForEachKvRow(args, stream, [&](const KvRow& row, const float* from, float* to) {
    for (int64_t head = 0; head < size; head += args.head_dim) {
      TurnHead(args, row.to - row.from, from + head,
               [&](int32_t i, float value) { to[head + i] = value; });
    }
    for (int64_t i = size; i < 2 * size; ++i) to[i] = from[i];
  });
}

void AddKvRows(const KvRowsArgs& args, Stream& stream) {
  const int64_t size = int64_t{args.num_kv_heads} * args.head_dim;
  ForEachKvRow(args, stream, [&](const KvRow& row, float* to, const float* from) {
    for (int64_t head = 0; head < size; head += args.head_dim) {
      TurnHead(args, -row.to, from + head, [&](int32_t i, float value) { to[head + i] += value; });
    }
    for (int64_t i = size; i < 2 * size; ++i) to[i] += from[i];
  });
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
