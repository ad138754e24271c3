// One layer's keys and values of a step, decode and prefill, into pages dealt out at random.
#include <string>
#include <vector>

#include "base/random.h"
#include "kernels/common/bench_data.h"
#include "kernels/common/bench_ops.h"
#include "kernels/kv_write/kv_write.h"

namespace graft {
namespace {

constexpr int32_t kKvWritePageTokens = 16;

void RunKvWriteCase(int32_t num_rows, int32_t num_kv_heads, int32_t head_dim, OpBench& bench) {
  const int64_t row = int64_t{num_kv_heads} * head_dim;
  const int64_t bytes = int64_t{2} * num_rows * row * (4 + 2);
  const int64_t num_copies = bench.num_copies(bytes);
  const KvLayout layout{.num_layers = 1,
                        .num_kv_heads = num_kv_heads,
                        .head_dim = head_dim,
                        .page_tokens = kKvWritePageTokens,
                        .dtype = DType::kBF16};
  const auto num_pages =
      static_cast<int32_t>((num_copies * num_rows) / kKvWritePageTokens + num_rows);
  Buffer pool = BenchBuffer(DType::kBF16, num_pages * layout.PageElements(), bench.stream());
  const Buffer kv = BenchBuffer(DType::kF32, num_copies * num_rows * row * 2, bench.stream());
  Random random(1);
  std::vector<int32_t> pages(num_copies * num_rows), slots(pages.size());
  for (size_t i = 0; i < pages.size(); ++i) {
    pages[i] = static_cast<int32_t>(random.Below(num_pages));
    slots[i] = static_cast<int32_t>(random.Below(kKvWritePageTokens));
  }
  const Buffer device_pages = OnDevice(pages, bench.stream());
  const Buffer device_slots = OnDevice(slots, bench.stream());
  bench.Add(std::to_string(num_rows) + " rows, " + std::to_string(num_kv_heads) + " heads of " +
                std::to_string(head_dim) + ", bf16",
            {.bytes = static_cast<double>(bytes), .num_copies = num_copies}, [&](int64_t run) {
              const int64_t copy = run % num_copies * num_rows;
              KvWrite({.layout = layout,
                       .pool = pool.data(),
                       .k = kv.as<float>() + copy * row * 2,
                       .v = kv.as<float>() + copy * row * 2 + row,
                       .row_stride = row * 2,
                       .row_page = device_pages.as<int32_t>() + copy,
                       .row_slot = device_slots.as<int32_t>() + copy,
                       .num_rows = num_rows},
                      bench.stream());
            });
}

}  // namespace

void BenchKvWrite(OpBench& bench) {
  if (bench.is_cpu()) {
    RunKvWriteCase(8, 4, 64, bench);
    RunKvWriteCase(512, 4, 64, bench);
    RunKvWriteCase(512, 8, 128, bench);
  } else {
    for (const int32_t rows : {1, 32, 2048}) RunKvWriteCase(rows, 32, 128, bench);
  }
}

}  // namespace graft
