#include "sources/part_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/fault.h"
#include "base/file.h"

namespace graft {
namespace {

constexpr int64_t kListBytesMax = 16 << 20;
constexpr size_t kReadBytes = 1 << 20;
constexpr std::chrono::hours kStaleAfter(24);

// A disk that is full stays so until the operator makes room: it is not tried again.
Status DiskError(int error_number, const std::string& what) {
  if (error_number != ENOSPC && error_number != EDQUOT && error_number != EFBIG) {
    return SystemError(error_number, what);
  }
  return FailedPreconditionError(what +
                                 ": the disk is full, or a quota or limit is reached; make "
                                 "room, or name another folder");
}

}  // namespace

PartFile::PartFile(PartFileOrder order, int descriptor)
    : order_(std::move(order)),
      descriptor_(descriptor),
      is_done_(static_cast<size_t>((order_.bytes + order_.part_bytes - 1) / order_.part_bytes)),
      digest_(BlobDigest::Make(order_.kind, order_.bytes)) {}

PartFile::~PartFile() {
  close(descriptor_);
  if (list_descriptor_ >= 0) close(list_descriptor_);
  // Nothing to go on from, or nothing that another process may take.
  if (!is_whole_ && (num_done_ == 0 || !order_.adopts)) {
    unlink(order_.unfinished_path.c_str());
    unlink(ListPath().c_str());
  }
}

int64_t PartFile::PartEnd(int part) const {
  return std::min(PartBegin(part) + order_.part_bytes, order_.bytes);
}

bool PartFile::IsDone(int part) const {
  std::lock_guard lock(mutex_);
  return is_done_[static_cast<size_t>(part)] != 0;
}

int64_t PartFile::done_bytes() const {
  std::lock_guard lock(mutex_);
  int64_t bytes = 0;
  for (int part = 0; part < num_parts(); ++part) {
    if (is_done_[static_cast<size_t>(part)] != 0) bytes += PartEnd(part) - PartBegin(part);
  }
  return bytes;
}

bool PartFile::is_whole() const {
  std::lock_guard lock(mutex_);
  return is_whole_;
}

Result<std::unique_ptr<PartFile>> PartFile::Open(PartFileOrder order) {
  const std::string path = order.unfinished_path;
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (descriptor < 0) return DiskError(errno, "cannot write " + path);
  std::unique_ptr<PartFile> file(new PartFile(std::move(order), descriptor));
  if (file->order_.adopts) file->Adopt();
  RETURN_IF_ERROR(file->Reserve());
  file->list_descriptor_ =
      open(file->ListPath().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND | O_NOFOLLOW, 0644);
  if (file->list_descriptor_ < 0) return DiskError(errno, "cannot write " + file->ListPath());
  if (file->num_parts() == 0) RETURN_IF_ERROR(file->DigestReady());
  return file;
}

// The list has a line "SIZE PART_BYTES PART" for each finished part. A line that was cut, or is of
// other sizes, counts for nothing.
void PartFile::Adopt() {
  const off_t size = lseek(descriptor_, 0, SEEK_END);
  const Result<std::string> list = ReadFile(ListPath(), kListBytesMax);
  if (size != order_.bytes || !list.ok()) {
    StartAnew();
    return;
  }
  std::istringstream lines(*list);
  int64_t bytes = 0;
  int64_t part_bytes = 0;
  int64_t part = 0;
  while (lines >> bytes >> part_bytes >> part && !lines.eof()) {
    const bool is_of_this = bytes == order_.bytes && part_bytes == order_.part_bytes;
    if (!is_of_this || part < 0 || part >= num_parts()) continue;
    if (std::exchange(is_done_[static_cast<size_t>(part)], 1) == 0) ++num_done_;
  }
  // The end of a part gives the file its name, so one has to be left.
  if (num_done_ == 0 || num_done_ < num_parts()) return;
  is_done_.back() = 0;
  --num_done_;
}

Status PartFile::Reserve() {
  const std::string what = "cannot make room for " + std::to_string(order_.bytes) + " bytes at " +
                           order_.unfinished_path;
  if (num_done_ == 0 && ftruncate(descriptor_, 0) != 0) return DiskError(errno, what);
  if (num_done_ == 0) unlink(ListPath().c_str());
  if (order_.bytes == 0) return OkStatus();
  const int error = posix_fallocate(descriptor_, 0, order_.bytes);
  if (error == 0) return OkStatus();
  // A file system that cannot promise room may still have it.
  if (error != EOPNOTSUPP && error != EINVAL && error != ENOSYS) return DiskError(error, what);
  return ftruncate(descriptor_, order_.bytes) == 0 ? OkStatus() : DiskError(errno, what);
}

Status PartFile::Write(int64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = pwrite(descriptor_, bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return DiskError(errno, "cannot write " + order_.unfinished_path);
    offset += n;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return OkStatus();
}

Status PartFile::FinishPart(int part) {
  const std::string line = std::to_string(order_.bytes) + " " + std::to_string(order_.part_bytes) +
                           " " + std::to_string(part) + "\n";
  bool is_last = false;
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(is_done_[static_cast<size_t>(part)], 1) == 0) ++num_done_;
    is_last = num_done_ == num_parts();
    // One write, which the system does in one piece or, on a full disk, not at all.
    const ssize_t written = write(list_descriptor_, line.data(), line.size());
    if (written < 0) return DiskError(errno, "cannot write " + ListPath());
  }
  std::unique_lock digest_lock(digest_mutex_, std::defer_lock);
  if (is_last) {
    digest_lock.lock();
  } else if (!digest_lock.try_lock()) {
    return OkStatus();
  }
  return DigestReady();
}

Status PartFile::DigestReady() {
  if (is_whole()) return OkStatus();  // another thread took the last part along
  std::vector<char> block;
  while (num_digested_ < num_parts() && IsDone(num_digested_)) {
    block.resize(kReadBytes);
    int64_t at =
        order_.kind == DigestKind::kNone ? PartEnd(num_digested_) : PartBegin(num_digested_);
    while (at < PartEnd(num_digested_)) {
      const auto wanted =
          static_cast<size_t>(std::min<int64_t>(kReadBytes, PartEnd(num_digested_) - at));
      const ssize_t n = pread(descriptor_, block.data(), wanted, at);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return SystemError(n < 0 ? errno : EIO, "cannot read " + order_.unfinished_path);
      digest_->Update({block.data(), static_cast<size_t>(n)});
      at += n;
    }
    ++num_digested_;
  }
  return num_digested_ == num_parts() ? GiveName() : OkStatus();
}

Status PartFile::GiveName() {
  const std::string found = digest_->Finish();
  if (found != order_.digest && order_.kind != DigestKind::kNone) {
    StartAnew();
    return DataLossError("the bytes that came for " + order_.path + " have the " +
                         DigestName(order_.kind) + " " + found + ", not " + order_.digest);
  }
  if (fsync(descriptor_) != 0) return DiskError(errno, "cannot write " + order_.unfinished_path);
  if (rename(order_.unfinished_path.c_str(), order_.path.c_str()) != 0) {
    return DiskError(errno, "cannot rename " + order_.unfinished_path);
  }
  unlink(ListPath().c_str());
  std::lock_guard lock(mutex_);
  is_whole_ = true;
  return OkStatus();
}

void PartFile::StartAnew() {
  std::lock_guard lock(mutex_);
  is_done_.assign(is_done_.size(), 0);
  num_done_ = 0;
  num_digested_ = 0;
  digest_ = BlobDigest::Make(order_.kind, order_.bytes);
  if (list_descriptor_ >= 0 && ftruncate(list_descriptor_, 0) != 0) unlink(ListPath().c_str());
}

int64_t BytesOnDisk(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 ? int64_t{status.st_blocks} * 512 : 0;
}

void RemoveStaleParts(const std::string& folder, const std::string& ending) {
  namespace fs = std::filesystem;
  constexpr std::string_view kList = ".parts";
  std::error_code error;
  std::vector<fs::path> stale;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().string();
    if (!name.ends_with(kList)) continue;
    const std::string file = name.substr(0, name.size() - kList.size());
    if (!ending.empty() && file.ends_with(ending)) continue;
    std::error_code missing;
    const auto list_time = fs::last_write_time(entry.path(), missing);
    const auto file_time = fs::last_write_time(file, missing);
    const auto written = missing ? list_time : std::max(list_time, file_time);
    if (fs::file_time_type::clock::now() - written > kStaleAfter) stale.push_back(file);
  }
  for (const fs::path& file : stale) {
    fs::remove(file, error);
    fs::remove(file.string() + std::string(kList), error);
  }
}

Result<int64_t> FreeDiskBytes(const std::string& path) {
  std::filesystem::path at = path;
  struct statvfs disk {};
  while (statvfs(at.c_str(), &disk) != 0) {
    if (errno != ENOENT || !at.has_parent_path() || at == at.parent_path()) {
      return SystemError(errno, "cannot look at the disk of " + path);
    }
    at = at.parent_path();
  }
  return static_cast<int64_t>(disk.f_bavail) * static_cast<int64_t>(disk.f_frsize);
}

}  // namespace graft
