// PartFile: a file that is written in parts, in any order and by several threads, checked as a
// whole and only then given its name. What another process had fetched before it ended is taken
// over: beside the unfinished file lies a list of its finished parts. The caller has the file's
// lock (base/file_lock.h) from Open to the end.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "sources/blob_digest.h"

namespace graft {

inline constexpr int64_t kPartBytes = int64_t{8} << 20;

struct PartFileOrder {
  std::string path;             // what it is called once it is whole
  std::string unfinished_path;  // the same until then, in the same file system
  int64_t bytes = 0;
  DigestKind kind = DigestKind::kNone;
  std::string digest;
  // Whether parts of an earlier process are taken. Without a digest nothing would find them out if
  // the machine had failed meanwhile.
  bool adopts = false;
  int64_t part_bytes = kPartBytes;
};

class PartFile {
 public:
  // Makes room for all of it on the disk. kFailedPrecondition: there is none. Other errors as
  // SystemError's.
  static Result<std::unique_ptr<PartFile>> Open(PartFileOrder order);
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  // All of these: any thread.
  int num_parts() const { return static_cast<int>(is_done_.size()); }
  int64_t PartBegin(int part) const { return part * order_.part_bytes; }
  int64_t PartEnd(int part) const;
  bool IsDone(int part) const;
  int64_t done_bytes() const;  // of finished parts

  // Bytes at `offset`, inside a part that one thread alone writes.
  Status Write(int64_t offset, std::string_view bytes);
  // All of the part is written. Digests what is finished from the beginning on, if no other thread
  // does so. The last one gives the file its name, or finds that its bytes are not what they should
  // be: then kDataLoss, and all parts are open again.
  Status FinishPart(int part);
  // Whether it has its name.
  bool is_whole() const;

 private:
  PartFile(PartFileOrder order, int descriptor);
  void Adopt();
  Status Reserve();
  Status DigestReady();
  Status GiveName();
  void StartAnew();
  std::string ListPath() const { return order_.unfinished_path + ".parts"; }

  const PartFileOrder order_;
  const int descriptor_;
  int list_descriptor_ = -1;
  mutable std::mutex mutex_;
  std::vector<uint8_t> is_done_;  // 0 or 1, by part
  int num_done_ = 0;
  bool is_whole_ = false;
  std::mutex digest_mutex_;  // taken before mutex_
  std::unique_ptr<BlobDigest> digest_;
  int num_digested_ = 0;
};

// The bytes on the disk of a file, of its blocks; 0: there is none.
int64_t BytesOnDisk(const std::string& path);

// Removes unfinished files in `folder`, by their lists, that were not written to for a day: no
// process is left that would go on with them. Not those that end with `ending`, this one's own.
void RemoveStaleParts(const std::string& folder, const std::string& ending);

// The bytes free for this user on the disk of `path` or of the nearest folder above it that is
// there.
Result<int64_t> FreeDiskBytes(const std::string& path);

}  // namespace graft
