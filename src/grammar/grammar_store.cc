#include "grammar/grammar_store.h"

#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace graft {
namespace {

// Memory of an entry besides its compiled grammar. One that did not compile takes this alone.
constexpr int64_t kEntryBytes = 1024;

}  // namespace

class GrammarStore::Room : public GrammarRoom {
 public:
  Room(GrammarStore& store, std::string tenant) : store_(store), tenant_(std::move(tenant)) {}
  bool Take(int64_t bytes) override { return store_.TakeRoom(tenant_, bytes); }

 private:
  GrammarStore& store_;
  const std::string tenant_;
};

GrammarStore::GrammarStore(MakeCompiler make_compiler, const GrammarStoreOptions& options)
    : make_compiler_(std::move(make_compiler)),
      options_(options),
      threads_(options.threads, options.threads_of_one) {}

// What is dropped lets go of its grammars, while they are all there.
GrammarStore::~GrammarStore() {
  stops_ = true;
  threads_.Stop();
}

Result<std::shared_ptr<const SharedGrammar>> GrammarStore::Want(const SharedText& text,
                                                                const std::string& tenant) {
  if (text.size() > options_.text_bytes_max) {
    return InvalidArgumentError("the grammar of the answer has " + std::to_string(text.size()) +
                                " bytes, at most " + std::to_string(options_.text_bytes_max) +
                                " are compiled; send a smaller schema");
  }
  const std::string& key = text.sha256();
  std::lock_guard lock(mutex_);
  const auto found = by_key_.find(key);
  if (found != by_key_.end()) {
    // It need not wait for another tenant's turn.
    if (!found->second->is_begun_) Order(key, tenant);
    return Hold(found->second);
  }
  RETURN_IF_ERROR(CheckHeld(tenant));
  const auto grammar = std::make_shared<SharedGrammar>(text, tenant);
  by_key_[key] = grammar;
  grammar->idle_ = idle_.insert(idle_.begin(), grammar);
  SetBytes(*grammar, kEntryBytes + static_cast<int64_t>(text.size()));
  Order(key, tenant);
  return Hold(grammar);
}

std::shared_ptr<GrammarRoom> GrammarStore::RoomOf(const std::string& tenant) {
  return std::make_shared<Room>(*this, tenant);
}

bool GrammarStore::TakeRoom(const std::string& tenant, int64_t bytes) {
  std::lock_guard lock(mutex_);
  const auto of_tenant = held_of_.find(tenant);
  const int64_t own = of_tenant == held_of_.end() ? 0 : of_tenant->second;
  const bool fits =
      held_bytes_ + bytes <= options_.held_bytes_max && own + bytes <= options_.held_bytes_of_one;
  if (bytes > 0 && !fits) return false;
  CountHeld(tenant, bytes);
  return true;
}

void GrammarStore::Order(const std::string& key, const std::string& tenant) {
  threads_.Post(tenant, [this, key] { Compile(key); });
}

void GrammarStore::Run(const std::string& tenant, std::function<void()> job) {
  threads_.Post(tenant, [this, job = std::move(job)] {
    job();
    Wake();
  });
}

void GrammarStore::SetWaker(std::function<void()> waker) {
  std::lock_guard lock(waker_mutex_);
  waker_ = std::move(waker);
}

void GrammarStore::Wake() {
  std::lock_guard lock(waker_mutex_);
  if (waker_) waker_();
}

int64_t GrammarStore::bytes_held() const {
  std::lock_guard lock(mutex_);
  return held_bytes_;
}

int64_t GrammarStore::bytes_idle() const {
  std::lock_guard lock(mutex_);
  return idle_bytes_;
}

// Under the lock.
Status GrammarStore::CheckHeld(const std::string& tenant) const {
  const auto of_tenant = held_of_.find(tenant);
  const int64_t own = of_tenant == held_of_.end() ? 0 : of_tenant->second;
  if (held_bytes_ <= options_.held_bytes_max && own <= options_.held_bytes_of_one) {
    return OkStatus();
  }
  return ResourceExhaustedError(
      "the forms of the answers that are under way take all memory there is for forms; try again "
      "later, or send a smaller schema or grammar");
}

// Under the lock. Once its last holder lets go, the grammar is idle.
std::shared_ptr<const SharedGrammar> GrammarStore::Hold(const Shared& grammar) {
  if (grammar->num_holders_++ == 0) {
    idle_.erase(grammar->idle_);
    idle_bytes_ -= grammar->bytes_;
    CountHeld(grammar->tenant_, grammar->bytes_);
  }
  return {grammar.get(), [this, grammar](const SharedGrammar*) { LetGo(grammar); }};
}

void GrammarStore::LetGo(const Shared& grammar) {
  SharedGrammar::Idle gone;
  {
    std::lock_guard lock(mutex_);
    if (--grammar->num_holders_ > 0) return;
    CountHeld(grammar->tenant_, -grammar->bytes_);
    const auto found = by_key_.find(grammar->key_);
    const bool is_kept = found != by_key_.end() && found->second == grammar;
    if (!is_kept) return;
    if (!grammar->is_begun_) {
      by_key_.erase(found);  // and its order finds nothing
      return;
    }
    grammar->idle_ = idle_.insert(idle_.begin(), grammar);
    idle_bytes_ += grammar->bytes_;
    gone = Evict();
  }
  // Freeing large ones takes a while, and the engine's thread may be the one that lets go.
  if (!gone.empty()) threads_.Post("", [gone = std::move(gone)] {});
}

void GrammarStore::CountHeld(const std::string& tenant, int64_t bytes) {
  held_bytes_ += bytes;
  const auto [own, is_new] = held_of_.try_emplace(tenant, 0);
  own->second += bytes;
  if (own->second == 0) held_of_.erase(own);
}

// Under the lock.
void GrammarStore::SetBytes(SharedGrammar& grammar, int64_t bytes) {
  const int64_t more = bytes - std::exchange(grammar.bytes_, bytes);
  if (grammar.num_holders_ > 0) {
    CountHeld(grammar.tenant_, more);
  } else {
    idle_bytes_ += more;
  }
}

// Under the lock. Its holders keep it.
void GrammarStore::Forget(const SharedGrammar& grammar) {
  if (grammar.num_holders_ == 0) {
    idle_bytes_ -= grammar.bytes_;
    idle_.erase(grammar.idle_);
  }
  by_key_.erase(grammar.key_);
}

// Under the lock: takes out what is over the limit, but for what is being compiled.
SharedGrammar::Idle GrammarStore::Evict() {
  SharedGrammar::Idle gone;
  for (auto it = idle_.end(); idle_bytes_ > options_.bytes_max && it != idle_.begin();) {
    --it;
    SharedGrammar& grammar = **it;
    if (!grammar.is_done()) continue;
    idle_bytes_ -= grammar.bytes_;
    by_key_.erase(grammar.key_);
    const auto next = std::next(it);
    gone.splice(gone.begin(), idle_, it);
    it = next;
  }
  return gone;
}

// Null: another order was first, or no request waits for it any more.
GrammarStore::Shared GrammarStore::Begin(const std::string& key) {
  std::lock_guard lock(mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end() || std::exchange(found->second->is_begun_, true)) return nullptr;
  return found->second;
}

void GrammarStore::Compile(const std::string& key) {
  const Shared grammar = Begin(key);
  if (grammar == nullptr) return;
  Status status = TryCompile(*grammar);
  SharedGrammar::Idle gone;
  {
    std::lock_guard lock(mutex_);
    if (status.code() == StatusCode::kAborted && grammar->num_holders_ > 0 && !stops_) {
      // A request wants it again.
      grammar->is_begun_ = false;
      Order(key, grammar->tenant_);
      return;
    }
    const bool has_it = grammar->compiled_ != nullptr;
    SetBytes(*grammar, kEntryBytes + (has_it ? grammar->compiled_->bytes() : 0));
    if (status.ok() && grammar->num_holders_ > 0) status = CheckHeld(grammar->tenant_);
    const bool is_lasting = status.ok() || status.code() == StatusCode::kInvalidArgument;
    if (!is_lasting) {
      grammar->compiled_.reset();
      SetBytes(*grammar, kEntryBytes);
      Forget(*grammar);
    }
    grammar->text_ = SharedText();
    grammar->status_ = std::move(status);
    grammar->done_.store(true, std::memory_order_release);
    gone = Evict();
  }
  Wake();
}

// kAborted: no request waits for it any more.
Status GrammarStore::TryCompile(SharedGrammar& grammar) {
  Status status;
  const GrammarCompiler* const compiler = Compiler(&status);
  if (compiler == nullptr) return status;
  const auto stops = [this, &grammar] { return stops_ || grammar.num_holders_ == 0; };
  std::string error;
  grammar.compiled_ = compiler->Compile(grammar.text_.text(), stops, &error);
  if (grammar.compiled_ != nullptr || !error.empty()) ++num_compiled_;
  if (grammar.compiled_ != nullptr) return status;
  if (error.empty()) return Status(StatusCode::kAborted, "no request waits for it");
  return InvalidArgumentError("the answer's form cannot be compiled: " + error);
}

const GrammarCompiler* GrammarStore::Compiler(Status* status) {
  std::lock_guard lock(compiler_mutex_);
  if (compiler_ == nullptr) {
    Result<std::unique_ptr<GrammarCompiler>> made = make_compiler_();
    if (!made.ok()) {
      *status = made.status();
      return nullptr;
    }
    compiler_ = std::move(*made);
  }
  return compiler_.get();
}

}  // namespace graft
