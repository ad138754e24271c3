// ContentStore: a folder of adapters by content hash, shared by the processes of one machine. A
// missing adapter is fetched from another machine, once, however many processes ask for it; the
// others wait for the first. A fetch that broke off goes on where it stopped. Only content with the
// right hash gets its place in the folder, and nothing writes to it there. Thread-safe; calls
// block.
#pragma once

#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "rpc/tls_files.h"

namespace graft {

// How long unwanted content stays in a store.
inline constexpr std::chrono::minutes kContentGrace(10);

class ContentStore {
 public:
  // The content hash of a PEFT folder.
  using HashFolder = std::function<Result<std::string>(const std::string& folder)>;

  // `root` is made if it is not there.
  static Result<ContentStore> Open(const std::string& root, TlsFiles tls, HashFolder hash_folder);

  // The folder that contents lie in, each under its hash.
  std::string contents() const { return root_ + "/contents"; }
  // The folder of that content, fetched from one of `peers` (host:port) if it is not there.
  // kNotFound: none has it.
  Result<std::string> Get(const std::string& hash, const std::vector<std::string>& peers) const;
  // The same, copied from `folder` if it is not there. kDataLoss: that has other content.
  Result<std::string> Keep(const std::string& hash, const std::string& folder) const;
  // The folder of that content, which counts as wanted for a while; kNotFound.
  Result<std::string> Find(const std::string& hash) const;
  // Removes contents that are not in `wanted`, and that no sweep or request of any process has
  // wanted for `grace`. Returns how many.
  int Sweep(const std::set<std::string>& wanted, std::chrono::seconds grace) const;

 private:
  ContentStore(std::string root, TlsFiles tls, HashFolder hash_folder);
  // Has `fill` put the content into a new folder, unless another process does so first.
  using Fill = std::function<Status(const std::string& folder)>;
  Result<std::string> Make(const std::string& hash, const std::string& part,
                           const Fill& fill) const;
  Status FetchInto(const std::string& hash, const std::vector<std::string>& peers,
                   const std::string& folder) const;

  // Whether the folder, which is the store's alone, has this content. Earlier versions of this
  // program hashed no files of texts: where it has the content but for them, they are removed.
  Result<bool> MakeContent(const std::string& hash, const std::string& folder) const;

  std::string root_;
  TlsFiles tls_;
  HashFolder hash_folder_;
};

}  // namespace graft
