#include "model/kv_pool.h"

namespace graft {

KvLayout MakeKvLayout(const ModelConfig& config, int32_t page_tokens, DType dtype) {
  CHECK_GT(page_tokens, 0);
  CHECK_EQ(config.layers.size(), static_cast<size_t>(config.num_layers));
  return KvLayout{.num_layers = NumKvLayers(config.layers),
                  .num_kv_heads = config.num_kv_heads,
                  .head_dim = config.head_dim,
                  .page_tokens = page_tokens,
                  .dtype = dtype};
}

KvPool::KvPool(const KvLayout& layout, int32_t num_pages, Device device)
    : layout_(layout), num_pages_(num_pages), buffer_(layout.PageBytes() * num_pages, device) {
  CHECK_GT(num_pages, 0);
}

}  // namespace graft
