// ParallelDownload: several files at once, part by part over several connections. A part that was
// cut goes on at the byte after the last one that came. A file with other bytes than it should
// have is fetched once more. Blocks its caller, and has threads of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "sources/part_file.h"
#include "sources/web_connection.h"
#include "sources/web_patience.h"

namespace graft {

struct DownloadedFile {
  std::string name;  // for messages
  WebOrder order;    // without a range, which each part brings
  std::unique_ptr<PartFile> file;
};

// How many files are under way at once: each has two open descriptors, and its lock a third.
inline constexpr size_t kFilesAtOnce = 48;

struct DownloadOptions {
  WebOptions web;
  WebPatienceOptions patience;
  int connections_max = 8;
  int64_t part_bytes = kPartBytes;
  int64_t bytes_max = 0;  // of all files of an adapter together: a larger one is not begun; 0: any
  bool yields = false;    // its threads leave the processors to others that want them
  // How many bytes are there, of all. On the caller's thread, a few times a second.
  std::function<void(int64_t done, int64_t total)> on_progress;
};

// OK: all have their names. The first failure ends all. What came stays for a next try.
Status DownloadAll(std::vector<DownloadedFile> files, const DownloadOptions& options);

}  // namespace graft
