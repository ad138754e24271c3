// FairLine: the requests that wait, and which of them is next. Next is a request of the tenant that
// is furthest behind in virtual time (ServedTime), within the tenant of the key that is furthest
// behind, within the key of the greatest priority, and then the request that came first. With one
// tenant and one key this is the order of arrival. Invariant: a sequence has a line from Add until
// Leave; a line without requests is forgotten as soon as that changes nothing. Engine thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/sequence.h"
#include "engine/served_time.h"

namespace graft {

struct TenantLine;

// A key's requests.
struct KeyLine {
  using Waiting = std::deque<std::unique_ptr<Sequence>>;

  KeyLine(TenantLine& its_tenant, std::string its_id) : tenant(its_tenant), id(std::move(its_id)) {}

  TenantLine& tenant;
  const std::string id;
  Share share;
  Waiting waiting;  // in the order in which they are to begin
  // These are of the plan that is being made, if `plan` is its number.
  uint64_t plan = 0;
  std::vector<Sequence*> prefilling;  // that run, and may have rows of their prompts, oldest first
  size_t num_passed = 0;              // leading ones of `waiting` that were looked at in vain

  // The next sequence; null: none. Prompts that were begun go on before others begin, except others
  // of a greater priority.
  Sequence* Next(bool passes_waiting) const;
};

struct TenantLine {
  explicit TenantLine(std::string its_name) : name(std::move(its_name)) {}

  const std::string name;
  Share share;
  std::map<std::string, std::unique_ptr<KeyLine>> keys;
  ServedTime<KeyLine> key_time;
  uint64_t since = 0;  // the change by which its first request of those in flight came
  int32_t num_waiting = 0;
  int32_t num_with_adapters = 0;  // of those that wait
  // These are of the plan that is being made, if `plan` is its number.
  uint64_t plan = 0;
  int32_t num_prefilling = 0;
  int32_t num_rows = 0;
  int32_t num_looked_at = 0;        // in vain
  bool lacks_pages = false;         // a request with its adapter there does
  bool lacks_adapter_room = false;  // a request does
  int32_t num_decoding = 0;         // counted by GiveWay, and so are the next two
  int32_t num_going_on = 0;         // of these, while others give way
  int32_t num_pages = 0;            // of its sequences that run

  // Its place once the plan's rows are computed.
  double served() const { return share.served + num_rows / share.weight; }
};

class FairLine {
 public:
  using List = std::vector<std::unique_ptr<Sequence>>;

  // A request comes: it waits, in its line from now on. The line is that of its tenant and key.
  void Add(std::unique_ptr<Sequence> sequence);
  // A sequence that runs no more waits again.
  void PutBack(std::unique_ptr<Sequence> sequence);
  // It waits no more.
  std::unique_ptr<Sequence> Take(const Sequence& sequence);
  // All that wait and are meant, in order of arrival.
  List TakeIf(const std::function<bool(const Sequence&)>& is_meant);
  // The newest of a tenant's requests that wait and have drawn nothing; null: there is none.
  Sequence* NewestOf(const std::string& tenant) const;
  // The sequence, which does not wait, is gone for good.
  void Leave(Sequence& sequence);
  // It begins to run, or ends to.
  void CountRunning(Sequence& sequence, int32_t change);
  // The sequence was served so many tokens. Booked when tenants are to be compared: a step in which
  // no sequence begins or ends touches no line.
  void Charge(Sequence& sequence, int32_t tokens) {
    if (tokens == 0) return;
    if (sequence.num_unbooked == 0) {
      sequence.unbooked_idx = unbooked_.size();
      unbooked_.push_back(&sequence);
    }
    sequence.num_unbooked += tokens;
  }
  // The places of all tenants and keys in virtual time are right from here until the next Charge.
  void Book() const;

  size_t size() const { return num_waiting_; }
  bool empty() const { return num_waiting_ == 0; }
  // Looks at so many that wait, at most: as many of each tenant, and the next ones of its keys.
  void ForSome(int32_t num_max, const std::function<void(const Sequence&)>& use) const;
  // Requests that came, went, began or ended so far.
  uint64_t num_changes() const { return num_changes_; }
  // Tenants with requests, waiting or running. Those without are remembered while it matters.
  const std::vector<TenantLine*>& tenants() const { return time_.active(); }
  size_t num_tenants_known() const { return tenants_.size(); }
  bool AllOf(const std::function<bool(const Sequence&)>& holds) const;

  // A plan begins: no tenant has rows in it, no request was looked at.
  void BeginPlan() { ++plan_; }
  // Rows of the plan.
  void AddRows(const Sequence& sequence, int32_t num_rows);
  // A sequence that runs may have rows of its prompt. Oldest first.
  void OfferPrefill(Sequence& sequence);
  // The walk along the line, from the tenant that is furthest behind. Next returns each offered or
  // waiting sequence once in a plan. After Next the caller calls Take or Pass, or PassTenant for
  // all of the tenant. Without `has_place` (no batch slot is free) the walk passes tenants that
  // need a slot and may take none from another. A walk that is begun again in a plan goes on where
  // it was.
  void BeginWalk(bool has_place);
  Sequence* Next();
  void Pass(const Sequence& sequence);
  void PassTenant() { current_ = nullptr; }
  // From now on only those that were offered are next.
  void PassWaiting() { passes_waiting_ = true; }
  TenantLine& TenantOf(const Sequence& sequence) const { return InPlan(sequence.line->tenant); }

  // The tenant that may give a place among those that run to the taker: that which has most of them
  // for its weight. Null: none.
  const TenantLine* GiverOfPlace(const TenantLine& taker) const;
  // Whether there is one for any tenant that waits.
  bool CouldTakePlace() const;

  // Counts agree. For tests.
  Status CheckIntegrity() const;

 private:
  // A tenant's turn, by what it was when it was put there.
  struct Turn {
    double served = 0.0;
    double running = 0.0;
    uint64_t since = 0;
    TenantLine* tenant = nullptr;
  };
  static void BookOne(Sequence& sequence);
  static bool IsBehind(const Turn& a, const Turn& b);
  TenantLine& InPlan(TenantLine& tenant) const;
  KeyLine& InPlan(KeyLine& key) const;
  const TenantLine* Heaviest() const;
  Sequence* NextOf(TenantLine& tenant) const;
  void PutTurn(TenantLine& tenant);
  bool Withdraw(const Sequence& sequence);
  KeyLine& LineOf(const Sequence& sequence);
  void Insert(std::unique_ptr<Sequence> sequence);
  void NoteTaken(const Sequence& sequence);
  template <typename Parties, typename Time>
  static void ForgetPast(Parties& parties, const Time& time);

  std::unordered_map<std::string, std::unique_ptr<TenantLine>> tenants_;
  ServedTime<TenantLine> time_;
  size_t num_waiting_ = 0;
  uint64_t num_changes_ = 1;
  uint64_t plan_ = 1;
  std::vector<Turn> turns_;        // a heap
  TenantLine* current_ = nullptr;  // not in the heap
  bool passes_waiting_ = false;
  mutable std::vector<Sequence*> unbooked_;
  mutable const TenantLine* heaviest_ = nullptr;
  mutable bool heaviest_is_known_ = false;
};

}  // namespace graft
