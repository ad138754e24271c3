#include "cache/content_table.h"

#include <algorithm>
#include <utility>

#include "cache/content_sum.h"

namespace graft {

ContentLease::ContentLease(ContentLease&& other) noexcept
    : table_(std::exchange(other.table_, nullptr)),
      holds_(std::exchange(other.holds_, nullptr)),
      content_(std::exchange(other.content_, -1)) {}

ContentLease& ContentLease::operator=(ContentLease&& other) noexcept {
  if (this == &other) return *this;
  Release();
  table_ = std::exchange(other.table_, nullptr);
  holds_ = std::exchange(other.holds_, nullptr);
  content_ = std::exchange(other.content_, -1);
  return *this;
}

void ContentLease::Release() {
  if (table_ == nullptr) return;
  std::exchange(table_, nullptr)
      ->LetGo(*std::exchange(holds_, nullptr), std::exchange(content_, -1));
}

ContentTable::ContentTable(int32_t contents_max, int32_t sums_max)
    : contents_max_(contents_max), sums_max_(sums_max) {
  CHECK_GE(contents_max, 0);
}

ContentTable::~ContentTable() {
  std::vector<int32_t> holds(contents_.size());  // that are the table's own
  for (size_t content = 0; content < contents_.size(); ++content) {
    holds[content] += contents_[content].keys.empty() ? 0 : 1;
    for (const auto& [part, weight] : contents_[content].parts) ++holds[static_cast<size_t>(part)];
  }
  for (size_t content = 0; content < contents_.size(); ++content) {
    CHECK_EQ(contents_[content].holds.load(), holds[content])
        << "leases of content " << content << " still live";
  }
}

// A content of its own, with the table's hold.
int32_t ContentTable::Enter(AdapterSource source) {
  if (free_.empty()) {
    free_.push_back(static_cast<int32_t>(contents_.size()));
    contents_.emplace_back();
  }
  const int32_t id = free_.back();
  free_.pop_back();
  Content& content = contents_[static_cast<size_t>(id)];
  content.keys = {source.key};
  content.holds.store(1, std::memory_order_relaxed);
  content_of_key_[source.key] = id;
  content.source = std::move(source);
  return id;
}

Status ContentTable::Publish(AdapterSource source) {
  CHECK(!source.key.empty()) << "the empty key is the base model's";
  CHECK(source.parts.empty()) << "sums are acquired";
  std::lock_guard lock(mutex_);
  if (content_of_key_.count(source.key) != 0) {
    return AlreadyExistsError("adapter content " + source.key + " is known already");
  }
  const auto num_adapters = static_cast<int32_t>(contents_.size() - free_.size()) - num_sums_kept_;
  if (num_adapters == contents_max_) {
    return FailedPreconditionError("the server lists " + std::to_string(contents_max_) +
                                   " adapters already, as many as it may; unload some, or start it "
                                   "with a larger --adapters-listed-max");
  }
  Enter(std::move(source));
  return OkStatus();
}

// What is known of a sum's parts by now.
void ContentTable::FillParts(AdapterSource* source, const Content& content) const {
  for (const auto& [id, weight] : content.parts) {
    const AdapterSource& part = contents_[static_cast<size_t>(id)].source;
    source->parts.push_back({part.path, part.hash, part.key, weight});
    source->path += (source->path.empty() ? "" : " and ") + part.path;
  }
}

// Where no room is left, the sum that went unused longest is retired.
Status ContentTable::CheckRoomForSum(const std::string& tenant, Holds* retired) {
  int32_t oldest = -1;
  int32_t num_used = 0;
  int32_t num_own = 0;
  for (const int32_t sum : sums_) {
    const Content& content = contents_[static_cast<size_t>(sum)];
    if (content.holds.load() > 1) {
      ++num_used;
      num_own += content.tenant == tenant ? 1 : 0;
    } else if (oldest < 0 || content.used_at < contents_[static_cast<size_t>(oldest)].used_at) {
      oldest = sum;
    }
  }
  const int32_t num_free = sums_max_ - num_used;
  if (num_free <= 0) {
    return ResourceExhaustedError(std::to_string(sums_max_) +
                                  " different sums of adapters are in use, as many as may be; try "
                                  "again later");
  }
  if (num_own >= kShareOfFree * num_free) {
    return ResourceExhaustedError("this tenant has " + std::to_string(num_own) +
                                  " different sums of adapters in use, its share of " +
                                  std::to_string(sums_max_) + "; try again later");
  }
  if (static_cast<int32_t>(sums_.size()) >= sums_max_) EraseKeys(oldest, retired);
  return OkStatus();
}

Result<ContentLease> ContentTable::AcquireSum(std::vector<AdapterPart> parts,
                                              const std::string& tenant) {
  CHECK(!parts.empty());
  Holds retired;
  ContentLease lease;
  {
    std::lock_guard lock(mutex_);
    for (AdapterPart& part : parts) {
      const auto it = content_of_key_.find(part.key);
      if (it == content_of_key_.end()) {
        return NotFoundError("adapter content " + part.key + " is unknown");
      }
      part.hash = contents_[static_cast<size_t>(it->second)].source.hash;
    }
    SortParts(&parts);
    const std::string key = ContentSumHash(parts);
    const auto known = content_of_key_.find(key);
    int32_t id = known == content_of_key_.end() ? -1 : known->second;
    if (id < 0) {
      RETURN_IF_ERROR(CheckRoomForSum(tenant, &retired));
      const bool all_read = std::none_of(parts.begin(), parts.end(),
                                         [](const auto& part) { return part.hash.empty(); });
      id = Enter({.path = "", .hash = all_read ? key : "", .key = key, .parts = {}});
      Content& sum = contents_[static_cast<size_t>(id)];
      for (const AdapterPart& part : parts) {
        const int32_t content = content_of_key_.at(part.key);
        contents_[static_cast<size_t>(content)].holds.fetch_add(1, std::memory_order_relaxed);
        sum.parts.emplace_back(content, part.weight);
      }
      sums_.insert(id);
      ++num_sums_kept_;
    }
    Content& sum = contents_[static_cast<size_t>(id)];
    sum.used_at = ++num_sum_uses_;
    if (sum.holds.load() == 1) sum.tenant = tenant;
    sum.holds.fetch_add(1, std::memory_order_relaxed);
    lease = ContentLease(this, &sum.holds, id);
  }
  LetGo(retired);
  return lease;
}

void ContentTable::Identify(const std::string& key, const std::string& hash) {
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

Result<ContentLease> ContentTable::Acquire(const std::string& key) {
  std::lock_guard lock(mutex_);
  const auto it = content_of_key_.find(key);
  if (it == content_of_key_.end()) return NotFoundError("adapter content " + key + " is unknown");
  // A published content has the table's own hold, which goes only after this lock was taken to
  // erase its last key: the count cannot be zero here.
  std::atomic<int32_t>& holds = contents_[static_cast<size_t>(it->second)].holds;
  holds.fetch_add(1, std::memory_order_relaxed);
  return ContentLease(this, &holds, it->second);
}

// Under every key it goes by: the one that stood for it before it was read, too.
void ContentTable::EraseKeys(int32_t content, Holds* retired) {
  Content& entry = contents_[static_cast<size_t>(content)];
  num_key_visits_ += static_cast<int64_t>(entry.keys.size());
  for (const std::string& name : entry.keys) content_of_key_.erase(name);
  entry.keys.clear();
  sums_.erase(content);
  retired->emplace_back(&entry.holds, content);
}

void ContentTable::Retire(const std::string& key) {
  Holds retired;
  {
    std::lock_guard lock(mutex_);
    const auto it = content_of_key_.find(key);
    if (it == content_of_key_.end()) return;
    const int32_t content = it->second;
    std::vector<int32_t> sums;
    for (const int32_t sum : sums_) {
      const auto& parts = contents_[static_cast<size_t>(sum)].parts;
      const bool has_it = std::any_of(parts.begin(), parts.end(),
                                      [&](const auto& part) { return part.first == content; });
      if (has_it) sums.push_back(sum);
    }
    EraseKeys(content, &retired);
    for (const int32_t sum : sums) EraseKeys(sum, &retired);
  }
  LetGo(retired);
}

bool ContentTable::Contains(const std::string& key) const {
  std::lock_guard lock(mutex_);
  return content_of_key_.count(key) != 0;
}

bool ContentTable::SetPath(const std::string& key, const std::string& path) {
  std::lock_guard lock(mutex_);
  const auto it = content_of_key_.find(key);
  if (it == content_of_key_.end()) return false;
  contents_[static_cast<size_t>(it->second)].source.path = path;
  return true;
}

void ContentTable::SetWaker(std::function<void()> waker) {
  std::lock_guard lock(mutex_);
  waker_ = std::move(waker);
}

AdapterSource ContentTable::SourceOf(int32_t content) const {
  std::lock_guard lock(mutex_);
  const Content& entry = contents_.at(static_cast<size_t>(content));
  AdapterSource source = entry.source;
  FillParts(&source, entry);
  return source;
}

void ContentTable::SetPlace(int32_t content, AdapterPlace place) {
  std::lock_guard lock(mutex_);
  contents_.at(static_cast<size_t>(content)).place = place;
}

AdapterPlace ContentTable::PlaceOf(int32_t content) const {
  std::lock_guard lock(mutex_);
  return contents_.at(static_cast<size_t>(content)).place;
}

AdapterPlace ContentTable::PlaceOf(const std::string& key) const {
  std::lock_guard lock(mutex_);
  const auto it = content_of_key_.find(key);
  if (it == content_of_key_.end()) return AdapterPlace::kElsewhere;
  return contents_[static_cast<size_t>(it->second)].place;
}

std::vector<int32_t> ContentTable::TakeUnused() {
  std::lock_guard lock(mutex_);
  return std::exchange(unused_, {});
}

void ContentTable::Recycle(int32_t content) {
  Holds parts;
  {
    std::lock_guard lock(mutex_);
    Content& entry = contents_.at(static_cast<size_t>(content));
    CHECK(entry.keys.empty() && entry.holds.load() == 0) << "content " << content << " is in use";
    CHECK(entry.place == AdapterPlace::kElsewhere) << "content " << content << " is on the device";
    for (const auto& [part, weight] : entry.parts) {
      parts.emplace_back(&contents_[static_cast<size_t>(part)].holds, part);
    }
    if (!entry.parts.empty()) --num_sums_kept_;
    entry.parts.clear();
    free_.push_back(content);
  }
  LetGo(parts);
}

int32_t ContentTable::num_contents() const {
  std::lock_guard lock(mutex_);
  return static_cast<int32_t>(contents_.size() - free_.size());
}

int64_t ContentTable::num_key_visits() const {
  std::lock_guard lock(mutex_);
  return num_key_visits_;
}

void ContentTable::LetGo(const Holds& all) {
  for (const auto& [holds, content] : all) LetGo(*holds, content);
}

void ContentTable::LetGo(std::atomic<int32_t>& holds, int32_t content) {
  // A content without keys cannot be acquired, so the count stays at zero.
  if (holds.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  std::lock_guard lock(mutex_);
  unused_.push_back(content);
  if (waker_) waker_();
}

}  // namespace graft
