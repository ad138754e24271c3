// HashMemory: which hash came out of files that were read before, by a key of what tells them apart
// without reading (FileIdentity), in a file that outlives the program. It is a memory and no
// record: without it everything is hashed again. A thread writes the file a moment after something
// was learned, whole and in one step, so that a crash leaves the former one. Several programs may
// share the file: each adds what it knows to what is there, one after the other by the lock of
// FILE.lock (base/file_lock.h). Without locks of the file system each writes a new file of its own
// (FILE.PROCESS.new), and two that write at the same moment may lose what one of them learned,
// which is hashed again. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/opened_file.h"
#include "base/status.h"

namespace graft {

struct HashMemoryOptions {
  std::string path;               // "": nothing outlives the program
  int64_t entries_max = 100'000;  // beyond it, those go that were unused for longest
  // A file with younger times than this is not remembered: see IsSettled. Two seconds are the
  // coarsest clock that a file system takes its times from (FAT).
  int64_t settle_ns = 2'000'000'000;
  int64_t write_after_ns = 1'000'000'000;
  int64_t lock_wait_ns = 2'000'000'000;  // for another program's write; then it is tried again
};

class HashMemory {
 public:
  // Reads the file. One that is damaged, or that others may write, is ignored, and the log says
  // why.
  explicit HashMemory(HashMemoryOptions options);
  // Writes what is not written yet, unless another program has locked the file.
  ~HashMemory();
  HashMemory(const HashMemory&) = delete;
  HashMemory& operator=(const HashMemory&) = delete;

  // Keys are texts of any length. Hashes are as IsSha256 has them.
  std::optional<std::string> Find(std::string_view key);
  void Remember(std::string_view key, const std::string& hash);
  // Whether what was read of a file from `since_ns` on (FileTimeNow) may be remembered by the
  // identity that it had then.
  bool MayRemember(const FileIdentity& identity, int64_t since_ns) const {
    return IsSettled(identity, since_ns, options_.settle_ns);
  }

  int64_t num_entries() const;
  // Writes the file now. For tests, and the end. After a transient fault (base/fault.h), such as
  // another program's lock, it is tried again by itself; after any other once there is more to
  // write. Nothing is written then.
  Status Write();

 private:
  struct Entry {
    std::string key;  // its digest's first digits
    std::string hash;
  };
  using Entries = std::list<Entry>;  // the one used last is the last

  void Put(Entry entry, Entries::iterator before);
  Result<std::vector<Entry>> Read() const;
  Status WriteFile();
  void TellFailure(const Status& written);
  void WriteInTime();

  const HashMemoryOptions options_;
  std::mutex write_mutex_;  // before mutex_
  mutable std::mutex mutex_;
  Entries entries_;
  std::unordered_map<std::string_view, Entries::iterator> by_key_;
  bool is_changed_ = false;  // since the last write was begun
  bool stopping_ = false;
  std::condition_variable changed_;
  bool has_told_passing_ = false;  // the writer's, since it went well
  bool has_told_lasting_ = false;
  std::thread writer_;
};

// $XDG_CACHE_HOME/graft/`name`, or where that is not set ~/.cache/graft/`name`; "" without either.
std::string CacheFilePath(const std::string& name);

}  // namespace graft
