#include "model/lora_store.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace graft {

LoraStore::LoraStore(const ModelConfig& config, int32_t adapters_max)
    : num_layers_(config.num_layers), adapters_max_(adapters_max) {
  CHECK_GE(adapters_max, 0);
  table_.resize(static_cast<size_t>(matrices_stride()) * static_cast<size_t>(adapters_max));
  slots_.resize(static_cast<size_t>(adapters_max));
}

void LoraStore::Set(int32_t slot, LoraWeights weights) {
  CHECK(slot >= 0 && slot < adapters_max_) << "slot " << slot << " of " << adapters_max_;
  CHECK_EQ(static_cast<int64_t>(weights.matrices().size()), matrices_stride())
      << "an adapter of another model";
  // What was there is freed outside the lock: it may be large.
  std::optional<LoraWeights> previous(std::move(weights));
  const std::lock_guard lock(mutex_);
  std::swap(previous, slots_[static_cast<size_t>(slot)]);
  WriteTable(slot, &*slots_[static_cast<size_t>(slot)]);
  Account();
}

void LoraStore::Free(int32_t slot) {
  CHECK(slot >= 0 && slot < adapters_max_) << "slot " << slot << " of " << adapters_max_;
  std::optional<LoraWeights> previous;
  const std::lock_guard lock(mutex_);
  WriteTable(slot, nullptr);
  std::swap(previous, slots_[static_cast<size_t>(slot)]);
  Account();
}

void LoraStore::WriteTable(int32_t slot, const LoraWeights* weights) {
  const auto row = table_.begin() + int64_t{slot} * matrices_stride();
  if (weights == nullptr) {
    std::fill_n(row, matrices_stride(), LoraMatrix{});
  } else {
    std::copy(weights->matrices().begin(), weights->matrices().end(), row);
  }
}

void LoraStore::Account() {
  int32_t rank_max = 0;
  int64_t bytes = 0;
  int32_t num_loaded = 0;
  for (const std::optional<LoraWeights>& weights : slots_) {
    if (!weights.has_value()) continue;
    rank_max = std::max(rank_max, weights->rank_max());
    bytes += weights->bytes();
    ++num_loaded;
  }
  rank_max_.store(rank_max, std::memory_order_release);
  bytes_.store(bytes, std::memory_order_relaxed);
  num_loaded_.store(num_loaded, std::memory_order_relaxed);
}

}  // namespace graft
