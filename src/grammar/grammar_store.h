// The grammars that requests ask for, compiled on threads of their own and kept by their text's
// hash, the least used being dropped. Tenants take turns, and none has all threads. The compiler is
// made with the first of them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/shared_text.h"
#include "base/status.h"
#include "base/turn_queue.h"
#include "grammar/grammar.h"

namespace graft {

// A grammar that is compiled, or will be. Any thread.
class SharedGrammar {
 public:
  explicit SharedGrammar(SharedText text) : text_(std::move(text)) {}

  bool is_done() const { return done_.load(std::memory_order_acquire); }
  // Once it is done: why it cannot be had, or a matcher of it.
  const Status& status() const { return status_; }
  std::unique_ptr<GrammarMatcher> NewMatcher() const { return compiled_->NewMatcher(); }

 private:
  friend class GrammarStore;
  const SharedText text_;
  std::shared_ptr<const CompiledGrammar> compiled_;
  Status status_;
  std::atomic<bool> done_{false};
  bool is_begun_ = false;  // under the store's lock
};

struct GrammarStoreOptions {
  int threads = 3;
  int threads_of_one = 2;                  // at most, of one tenant's
  int64_t bytes_max = int64_t{256} << 20;  // of those that no request holds
  size_t text_bytes_max = size_t{256} << 10;
};

class GrammarStore {
 public:
  using MakeCompiler = std::function<Result<std::unique_ptr<GrammarCompiler>>()>;

  explicit GrammarStore(MakeCompiler make_compiler, const GrammarStoreOptions& options = {});
  ~GrammarStore();
  GrammarStore(const GrammarStore&) = delete;
  GrammarStore& operator=(const GrammarStore&) = delete;

  // Any thread, for a tenant's request. Refuses what is too long.
  Result<std::shared_ptr<const SharedGrammar>> Want(const SharedText& text,
                                                    const std::string& tenant);
  // Called on a thread of the store whenever a grammar is done; {}: nobody.
  void SetWaker(std::function<void()> waker);

  int64_t num_compiled() const { return num_compiled_; }

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<SharedGrammar> grammar;
    int64_t bytes = 0;
  };
  using Entries = std::list<Entry>;  // the one used last comes first

  // A tenant wants a grammar; others may want the same, and whoever asked may have gone.
  struct Order {
    std::string key;
    std::string tenant;
    std::weak_ptr<SharedGrammar> grammar;
  };

  void Work();
  bool MayCompile(const std::string& tenant) const;
  std::shared_ptr<SharedGrammar> Begin(const Order& order);
  // Fills it. Unless only the store holds it by now.
  void Compile(SharedGrammar& grammar);
  const GrammarCompiler* Compiler(Status* status);
  void Book(const std::string& key, const std::shared_ptr<SharedGrammar>& grammar);
  void Evict();

  const MakeCompiler make_compiler_;
  const GrammarStoreOptions options_;
  std::mutex mutex_;
  std::condition_variable work_came_;
  Entries entries_;
  std::unordered_map<std::string, Entries::iterator> by_key_;
  int64_t bytes_ = 0;
  TurnQueue<std::string, Order> queue_;       // by tenant
  std::map<std::string, int> num_compiling_;  // threads, by tenant; none is 0
  std::vector<std::thread> threads_;          // from the first grammar on
  bool stops_ = false;
  std::mutex waker_mutex_;
  std::function<void()> waker_;
  std::mutex compiler_mutex_;
  std::unique_ptr<GrammarCompiler> compiler_;
  std::atomic<int64_t> num_compiled_{0};
};

}  // namespace graft
