// KvPool owns the bytes of the page pool; cache/ hands out its page ids and never sees it. Engine
// thread only.
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
