// Decode at several contexts, against the bytes of keys and values; prefill, against multiply-adds.
// Runs rotate over the layers of one pool whose pages are dealt out at random, as a server's are.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "base/random.h"
#include "kernels/attention/attention.h"
#include "kernels/common/bench_data.h"
#include "kernels/common/bench_ops.h"

namespace graft {
namespace {

struct Case {
  const char* name;
  int32_t num_heads;
  int32_t num_kv_heads;
  int32_t head_dim;
  DType dtype;
  int32_t num_sequences;
  int32_t num_rows;  // of each sequence
  int32_t kv_tokens;
};

const Case kCases[] = {
    {"decode 32/4 heads of 64", 32, 4, 64, DType::kBF16, 8, 1, 128},
    {"decode 32/4 heads of 64", 32, 4, 64, DType::kBF16, 8, 1, 512},
    {"decode 32/4 heads of 64", 32, 4, 64, DType::kBF16, 8, 1, 2000},
    {"decode 32/4 heads of 64", 32, 4, 64, DType::kF32, 8, 1, 2000},
    {"decode 32/8 heads of 128", 32, 8, 128, DType::kBF16, 8, 1, 2000},
    {"decode 32/32 heads of 128", 32, 32, 128, DType::kBF16, 4, 1, 2000},
    {"prefill 32/4 heads of 64", 32, 4, 64, DType::kBF16, 1, 512, 512},
    {"prefill 32/4 heads of 64", 32, 4, 64, DType::kF32, 1, 512, 512},
    {"prefill 32/32 heads of 128", 32, 32, 128, DType::kBF16, 1, 512, 512},
    {"chunk of 64, 32/4 heads of 64", 32, 4, 64, DType::kBF16, 1, 64, 2000},
};
constexpr int32_t kPageTokens = 16;

void RunCase(const Case& c, OpBench& bench) {
  const int64_t kv_bytes = int64_t{2} * c.num_sequences * c.kv_tokens * c.num_kv_heads *
                           c.head_dim * DTypeBytes(c.dtype);
  const KvLayout layout{.num_layers = static_cast<int32_t>(bench.num_copies(kv_bytes)),
                        .num_kv_heads = c.num_kv_heads,
                        .head_dim = c.head_dim,
                        .page_tokens = kPageTokens,
                        .dtype = c.dtype};
  const int32_t sequence_pages = (c.kv_tokens + kPageTokens - 1) / kPageTokens;
  std::vector<int32_t> pages(c.num_sequences * sequence_pages);
  std::iota(pages.begin(), pages.end(), 0);
  Random random(1);
  for (size_t i = pages.size(); i > 1; --i) std::swap(pages[i - 1], pages[random.Below(i)]);
  const Buffer pool =
      BenchBuffer(c.dtype, static_cast<int64_t>(pages.size()) * layout.PageElements());

  const int64_t num_rows = int64_t{c.num_sequences} * c.num_rows;
  const int64_t row = int64_t{c.num_heads} * c.head_dim;
  const Buffer q = BenchBuffer(DType::kF32, num_rows * row);
  Buffer out(num_rows * row * 4);
  std::vector<int32_t> page_begin, row_begin, kv_tokens(c.num_sequences, c.kv_tokens);
  for (int32_t s = 0; s <= c.num_sequences; ++s) {
    page_begin.push_back(s * sequence_pages);
    row_begin.push_back(s * c.num_rows);
  }
  AttentionArgs args{.layout = layout,
                     .pool = pool.data(),
                     .pages = pages.data(),
                     .page_begin = page_begin.data(),
                     .row_begin = row_begin.data(),
                     .kv_tokens = kv_tokens.data(),
                     .num_sequences = c.num_sequences,
                     .num_heads = c.num_heads,
                     .q = q.as<float>(),
                     .q_stride = row,
                     .out = out.data(),
                     .out_dtype = c.dtype,
                     .scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim))};
  // Pairs of a query and a key that it sees: multiplied once with q and once with p.
  const double seen = c.kv_tokens - 0.5 * (c.num_rows - 1);
  const OpBenchWork work{
      .bytes = static_cast<double>(kv_bytes),
      .flops = 4.0 * static_cast<double>(num_rows) * c.num_heads * c.head_dim * seen,
      .dtype = c.dtype};
  bench.Add(std::string(c.name) + ", " + std::to_string(c.num_sequences) + " x context " +
                std::to_string(c.kv_tokens) + ", " + std::string(DTypeName(c.dtype)),
            work, [&](int64_t run) {
              args.layer = static_cast<int32_t>(run % layout.num_layers);
              Attention(args, bench.stream());
            });
}

}  // namespace

void BenchAttention(OpBench& bench) {
  for (const Case& c : kCases) RunCase(c, bench);
}

}  // namespace graft
