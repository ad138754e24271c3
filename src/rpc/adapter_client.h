// What is asked of another machine's AdapterService. Thread-safe; calls block.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "request/adapter_catalog.h"
#include "rpc/tls_files.h"

namespace graft {

class AdapterClient {
 public:
  static Result<std::unique_ptr<AdapterClient>> Make(const std::string& address,
                                                     const TlsFiles& tls);
  ~AdapterClient();

  // As AdapterCatalog::Load; what is learnt of the content is returned.
  Result<AdapterInfo> Load(const AdapterLoad& load);
  // The content of this hash into `folder`, which is there; goes on where a former try broke off.
  // Each part is checked as it comes. kDataLoss: one was not what its sender had.
  Status Fetch(const std::string& hash, const std::string& folder);
  // Any thread: a Load that runs, and each later one, ends at once with kCancelled.
  void Cancel();

 private:
  class Impl;
  explicit AdapterClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace graft
