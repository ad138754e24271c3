#include "base/hash_memory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <new>

#include "base/fault.h"
#include "base/file.h"
#include "base/file_lock.h"
#include "base/log.h"
#include "base/new_file.h"
#include "base/sha256.h"
#include "base/thread_name.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

// The file: this line, a line "KEY HASH" for each entry, the one used last at the end, and the
// digest of all lines before it.
constexpr std::string_view kFirstLine = "graft adapter hashes 1\n";
constexpr size_t kKeyDigits = 32;
constexpr size_t kHashDigits = 64;
constexpr size_t kLineBytes = kKeyDigits + 1 + kHashDigits + 1;
constexpr size_t kDigestBytes = kHashDigits + 1;
// A failure that passes is waited for longer and longer, up to so many times the wait before a
// write.
constexpr int64_t kWaitsMax = 64;

std::string KeyDigest(std::string_view key) { return Sha256Of(key).substr(0, kKeyDigits); }

bool IsHexDigits(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// A file that others may write says what they want.
Status CheckOwner(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return SystemError(errno, path);
  if (status.st_uid == geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0) return OkStatus();
  return PermissionDeniedError("other users may write it");
}

}  // namespace

HashMemory::HashMemory(HashMemoryOptions options) : options_(std::move(options)) {
  if (options_.path.empty()) return;
  Result<std::vector<Entry>> found = Read();
  if (found.ok()) {
    for (Entry& entry : *found) Put(std::move(entry), entries_.end());
  } else if (found.status().code() != StatusCode::kNotFound) {
    LOG_WARN("{} is not used, and adapters are hashed again: {}", options_.path,
             found.status().message());
  }
  writer_ = std::thread([this] { WriteInTime(); });
}

HashMemory::~HashMemory() {
  if (!writer_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  writer_.join();
}

std::optional<std::string> HashMemory::Find(std::string_view key) {
  const std::string digest = KeyDigest(key);
  const std::lock_guard lock(mutex_);
  const auto it = by_key_.find(digest);
  if (it == by_key_.end()) return std::nullopt;
  entries_.splice(entries_.end(), entries_, it->second);
  return it->second->hash;
}

void HashMemory::Remember(std::string_view key, const std::string& hash) {
  Entry entry{KeyDigest(key), hash};
  const std::lock_guard lock(mutex_);
  Put(std::move(entry), entries_.end());
  is_changed_ = true;
  changed_.notify_one();
}

int64_t HashMemory::num_entries() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(entries_.size());
}

// Under the lock, or before there are other threads.
void HashMemory::Put(Entry entry, Entries::iterator before) {
  if (const auto it = by_key_.find(entry.key); it != by_key_.end()) {
    const Entries::iterator old = it->second;
    if (old == before) ++before;
    by_key_.erase(it);
    entries_.erase(old);
  }
  const Entries::iterator put = entries_.insert(before, std::move(entry));
  by_key_[put->key] = put;
  while (static_cast<int64_t>(entries_.size()) > options_.entries_max) {
    by_key_.erase(entries_.front().key);
    entries_.pop_front();
  }
}

// kNotFound: there is none.
Result<std::vector<HashMemory::Entry>> HashMemory::Read() const {
  RETURN_IF_ERROR(CheckOwner(options_.path));
  const auto bytes_max = static_cast<int64_t>(kFirstLine.size() + kDigestBytes) +
                         options_.entries_max * static_cast<int64_t>(kLineBytes);
  ASSIGN_OR_RETURN(const std::string text, ReadFile(options_.path, bytes_max));
  const std::string_view all = text;
  const Status damaged = DataLossError("it is damaged");
  if (all.size() < kFirstLine.size() + kDigestBytes) return damaged;
  const std::string_view lines = all.substr(0, all.size() - kDigestBytes);
  if (!lines.starts_with(kFirstLine) || all.substr(lines.size()) != Sha256Of(lines) + "\n" ||
      (lines.size() - kFirstLine.size()) % kLineBytes != 0) {
    return damaged;
  }
  std::vector<Entry> entries;
  for (size_t at = kFirstLine.size(); at < lines.size(); at += kLineBytes) {
    const std::string_view key = lines.substr(at, kKeyDigits);
    const std::string_view hash = lines.substr(at + kKeyDigits + 1, kHashDigits);
    if (!IsHexDigits(key) || !IsSha256(hash)) return damaged;
    entries.push_back({std::string(key), std::string(hash)});
  }
  return entries;
}

Status HashMemory::Write() {
  if (options_.path.empty()) return OkStatus();
  const std::lock_guard write_lock(write_mutex_);
  {
    const std::lock_guard lock(mutex_);
    is_changed_ = false;
  }
  Status written;
  try {
    written = WriteFile();
  } catch (const std::bad_alloc&) {
    written = ResourceExhaustedError("there is no memory to write it with");
  }
  if (IsPassing(written)) {
    const std::lock_guard lock(mutex_);
    is_changed_ = true;
    changed_.notify_one();
  }
  return written;
}

Status HashMemory::WriteFile() {
  std::error_code error;  // the lock says why
  fs::create_directories(fs::path(options_.path).parent_path(), error);
  // From the reading on until the new file is in its place no other program writes one.
  const Result<FileLock> lock_of_file =
      FileLock::Take(options_.path + ".lock", options_.lock_wait_ns);
  const bool has_no_locks = lock_of_file.status().code() == StatusCode::kUnimplemented;
  if (!lock_of_file.ok() && !has_no_locks) return lock_of_file.status();
  // What another program has learned counts as older than all that this one knows.
  Result<std::vector<Entry>> others = Read();
  if (IsPassing(others.status())) return others.status();
  std::string text(kFirstLine);
  {
    const std::lock_guard lock(mutex_);
    if (others.ok()) {
      const int64_t room = options_.entries_max - static_cast<int64_t>(entries_.size());
      std::vector<Entry> news;
      for (Entry& other : *others) {
        if (!by_key_.contains(other.key)) news.push_back(std::move(other));
      }
      const auto skipped = std::max<int64_t>(0, std::ssize(news) - room);
      const Entries::iterator first = entries_.begin();
      for (int64_t i = skipped; i < std::ssize(news); ++i) {
        Put(std::move(news[static_cast<size_t>(i)]), first);
      }
    }
    for (const Entry& entry : entries_) text += entry.key + " " + entry.hash + "\n";
  }
  text += Sha256Of(text) + "\n";
  const std::string process = has_no_locks ? "." + std::to_string(getpid()) : "";
  return WriteWholeFile(options_.path, text, 0600, process + ".new");
}

// What lasts is told once more after it has passed, or something else has been in the way.
void HashMemory::TellFailure(const Status& written) {
  const bool lasts = !written.ok() && !IsPassing(written);
  if (lasts && !std::exchange(has_told_lasting_, true)) {
    LOG_WARN("what adapters' files were found to be is not remembered: {}", written.message());
  }
  if (!written.ok() && !lasts && !std::exchange(has_told_passing_, true)) {
    LOG_WARN("what adapters' files were found to be is not remembered yet: {}", written.message());
  }
  if (!lasts) has_told_lasting_ = false;
  if (written.ok()) has_told_passing_ = false;
}

void HashMemory::WriteInTime() {
  NameThread("adapter hashes");
  int64_t wait_ns = options_.write_after_ns;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || is_changed_; });
    if (!is_changed_) return;
    // Adapters that are first used together are written together.
    changed_.wait_for(lock, std::chrono::nanoseconds(wait_ns), [this] { return stopping_; });
    if (!is_changed_) continue;  // Write was called meanwhile
    lock.unlock();
    const Status written = Write();
    TellFailure(written);
    wait_ns = IsPassing(written) ? std::min(2 * wait_ns, kWaitsMax * options_.write_after_ns)
                                 : options_.write_after_ns;
    lock.lock();
    if (!written.ok() && stopping_) return;
  }
}

std::string CacheFilePath(const std::string& name) {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return std::string(cache) + "/graft/" + name;
  const char* const home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return std::string(home) + "/.cache/graft/" + name;
  return "";
}

}  // namespace graft
