// The adapters of one machine, served to others: loaded on demand, and read by content hash. Beside
// RunnerService on the same port. Thread-safe; calls run on gRPC's threads.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/adapter_files.h"
#include "base/file.h"
#include "base/status.h"
#include "request/adapter_catalog.h"
#include "request/source_fetcher.h"

namespace grpc {
class Service;
}

namespace graft {

class AdapterService {
 public:
  struct Handlers {
    std::function<Result<AdapterInfo>(const AdapterLoad&)> load;
    // The PEFT folder that has the content of this hash; kNotFound.
    std::function<Result<std::string>(const std::string& hash)> folder_of;
    // What is read lies inside, wherever links in that folder lead.
    std::optional<FileJail> jail = {};  // none: anywhere
    SourceFetcher* sources = nullptr;   // borrowed; null: it fetches nothing for others
  };
  explicit AdapterService(Handlers handlers);
  ~AdapterService();

  // To be registered with a server, which must end first.
  grpc::Service& grpc_service();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// As they are numbered between machines: a PEFT folder's first, then those of a bundle, then those
// of texts.
inline constexpr size_t kFirstTextFile = kPeftFiles.size() + kBundleFiles.size();
inline constexpr size_t kAdapterFiles = kFirstTextFile + kAdapterTextFiles.size();
inline const char* AdapterFileName(size_t file) {
  if (file < kPeftFiles.size()) return kPeftFiles[file];
  if (file < kFirstTextFile) return kBundleFiles[file - kPeftFiles.size()];
  return kAdapterTextFiles[file - kFirstTextFile];
}
inline constexpr size_t kAdapterChunkBytes = 1 << 20;

}  // namespace graft
