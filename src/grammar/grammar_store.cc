#include "grammar/grammar_store.h"

#include <optional>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace graft {
namespace {

// What an entry takes beside its grammar; failures have no more.
constexpr int64_t kEntryBytes = 1024;

}  // namespace

GrammarStore::GrammarStore(MakeCompiler make_compiler, const GrammarStoreOptions& options)
    : make_compiler_(std::move(make_compiler)), options_(options) {
  CHECK(options_.threads > 0 && options_.threads_of_one > 0);
}

GrammarStore::~GrammarStore() {
  {
    std::lock_guard lock(mutex_);
    stops_ = true;
  }
  work_came_.notify_all();
  for (std::thread& thread : threads_) thread.join();
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
    entries_.splice(entries_.begin(), entries_, found->second);
    // It need not wait for another tenant's turn.
    if (!found->second->grammar->is_begun_) {
      queue_.Push(tenant, {.key = key, .tenant = tenant, .grammar = found->second->grammar});
      work_came_.notify_one();
    }
    return std::shared_ptr<const SharedGrammar>(found->second->grammar);
  }
  auto grammar = std::make_shared<SharedGrammar>(text);
  entries_.push_front({.key = key, .grammar = grammar});
  by_key_[key] = entries_.begin();
  queue_.Push(tenant, {.key = key, .tenant = tenant, .grammar = grammar});
  if (threads_.empty()) {
    for (int i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { Work(); });
  }
  work_came_.notify_one();
  return std::shared_ptr<const SharedGrammar>(std::move(grammar));
}

void GrammarStore::SetWaker(std::function<void()> waker) {
  std::lock_guard lock(waker_mutex_);
  waker_ = std::move(waker);
}

bool GrammarStore::MayCompile(const std::string& tenant) const {
  const auto found = num_compiling_.find(tenant);
  return found == num_compiling_.end() || found->second < options_.threads_of_one;
}

// Under the lock. Null: it was begun by another's order, or nobody waits for it any more.
std::shared_ptr<SharedGrammar> GrammarStore::Begin(const Order& order) {
  std::shared_ptr<SharedGrammar> grammar = order.grammar.lock();
  if (grammar == nullptr || grammar->is_begun_) return nullptr;
  if (grammar.use_count() == 2) {  // the table's and this one
    entries_.erase(by_key_.at(order.key));
    by_key_.erase(order.key);
    return nullptr;
  }
  grammar->is_begun_ = true;
  return grammar;
}

void GrammarStore::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    std::optional<Order> order;
    work_came_.wait(lock, [&] {
      if (stops_) return true;
      order = queue_.TakeNext([this](const std::string& tenant) { return MayCompile(tenant); });
      return order.has_value();
    });
    if (stops_) return;
    const std::shared_ptr<SharedGrammar> grammar = Begin(*order);
    if (grammar == nullptr) continue;
    ++num_compiling_[order->tenant];
    lock.unlock();
    Compile(*grammar);
    Book(order->key, grammar);
    {
      std::lock_guard waker_lock(waker_mutex_);
      if (waker_) waker_();
    }
    lock.lock();
    if (--num_compiling_[order->tenant] == 0) num_compiling_.erase(order->tenant);
  }
}

void GrammarStore::Compile(SharedGrammar& grammar) {
  if (const GrammarCompiler* const compiler = Compiler(&grammar.status_)) {
    std::string error;
    grammar.compiled_ = compiler->Compile(grammar.text_.text(), &error);
    ++num_compiled_;
    if (grammar.compiled_ == nullptr) {
      grammar.status_ = InvalidArgumentError("the answer's form cannot be compiled: " + error);
    }
  }
  grammar.done_.store(true, std::memory_order_release);
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

// Without a compiler nothing is kept: there may be one the next time.
void GrammarStore::Book(const std::string& key, const std::shared_ptr<SharedGrammar>& grammar) {
  std::lock_guard lock(mutex_);
  const auto found = by_key_.find(key);
  CHECK(found != by_key_.end());
  const bool is_lasting =
      grammar->status_.ok() || grammar->status_.code() == StatusCode::kInvalidArgument;
  if (!is_lasting) {
    entries_.erase(found->second);
    by_key_.erase(found);
    return;
  }
  found->second->bytes = kEntryBytes + static_cast<int64_t>(grammar->text_.size()) +
                         (grammar->compiled_ == nullptr ? 0 : grammar->compiled_->bytes());
  bytes_ += found->second->bytes;
  Evict();
}

// Those that requests hold stay in memory anyway.
void GrammarStore::Evict() {
  for (auto it = entries_.end(); bytes_ > options_.bytes_max && it != entries_.begin();) {
    --it;
    if (it->bytes == 0 || it->grammar.use_count() > 1) continue;
    bytes_ -= it->bytes;
    by_key_.erase(it->key);
    it = entries_.erase(it);
  }
}

}  // namespace graft
