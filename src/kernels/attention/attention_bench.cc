// Decode at several contexts, against the bytes of keys and values; prefill, against multiply-adds.
// TinyLlama-1.1B's heads and others on the CPU; Llama-2-7B's and Llama-3-8B's on a GPU. Runs rotate
// over the layers of one pool. Its pages are dealt out at random, as a server's are.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/shuffle.h"
#include "kernels/attention/attention.h"
#include "kernels/common/bench_data.h"
#include "kernels/common/bench_ops.h"

namespace graft {
namespace {

struct AttentionCase {
  const char* name;
  int32_t num_heads;
  int32_t num_kv_heads;
  int32_t head_dim;
  DType dtype;
  int32_t num_sequences;
  int32_t num_rows;  // of each sequence
  int32_t kv_tokens;
  int32_t kv_tokens_min = 0;  // see SequenceLengths
};

const AttentionCase kCpuCases[] = {
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
const AttentionCase kGpuCases[] = {
    {"decode 32/32 heads of 128", 32, 32, 128, DType::kBF16, 1, 1, 2048},
    {"decode 32/32 heads of 128", 32, 32, 128, DType::kBF16, 8, 1, 2048},
    {"decode 32/32 heads of 128", 32, 32, 128, DType::kBF16, 32, 1, 512},
    {"decode 32/32 heads of 128", 32, 32, 128, DType::kBF16, 32, 1, 1300, 40},
    {"decode 32/32 heads of 128", 32, 32, 128, DType::kBF16, 32, 1, 2048},
    {"decode 32/32 heads of 128", 32, 32, 128, DType::kBF16, 128, 1, 512},
    {"decode 32/8 heads of 128", 32, 8, 128, DType::kBF16, 1, 1, 512},
    {"decode 32/8 heads of 128", 32, 8, 128, DType::kBF16, 8, 1, 512},
    {"decode 32/8 heads of 128", 32, 8, 128, DType::kBF16, 8, 1, 2048},
    {"decode 32/8 heads of 128", 32, 8, 128, DType::kBF16, 32, 1, 2048},
    {"prefill 32/32 heads of 128", 32, 32, 128, DType::kBF16, 1, 2048, 2048},
    {"prefill 32/8 heads of 128", 32, 8, 128, DType::kBF16, 1, 2048, 2048},
    {"chunk of 512, 32/32 heads of 128", 32, 32, 128, DType::kBF16, 1, 512, 2048},
};
constexpr int32_t kAttentionPageTokens = 16;

std::string NameOf(const AttentionCase& c) {
  const std::string least = c.kv_tokens_min > 0 ? std::to_string(c.kv_tokens_min) + " to " : "";
  return std::string(c.name) + ", " + std::to_string(c.num_sequences) + " x context " + least +
         std::to_string(c.kv_tokens) + ", " + std::string(DTypeName(c.dtype));
}

// ListAttentionSplits for the device.
struct Splits {
  Splits(const AttentionCase& c, std::span<const int32_t> row_begin,
         std::span<const int32_t> page_begin, std::span<const int32_t> kv_tokens, Stream& stream) {
    std::vector<AttentionSplit> list;
    ListAttentionSplits(row_begin, page_begin, kv_tokens, 0, list);
    count = OnDevice(std::vector<int32_t>{static_cast<int32_t>(list.size())}, stream);
    list.resize(AttentionSplitsMax(c.num_sequences, c.kv_tokens));
    splits = OnDevice(list, stream);
  }

  Buffer splits;
  Buffer count;
};

void RunAttentionCase(const AttentionCase& c, OpBench& bench) {
  Stream& stream = bench.stream();
  Random random(1);
  const std::vector<int32_t> kv_tokens =
      SequenceLengths(c.num_sequences, c.kv_tokens_min, c.kv_tokens, random);
  const int64_t all_kv_tokens = std::accumulate(kv_tokens.begin(), kv_tokens.end(), int64_t{0});
  const int64_t kv_bytes =
      int64_t{2} * all_kv_tokens * c.num_kv_heads * c.head_dim * DTypeBytes(c.dtype);
  const KvLayout layout{.num_layers = static_cast<int32_t>(bench.num_copies(kv_bytes)),
                        .num_kv_heads = c.num_kv_heads,
                        .head_dim = c.head_dim,
                        .page_tokens = kAttentionPageTokens,
                        .dtype = c.dtype};
  const int32_t sequence_pages = (c.kv_tokens + kAttentionPageTokens - 1) / kAttentionPageTokens;
  std::vector<int32_t> pages(c.num_sequences * sequence_pages);
  std::iota(pages.begin(), pages.end(), 0);
  Shuffle(pages, random);
  const Buffer pool =
      BenchBuffer(c.dtype, static_cast<int64_t>(pages.size()) * layout.PageElements(), stream);

  const int64_t num_rows = int64_t{c.num_sequences} * c.num_rows;
  const int64_t row = int64_t{c.num_heads} * c.head_dim;
  const Buffer q = BenchBuffer(DType::kF32, num_rows * row, stream);
  Buffer out(num_rows * row * 4, stream.device);
  std::vector<int32_t> page_begin, row_begin;
  for (int32_t s = 0; s <= c.num_sequences; ++s) {
    page_begin.push_back(s * sequence_pages);
    row_begin.push_back(s * c.num_rows);
  }
  const Buffer device_pages = OnDevice(pages, stream);
  const Buffer device_page_begin = OnDevice(page_begin, stream);
  const Buffer device_row_begin = OnDevice(row_begin, stream);
  const Buffer device_kv_tokens = OnDevice(kv_tokens, stream);
  const Splits splits(c, row_begin, page_begin, kv_tokens, stream);
  Buffer scratch(
      AttentionScratchBytes(layout, c.num_heads, c.num_sequences, c.kv_tokens, stream.device),
      stream.device);
  AttentionArgs args{.layout = layout,
                     .pool = pool.data(),
                     .pages = device_pages.as<int32_t>(),
                     .page_begin = device_page_begin.as<int32_t>(),
                     .row_begin = device_row_begin.as<int32_t>(),
                     .kv_tokens = device_kv_tokens.as<int32_t>(),
                     .num_sequences = c.num_sequences,
                     .num_heads = c.num_heads,
                     .q = q.as<float>(),
                     .q_stride = row,
                     .out = out.data(),
                     .out_dtype = c.dtype,
                     .scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim)),
                     .splits = splits.splits.as<AttentionSplit>(),
                     .num_splits = splits.count.as<int32_t>(),
                     .rows_max = static_cast<int32_t>(num_rows),
                     .sequence_rows_max = c.num_rows,
                     .kv_tokens_max = c.kv_tokens,
                     .scratch = scratch.as<float>()};
  // Pairs of a query and a key that it sees: multiplied once with q and once with p.
  const double seen = static_cast<double>(all_kv_tokens) / c.num_sequences - 0.5 * (c.num_rows - 1);
  const OpBenchWork work{
      .bytes = static_cast<double>(kv_bytes),
      .flops = 4.0 * static_cast<double>(num_rows) * c.num_heads * c.head_dim * seen,
      .dtype = c.dtype,
      .num_copies = layout.num_layers,
      .labels = {.rows = num_rows}};
  bench.Add(NameOf(c), work, [&](int64_t run) {
    args.layer = static_cast<int32_t>(run % layout.num_layers);
    Attention(args, stream);
  });
}

}  // namespace

void BenchAttention(OpBench& bench) {
  if (bench.is_cpu()) {
    for (const AttentionCase& c : kCpuCases) RunAttentionCase(c, bench);
  } else {
    for (const AttentionCase& c : kGpuCases) RunAttentionCase(c, bench);
  }
}

}  // namespace graft
