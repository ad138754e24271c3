// AdapterStore: a folder of adapters by content hash, shared by the processes of one machine. What
// is not there is fetched from another machine, once however many processes ask: the others wait
// for the first. A fetch that broke off goes on where it was, and only content whose hash is right
// gets its place. Thread-safe; calls block.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "rpc/tls_files.h"

namespace graft {

class AdapterStore {
 public:
  // The content hash of a PEFT folder.
  using HashFolder = std::function<Result<std::string>(const std::string& folder)>;

  // `root` is made if it is not there.
  static Result<AdapterStore> Open(const std::string& root, TlsFiles tls, HashFolder hash_folder);

  // The folder that contents lie in, each under its hash.
  std::string contents() const { return root_ + "/contents"; }
  // The folder of that content, fetched from one of `peers` (host:port) if it is not there.
  // kNotFound: none has it.
  Result<std::string> Get(const std::string& hash, const std::vector<std::string>& peers) const;

 private:
  AdapterStore(std::string root, TlsFiles tls, HashFolder hash_folder);
  Status FetchInto(const std::string& hash, const std::vector<std::string>& peers,
                   const std::string& folder) const;

  std::string root_;
  TlsFiles tls_;
  HashFolder hash_folder_;
};

}  // namespace graft
