#include "layers/lora_store.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"

namespace graft {
namespace {

int32_t RankMaxOf(std::span<const LoraMatrix> matrices) {
  int32_t rank = 0;
  for (const LoraMatrix& matrix : matrices) rank = std::max(rank, matrix.rank);
  return rank;
}

}  // namespace

LoraStore::LoraStore(const ModelShape& model, int32_t adapters_max, const Device& device)
    : shape_(model),
      adapters_max_(adapters_max),
      device_(device),
      copies_(device, nullptr),
      ranks_(static_cast<size_t>(adapters_max)),
      changes_head_(static_cast<size_t>(adapters_max)) {
  CHECK_GE(adapters_max, 0);
  table_.resize(static_cast<size_t>(matrices_stride()) * static_cast<size_t>(adapters_max));
  slots_.resize(static_cast<size_t>(adapters_max));
  virtual_rows_.resize(static_cast<size_t>(adapters_max));
  if (!device.is_cpu()) {
    device_table_ = Buffer(static_cast<int64_t>(table_.size() * sizeof(LoraMatrix)), device);
    device_virtual_rows_ = Buffer(adapters_max * int64_t{sizeof(VirtualRows)}, device);
  }
}

BytesNeeded LoraStore::BytesFor(const ModelShape& model, int32_t adapters_max,
                                const Device& device) {
  const int64_t slot =
      model.num_lora_matrices() * int64_t{sizeof(LoraMatrix)} + int64_t{sizeof(VirtualRows)};
  const int64_t per_slot =
      sizeof(std::optional<Resident>) + sizeof(std::atomic<int32_t>) + sizeof(std::atomic<bool>);
  const int64_t on_host = adapters_max * (slot + per_slot);
  if (device.is_cpu()) return {.on_device = on_host};
  return {.on_device = adapters_max * slot, .on_host = on_host};
}

void LoraStore::Set(int32_t slot, OwnedLora lora) {
  Enter(slot, [&] { return MakeResident(std::move(lora)); });
}

void LoraStore::Place(int32_t slot, std::vector<LoraMatrix> matrices, int64_t bytes,
                      VirtualRows virtual_rows) {
  Resident resident;
  resident.rank_max = RankMaxOf(matrices);
  resident.bytes = bytes;
  resident.matrices = std::move(matrices);
  resident.virtual_rows = virtual_rows;
  Enter(slot, [&] { return std::move(resident); });
}

void LoraStore::Enter(int32_t slot, const std::function<Resident()>& make) {
  CHECK(slot >= 0 && slot < adapters_max_) << "slot " << slot << " of " << adapters_max_;
  // What was there is freed outside the lock: it may be large.
  std::optional<Resident> previous;
  const std::lock_guard copy_lock(copy_mutex_);
  std::optional<Resident> resident = make();
  CHECK_EQ(static_cast<int64_t>(resident->matrices.size()), matrices_stride())
      << "an adapter of another model";
  WriteTables(slot, *resident);
  const auto head = resident->matrices.begin() + shape_.head_matrix();
  resident->changes_head = std::any_of(head, resident->matrices.end(),
                                       [](const LoraMatrix& one) { return one.rank > 0; });
  const std::lock_guard lock(mutex_);
  changes_head_[static_cast<size_t>(slot)].store(resident->changes_head, std::memory_order_release);
  ranks_[static_cast<size_t>(slot)].store(resident->rank_max, std::memory_order_release);
  Count(*resident, 1);
  previous = std::exchange(slots_[static_cast<size_t>(slot)], std::move(resident));
  if (previous.has_value()) Count(*previous, -1);
}

// The engine's thread waits for no copy here. Not for those of another slot: even a table's row
// lies in the device behind the rows of the adapter that the loader has queued, so that a copy is
// made under another lock. Nor for this one's: a GPU's table keeps what it said, as no step names a
// free slot.
void LoraStore::Free(int32_t slot) {
  CHECK(slot >= 0 && slot < adapters_max_) << "slot " << slot << " of " << adapters_max_;
  std::optional<Resident> previous;
  const std::lock_guard lock(mutex_);
  std::fill_n(table_.data() + int64_t{slot} * matrices_stride(), matrices_stride(), LoraMatrix{});
  virtual_rows_[static_cast<size_t>(slot)] = nullptr;
  std::swap(previous, slots_[static_cast<size_t>(slot)]);
  ranks_[static_cast<size_t>(slot)].store(0, std::memory_order_release);
  changes_head_[static_cast<size_t>(slot)].store(false, std::memory_order_release);
  if (previous.has_value()) Count(*previous, -1);
}

LoraStore::Resident LoraStore::MakeResident(OwnedLora lora) {
  Resident resident;
  resident.rank_max = RankMaxOf(lora.matrices);
  resident.bytes = lora.bytes();
  resident.matrices = std::move(lora.matrices);
  if (device_.is_cpu()) {
    resident.lora = std::move(lora);
    return resident;
  }
  resident.buffer = Buffer(lora.buffer.bytes(), device_);
  resident.rows = Buffer(static_cast<int64_t>(lora.rows.size() * sizeof(const void*)), device_);
  std::vector<const void*> rows;
  rows.reserve(lora.rows.size());
  for (const void* row : lora.rows) {
    rows.push_back(resident.buffer.as<char>() +
                   (static_cast<const char*>(row) - lora.buffer.as<char>()));
  }
  const auto** const device_rows = resident.rows.as<const void*>();
  for (LoraMatrix& matrix : resident.matrices) {
    if (matrix.rank == 0) continue;
    matrix.a_rows = device_rows + (matrix.a_rows - lora.rows.data());
    matrix.b_rows = device_rows + (matrix.b_rows - lora.rows.data());
  }
  CopyToDevice(resident.buffer.data(), lora.buffer.data(), lora.buffer.bytes(), copies_.get());
  CopyToDevice(resident.rows.data(), rows.data(), resident.rows.bytes(), copies_.get());
  Synchronize(copies_.get());
  return resident;
}

void LoraStore::WriteTables(int32_t slot, const Resident& resident) {
  const int64_t begin = int64_t{slot} * matrices_stride();
  LoraMatrix* const row = table_.data() + begin;
  std::copy(resident.matrices.begin(), resident.matrices.end(), row);
  VirtualRows& own_rows = virtual_rows_[static_cast<size_t>(slot)];
  own_rows = resident.virtual_rows;
  if (device_.is_cpu()) return;
  CopyToDevice(device_virtual_rows_.as<VirtualRows>() + slot, &own_rows,
               int64_t{sizeof(VirtualRows)}, copies_.get());
  CopyToDevice(device_table_.as<LoraMatrix>() + begin, row,
               matrices_stride() * int64_t{sizeof(LoraMatrix)}, copies_.get());
  Synchronize(copies_.get());
}

// Counts only what has changed: an engine with thousands of slots frees one in each step.
void LoraStore::Count(const Resident& resident, int32_t change) {
  const auto rank = slots_of_rank_.try_emplace(resident.rank_max, 0).first;
  rank->second += change;
  if (rank->second == 0) slots_of_rank_.erase(rank);
  rank_max_.store(slots_of_rank_.empty() ? 0 : slots_of_rank_.rbegin()->first,
                  std::memory_order_release);
  if (resident.changes_head) num_of_head_.fetch_add(change, std::memory_order_acq_rel);
  bytes_.fetch_add(change * resident.bytes, std::memory_order_relaxed);
  num_loaded_.fetch_add(change, std::memory_order_relaxed);
}

}  // namespace graft
