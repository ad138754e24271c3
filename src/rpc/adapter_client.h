// What is asked of another machine's AdapterService. Thread-safe; calls block.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/status.h"
#include "request/adapter_catalog.h"
#include "request/source_fetcher.h"
#include "rpc/tls_files.h"

namespace graft {

class AdapterClient {
 public:
  static Result<std::unique_ptr<AdapterClient>> Make(const std::string& address,
                                                     const TlsFiles& tls);
  virtual ~AdapterClient() = default;

  // As AdapterCatalog::Load; what is learnt of the content is returned.
  virtual Result<AdapterInfo> Load(const AdapterLoad& load) = 0;
  // The content of this hash into `folder`, which is there; goes on where a former try broke off.
  // Each part is checked as it comes. kDataLoss: one was not what its sender had.
  virtual Status Fetch(const std::string& hash, const std::string& folder) = 0;
  // What the other machine fetches from one of its sources, by SourceFetcher::Fetch. Returns
  // errors of the way there, and puts what the machine says into `answer`.
  virtual Status FetchSource(const SourceOrder& order, const std::atomic<bool>& is_cancelled,
                             Result<SourceFolder>* answer) = 0;
  virtual Status DropSource(const std::string& source, const std::string& path) = 0;
  // Any thread: a Load that runs, and each later one, ends at once with kCancelled.
  virtual void Cancel() = 0;
};

}  // namespace graft
