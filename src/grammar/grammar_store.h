// GrammarStore: the grammars that requests ask for, compiled on threads of its own and kept by the
// hash of their text. The bytes that requests hold are bounded, in all and for each tenant.
// Grammars that no request holds are kept up to another bound; beyond it those that were held least
// recently are dropped. The compiler is made with the first grammar. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/shared_text.h"
#include "base/status.h"
#include "grammar/grammar.h"
#include "grammar/grammar_threads.h"

namespace graft {

// A grammar that is compiled, or will be. Any thread.
class SharedGrammar {
 public:
  SharedGrammar(const SharedText& text, std::string tenant)
      : key_(text.sha256()), tenant_(std::move(tenant)), text_(text) {}

  bool is_done() const { return done_.load(std::memory_order_acquire); }
  // Once it is done: why it cannot be had, or a matcher of it.
  const Status& status() const { return status_; }
  std::unique_ptr<GrammarMatcher> NewMatcher(std::shared_ptr<GrammarRoom> room) const {
    return compiled_->NewMatcher(std::move(room));
  }

 private:
  friend class GrammarStore;
  using Idle = std::list<std::shared_ptr<SharedGrammar>>;

  const std::string key_;
  const std::string tenant_;  // asked first, and what is held counts as its
  SharedText text_;           // until it is compiled
  std::shared_ptr<const CompiledGrammar> compiled_;
  Status status_;
  std::atomic<bool> done_{false};
  std::atomic<int> num_holders_{0};
  // Under the store's lock.
  bool is_begun_ = false;
  int64_t bytes_ = 0;
  Idle::iterator idle_;  // if no request holds it
};

struct GrammarStoreOptions {
  int threads = 3;
  int threads_of_one = 2;                        // at most, of one tenant's
  int64_t bytes_max = int64_t{256} << 20;        // of those that no request holds
  int64_t held_bytes_max = int64_t{1} << 30;     // of those that requests hold
  int64_t held_bytes_of_one = int64_t{1} << 29;  // of those, of one tenant's
  size_t text_bytes_max = size_t{256} << 10;
};

class GrammarStore {
 public:
  using MakeCompiler = std::function<Result<std::unique_ptr<GrammarCompiler>>()>;

  explicit GrammarStore(MakeCompiler make_compiler, const GrammarStoreOptions& options = {});
  ~GrammarStore();
  GrammarStore(const GrammarStore&) = delete;
  GrammarStore& operator=(const GrammarStore&) = delete;

  // Any thread, for a tenant's request, which holds it until it lets go of what it gets: before
  // the store's end. kInvalidArgument: it is too long; kResourceExhausted: requests hold too many.
  Result<std::shared_ptr<const SharedGrammar>> Want(const SharedText& text,
                                                    const std::string& tenant);
  // Where states of a tenant's answers count, as what requests hold: before the store's end.
  std::shared_ptr<GrammarRoom> RoomOf(const std::string& tenant);
  // Work for a request beside its steps, in its tenant's turn.
  void Run(const std::string& tenant, std::function<void()> job);
  // Called on a thread of the store whenever a grammar or a job is done; {}: none.
  void SetWaker(std::function<void()> waker);

  int64_t num_compiled() const { return num_compiled_; }
  // Bytes of grammars, of texts that wait to be compiled, and of answers' states.
  int64_t bytes_held() const;
  int64_t bytes_idle() const;

 private:
  using Shared = std::shared_ptr<SharedGrammar>;
  class Room;

  bool TakeRoom(const std::string& tenant, int64_t bytes);
  void Order(const std::string& key, const std::string& tenant);
  void Wake();
  Shared Begin(const std::string& key);
  void Compile(const std::string& key);
  Status TryCompile(SharedGrammar& grammar);
  const GrammarCompiler* Compiler(Status* status);
  std::shared_ptr<const SharedGrammar> Hold(const Shared& grammar);
  void LetGo(const Shared& grammar);
  Status CheckHeld(const std::string& tenant) const;
  void SetBytes(SharedGrammar& grammar, int64_t bytes);
  void CountHeld(const std::string& tenant, int64_t bytes);
  void Forget(const SharedGrammar& grammar);
  SharedGrammar::Idle Evict();

  const MakeCompiler make_compiler_;
  const GrammarStoreOptions options_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Shared> by_key_;
  SharedGrammar::Idle idle_;  // the one used last comes first
  int64_t idle_bytes_ = 0;
  int64_t held_bytes_ = 0;
  std::map<std::string, int64_t> held_of_;  // bytes, by tenant; none is 0
  std::mutex waker_mutex_;
  std::function<void()> waker_;
  std::mutex compiler_mutex_;
  std::unique_ptr<GrammarCompiler> compiler_;
  std::atomic<int64_t> num_compiled_{0};
  std::atomic<bool> stops_{false};
  GrammarThreads threads_;
};

}  // namespace graft
