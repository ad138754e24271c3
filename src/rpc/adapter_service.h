// The adapters of one machine, served to others: loaded on demand, and read by content hash. Beside
// RunnerService on the same port. Thread-safe; calls run on gRPC's threads.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/file.h"
#include "base/status.h"
#include "request/adapter_catalog.h"

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
  };
  explicit AdapterService(Handlers handlers);
  ~AdapterService();

  // To be registered with a server, which must end first.
  grpc::Service& grpc_service();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace graft
