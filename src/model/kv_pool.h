// KvPool owns the bytes of the page pool, KV's pages and the adapters'; cache/ hands out its page
// ids and never sees it. The engine gives a page to a step or to the loader, which then writes it.
#pragma once

#include <cstdint>

#include "kernels/common/kv_layout.h"
#include "model/config.h"
#include "tensor/buffer.h"

namespace graft {

// The pool's layout for a model, `page_tokens` positions to a page.
KvLayout MakeKvLayout(const ModelConfig& config, int32_t page_tokens, DType dtype);

class KvPool {
 public:
  KvPool(const KvLayout& layout, int32_t num_pages, Device device = {});

  const KvLayout& layout() const { return layout_; }
  int32_t num_pages() const { return num_pages_; }
  int64_t bytes() const { return buffer_.bytes(); }
  void* data() { return buffer_.data(); }

 private:
  KvLayout layout_;
  int32_t num_pages_;
  Buffer buffer_;
};

}  // namespace graft
