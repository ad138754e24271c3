#include "cache/adapter_table.h"

#include <utility>

namespace graft {

AdapterLease::AdapterLease(AdapterLease&& other) noexcept
    : table_(std::exchange(other.table_, nullptr)),
      holds_(std::exchange(other.holds_, nullptr)),
      content_(std::exchange(other.content_, -1)) {}

AdapterLease& AdapterLease::operator=(AdapterLease&& other) noexcept {
  if (this == &other) return *this;
  Release();
  table_ = std::exchange(other.table_, nullptr);
  holds_ = std::exchange(other.holds_, nullptr);
  content_ = std::exchange(other.content_, -1);
  return *this;
}

void AdapterLease::Release() {
  if (table_ == nullptr) return;
  std::exchange(table_, nullptr)
      ->LetGo(*std::exchange(holds_, nullptr), std::exchange(content_, -1));
}

AdapterTable::AdapterTable(int32_t contents_max) : contents_max_(contents_max) {
  CHECK_GE(contents_max, 0);
}

AdapterTable::~AdapterTable() {
  for (size_t content = 0; content < contents_.size(); ++content) {
    const int32_t own_hold = contents_[content].keys.empty() ? 0 : 1;
    CHECK_EQ(contents_[content].holds.load(), own_hold)
        << "leases of content " << content << " still live";
  }
}

Status AdapterTable::Publish(AdapterSource source) {
  const std::string key = source.key;
  CHECK(!key.empty()) << "the empty key is the base model's";
  std::lock_guard lock(mutex_);
  if (content_of_key_.count(key) != 0) {
    return AlreadyExistsError("adapter content " + key + " is known already");
  }
  if (free_.empty() && static_cast<int32_t>(contents_.size()) == contents_max_) {
    return FailedPreconditionError("the server lists " + std::to_string(contents_max_) +
                                   " adapters already, as many as it may; unload some, or start it "
                                   "with a larger --adapters-listed-max");
  }
  if (free_.empty()) {
    free_.push_back(static_cast<int32_t>(contents_.size()));
    contents_.emplace_back();
  }
  const int32_t id = free_.back();
  free_.pop_back();
  Content& content = contents_[static_cast<size_t>(id)];
  content.source = std::move(source);
  content.keys = {key};
  content.holds.store(1, std::memory_order_relaxed);
  content_of_key_[key] = id;
  return OkStatus();
}

void AdapterTable::Identify(const std::string& key, const std::string& hash) {
  Content* superseded = nullptr;
  int32_t content = -1;
  {
    std::lock_guard lock(mutex_);
    const auto it = content_of_key_.find(key);
    if (it == content_of_key_.end() || key == hash) return;
    content = it->second;
    Content& entry = contents_[static_cast<size_t>(content)];
    entry.source.hash = hash;
    const auto [known, is_new] = content_of_key_.emplace(hash, content);
    if (is_new) {
      entry.keys.push_back(hash);
    } else if (known->second != content) {
      content_of_key_[key] = known->second;
      contents_[static_cast<size_t>(known->second)].keys.push_back(key);
      num_key_visits_ += static_cast<int64_t>(entry.keys.size());
      std::erase(entry.keys, key);
      if (entry.keys.empty()) superseded = &entry;
    }
  }
  if (superseded != nullptr) LetGo(superseded->holds, content);
}

Result<AdapterLease> AdapterTable::Acquire(const std::string& key) {
  std::lock_guard lock(mutex_);
  const auto it = content_of_key_.find(key);
  if (it == content_of_key_.end()) return NotFoundError("adapter content " + key + " is unknown");
  // A published content has the table's own hold, which goes only after this lock was taken to
  // erase its last key: the count cannot be zero here.
  std::atomic<int32_t>& holds = contents_[static_cast<size_t>(it->second)].holds;
  holds.fetch_add(1, std::memory_order_relaxed);
  return AdapterLease(this, &holds, it->second);
}

void AdapterTable::Retire(const std::string& key) {
  Content* retired = nullptr;
  int32_t content = -1;
  {
    std::lock_guard lock(mutex_);
    const auto it = content_of_key_.find(key);
    if (it == content_of_key_.end()) return;
    content = it->second;
    // Under every key it goes by: the one that stood for it before it was read, too.
    retired = &contents_[static_cast<size_t>(content)];
    num_key_visits_ += static_cast<int64_t>(retired->keys.size());
    for (const std::string& name : retired->keys) content_of_key_.erase(name);
    retired->keys.clear();
  }
  LetGo(retired->holds, content);
}

bool AdapterTable::Contains(const std::string& key) const {
  std::lock_guard lock(mutex_);
  return content_of_key_.count(key) != 0;
}

bool AdapterTable::SetPath(const std::string& key, const std::string& path) {
  std::lock_guard lock(mutex_);
  const auto it = content_of_key_.find(key);
  if (it == content_of_key_.end()) return false;
  contents_[static_cast<size_t>(it->second)].source.path = path;
  return true;
}

void AdapterTable::SetWaker(std::function<void()> waker) {
  std::lock_guard lock(mutex_);
  waker_ = std::move(waker);
}

AdapterSource AdapterTable::SourceOf(int32_t content) const {
  std::lock_guard lock(mutex_);
  return contents_.at(static_cast<size_t>(content)).source;
}

void AdapterTable::SetPlace(int32_t content, AdapterPlace place) {
  std::lock_guard lock(mutex_);
  contents_.at(static_cast<size_t>(content)).place = place;
}

AdapterPlace AdapterTable::PlaceOf(int32_t content) const {
  std::lock_guard lock(mutex_);
  return contents_.at(static_cast<size_t>(content)).place;
}

AdapterPlace AdapterTable::PlaceOf(const std::string& key) const {
  std::lock_guard lock(mutex_);
  const auto it = content_of_key_.find(key);
  if (it == content_of_key_.end()) return AdapterPlace::kElsewhere;
  return contents_[static_cast<size_t>(it->second)].place;
}

std::vector<int32_t> AdapterTable::TakeUnused() {
  std::lock_guard lock(mutex_);
  return std::exchange(unused_, {});
}

void AdapterTable::Recycle(int32_t content) {
  std::lock_guard lock(mutex_);
  const Content& entry = contents_.at(static_cast<size_t>(content));
  CHECK(entry.keys.empty() && entry.holds.load() == 0) << "content " << content << " is in use";
  CHECK(entry.place == AdapterPlace::kElsewhere) << "content " << content << " is on the device";
  free_.push_back(content);
}

int32_t AdapterTable::num_contents() const {
  std::lock_guard lock(mutex_);
  return static_cast<int32_t>(contents_.size() - free_.size());
}

int64_t AdapterTable::num_key_visits() const {
  std::lock_guard lock(mutex_);
  return num_key_visits_;
}

void AdapterTable::LetGo(std::atomic<int32_t>& holds, int32_t content) {
  // Nobody can acquire a content without keys: at zero it stays.
  if (holds.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  std::lock_guard lock(mutex_);
  unused_.push_back(content);
  if (waker_) waker_();
}

}  // namespace graft
