// A catalog without files. For tests only.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "request/adapter_catalog.h"

namespace graft {

// FakeCatalog has adapters "austen", "doyle" and "doyle-large", and loads paths under "good/".
// Loading "broken" and "misshapen" fails, "unwritten" fails because there is no registry, and
// "full" because there is no place. Thread-safe.
class FakeCatalog : public AdapterCatalog {
 public:
  FakeCatalog();
  std::vector<AdapterInfo> ListAfter(const std::string& name, size_t infos_max) const override;
  Result<AdapterInfo> Find(const std::string& name) const override;
  std::string NamesNear(const std::string& name, const NameFilter& allows) const override;
  // "austen" is resident; the others are in the host's memory.
  AdapterState StateOf(const AdapterInfo& adapter) const override;
  Result<AdapterInfo> Load(const AdapterLoad& load) override;
  Status Unload(const std::string& name, const std::string& /*tenant*/) override;

  // What one of its adapters brings.
  void SetText(const std::string& name, AdapterText text);

  // Loading "good/slow" waits for the first mutex, and listing adapters for the second.
  std::mutex slow_folder;
  mutable std::mutex slow_list;
  // Waits until so many lists have begun: the dashboard's, at the start, is the first. False: the
  // test's patience ended first.
  bool WaitForLists(int32_t count) const;
  // The thread that called Find last.
  std::thread::id last_finder() const { return last_finder_; }

 private:
  mutable std::atomic<int32_t> num_lists_ = 0;
  mutable std::atomic<std::thread::id> last_finder_;
  mutable std::mutex mutex_;
  std::map<std::string, AdapterInfo> adapters_;
};

}  // namespace graft
