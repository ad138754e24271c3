// FakeLoader: a loader over FakeExecutor's pages, for tests. Contents are made up from their hash.
// A load takes as many looks at the events as the test says, and folders can be broken, changed and
// mended. A copy from the host's memory can be used at once: the executor writes its rows when a
// step first reads them, or when the copy ends. One thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/fake_executor.h"
#include "step/adapter_loader.h"

namespace graft {

class FakeLoader : public AdapterLoader {
 public:
  explicit FakeLoader(FakeExecutor& executor) : executor_(executor) {}

  // The folder at `path` holds this content from now on; "" breaks it.
  void SetFolder(const std::string& path, const std::string& hash) { folders_[path] = hash; }
  // The rows of a content; {} restores the rows that all contents have at first.
  void SetRows(const std::string& hash, std::vector<RowRun> rows) { rows_[hash] = std::move(rows); }
  // The content puts so many virtual tokens in front of prompts.
  void SetVirtualTokens(const std::string& hash, int32_t num_tokens, bool has_kv) {
    virtual_tokens_[hash] = {num_tokens, has_kv};
  }
  int32_t NumVirtualTokens(const std::string& hash) const {
    const auto found = virtual_tokens_.find(hash);
    return found == virtual_tokens_.end() ? 0 : found->second.first;
  }
  // The content acts from these tokens on.
  void SetInvocation(const std::string& hash, std::vector<int32_t> tokens) {
    invocations_[hash] = std::move(tokens);
  }
  // Every order finishes at the n-th look at the events after it.
  void set_delay(int delay) { delay_ = delay; }
  // Fetches of the folder at `path` take for ever, which the engine is told at the next look.
  void HangFolder(const std::string& path) { hung_.insert(path); }
  // They end at the next look: with what is there, or with this status.
  void ReleaseFolder(const std::string& path, const Status& status = OkStatus());
  // The hash of a sum of `parts` that were read.
  static std::string HashOfSum(std::vector<AdapterPart> parts);
  // Forgets what it fetched: the next fetch reads the folder again.
  void ClearHost() { host_.clear(); }
  // Told of every content that was read, as the catalog is.
  void set_on_read(std::function<void(const std::string&, const AdapterFacts&)> on_read) {
    on_read_ = std::move(on_read);
  }

  void Fetch(FetchOrder order) override;
  bool Copy(CopyOrder order) override;
  std::optional<AdapterFacts> FindInHost(const std::string& hash) const override;
  void Drop(int32_t content) override;
  void Free(AdapterSlot slot) override;
  std::vector<LoadEvent> TakeEvents() override;
  void WaitForEvent() override;
  void SetWaker(std::function<void()> waker) override { waker_ = std::move(waker); }

  int num_fetches() const { return num_fetches_; }
  int num_copies() const { return num_copies_; }
  int num_held() const { return static_cast<int>(held_.size()); }

 private:
  struct Pending {
    int looks_left = 0;
    bool is_copy = false;
    bool usable = false;  // the executor was told of it
    CopyOrder order;
    Status status;  // what a fetch ends with, if that is not decided by the folder
  };
  // A fetch that hangs.
  struct Hanging {
    Pending pending;
    bool is_announced = false;
  };
  AdapterFacts FactsOf(const std::string& hash) const;
  Result<AdapterFacts> Read(const FetchOrder& order);
  Result<AdapterFacts> ReadSum(const FetchOrder& order);
  LoadEvent Finish(const Pending& pending);
  void Give(const CopyOrder& order, const AdapterFacts& facts);

  FakeExecutor& executor_;
  std::map<std::string, std::string> folders_;
  std::map<std::string, std::vector<RowRun>> rows_;
  std::map<std::string, std::pair<int32_t, bool>> virtual_tokens_;
  std::map<std::string, std::vector<int32_t>> invocations_;
  std::set<std::string> host_;
  std::set<int32_t> held_;  // contents fetched and neither copied nor dropped
  std::deque<Pending> pending_;
  std::set<std::string> hung_;  // folders
  std::vector<Hanging> hanging_;
  std::function<void()> waker_;
  std::function<void(const std::string&, const AdapterFacts&)> on_read_;
  int delay_ = 1;
  int num_fetches_ = 0;
  int num_copies_ = 0;
};

}  // namespace graft
