#include <cstring>

#include "kernels/common/cpu_isa.h"
#include "kernels/common/parallel_rows.h"
#include "kernels/virtual_kv/virtual_kv.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

// A row of the adapter is what a position of the pages is, head by head: bytes are moved, not read.
void CopyToken(const VirtualKvArgs& args, const char* row, int32_t page, int32_t slot) {
  const KvLayout& layout = args.layout;
  const int64_t element_bytes = DTypeBytes(layout.dtype);
  const auto head_bytes = static_cast<size_t>(layout.head_dim * element_bytes);
  char* const pool = static_cast<char*>(args.pool);
  for (int32_t layer = 0; layer < layout.num_layers; ++layer) {
    for (int64_t side = 0; side < 2; ++side) {
      for (int32_t head = 0; head < layout.num_kv_heads; ++head, row += head_bytes) {
        const int64_t element =
            layout.KeyOffset(page, layer, head, slot) + side * layout.KeyElements();
        std::memcpy(pool + element * element_bytes, row, head_bytes);
      }
    }
  }
}

}  // namespace

void VirtualKv(const VirtualKvArgs& args, Stream& stream) {
  const int64_t token_bytes = args.layout.PageBytes() / args.layout.page_tokens;
  const int64_t bytes_per_run = 2 * args.run_tokens_max * token_bytes;
  ParallelRows(args.num_runs, bytes_per_run, stream, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const VirtualRun& run = args.runs[i];
      const VirtualRows rows = args.table[run.adapter_slot];
      for (int32_t token = run.token_begin; token < run.token_end; ++token) {
        const int32_t page = args.pages[run.place + token / args.layout.page_tokens];
        CopyToken(args, static_cast<const char*>(rows[token]), page,
                  token % args.layout.page_tokens);
      }
    }
  });
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
