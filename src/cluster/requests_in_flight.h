// A frontend's requests in flight, and where each of them is: it waits, or it is on a runner under
// a number that no other request ever has. If the placement policy keeps order, a request that
// waits for room on a runner is in the line, and younger requests may not pass it. Other waiting
// requests are not in the line. Each request takes one of `places_max` places, which tenants share.
// Invariants between the owner's calls: each request is on one runner or waits, those in the line
// wait, and each has one place of its tenant's. No locks: its owner has one.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "placement/fleet.h"
#include "request/adapter_series.h"
#include "request/request.h"
#include "request/tenant_places.h"
#include "request/token_stream.h"

namespace graft {

struct InFlight {
  static constexpr size_t kNowhere = static_cast<size_t>(-1);

  Request request;                      // output_tokens: drawn so far
  RequestId id;                         // the caller's id of it
  std::shared_ptr<TokenStream> stream;  // shared with its reader, which may end first
  int64_t accepted_ns = 0;
  std::string pool;  // arithmetic of what was drawn; "": nothing so far
  // Where its adapters lay when it was accepted; "": not known.
  std::vector<std::string> adapter_paths;
  bool is_cancelled = false;
  int32_t num_deaths = 0;       // of runners in steps that held it, and where it drew nothing
  std::string last_refusal;     // what the last runner said that did not go on with it
  std::vector<size_t> refused;  // runners without room, since it waits
  std::vector<size_t> lacking;  // runners that list its adapter and said that they cannot use it
  int64_t ask_lacking_ns = 0;   // when it asks these again if it has drawn; 0: none since it drew
  // Since when no runner takes it; 0: one did, or it waits for room alone.
  int64_t waiting_since_ns = 0;
  uint64_t round = 0;    // of its owner's, in which it was last looked at
  PlacedRequest placed;  // as the chooser knows it
  int64_t last_token_ns = 0;
  std::shared_ptr<const AdapterCounters> counters;  // with others of its adapter

  // RequestsInFlight alone changes these.
  uint64_t arrival = 0;  // how many came before it
  size_t runner = kNowhere;
  uint64_t number = 0;          // on its runner
  bool has_drawn_here = false;  // since it arrived there

  bool IsOnRunner() const { return runner != kNowhere; }
  // Prompt and what it has drawn.
  int64_t NumTokens() const {
    return std::ssize(request.prompt_tokens) + std::ssize(request.output_tokens);
  }
  // Prompt and output, if it goes on to its end.
  int64_t TokensMax() const {
    return std::ssize(request.prompt_tokens) + request.sampling.tokens_max;
  }
  // Runners that had no room may have some by now. A request that has drawn is not given up for its
  // adapter: runners that could not use it are asked again, after a while.
  void AskAgain(int64_t now_ns) {
    if (!pool.empty() && now_ns >= ask_lacking_ns) lacking.clear();
    refused = lacking;
  }
};

class RequestsInFlight {
 public:
  // By time of acceptance, then in the order of arrival.
  struct IsOlder {
    bool operator()(const InFlight* a, const InFlight* b) const {
      return std::tie(a->accepted_ns, a->arrival) < std::tie(b->accepted_ns, b->arrival);
    }
  };
  using ByAge = std::set<InFlight*, IsOlder>;

  explicit RequestsInFlight(int32_t places_max) : places_max_(places_max), places_(places_max) {}

  // Whether there is a place for the request. `giver`: it is the place of that one, which the
  // caller ends; null: none has to end.
  bool FindPlace(const Request& request, InFlight** giver);
  // See TenantPlaces.
  int32_t RetryAfterS(const std::string& tenant, double weight, int64_t now_ns) {
    return places_.RetryAfterS(tenant, weight, now_ns);
  }
  // Its id is no other's. It is neither on a runner nor does it wait: the next call is PutOn or
  // Wait.
  InFlight& Add(std::unique_ptr<InFlight> one, int64_t now_ns);
  // Takes it out of all; `gives_place`: another tenant takes its place at once.
  std::unique_ptr<InFlight> Remove(InFlight& one, bool gives_place, int64_t now_ns);

  // It waits no more, and has a new number on the runner.
  void PutOn(InFlight& one, size_t runner);
  // From its runner; as after Add.
  void TakeOff(InFlight& one);
  // It waits, or goes on to wait.
  void Wait(InFlight& one, int64_t now_ns);
  // A request that waits for room enters the line, and any may leave it. The time that it waits for
  // a runner begins anew, unless it has drawn and a runner could not use its adapter: such a
  // request would bounce between the line and that runner for ever.
  void EnterLine(InFlight& one) {
    line_.insert(&one);
    if (one.pool.empty() || one.ask_lacking_ns == 0) one.waiting_since_ns = 0;
  }
  void LeaveLine(InFlight& one) { line_.erase(&one); }
  // Its runner drew a token for it.
  void Draw(InFlight& one, int32_t token);
  // The runner is another by now, or lists other adapters: what it refused says nothing.
  void ForgetRefusals(size_t runner);
  void ForgetLacking(size_t runner);

  size_t size() const { return all_.size(); }
  // Null: there is none.
  InFlight* Find(RequestId id) const;
  // Null: it was moved, or has ended, since the runner said something of it.
  InFlight* FindOn(size_t runner, uint64_t number) const;
  // Oldest first.
  std::vector<InFlight*> AllOn(size_t runner) const;
  const ByAge& waiting() const { return waiting_; }
  const ByAge& line() const { return line_; }
  // No other one in line is older.
  bool GoesFirst(InFlight& one) const { return line_.empty() || !IsOlder()(*line_.begin(), &one); }

  // For tests. `num_on_runner`: how many are on each, of as many runners as it has.
  Status CheckIntegrity(std::vector<int64_t>* num_on_runner) const;

 private:
  Status CheckOne(const InFlight& one) const;
  bool IsUndrawn(const InFlight& one) const;
  void LeaveUndrawn(InFlight& one);

  const int32_t places_max_;
  TenantPlaces places_;
  std::unordered_map<RequestId, std::unique_ptr<InFlight>> all_;
  std::unordered_map<uint64_t, InFlight*> by_number_;  // those on runners
  // By tenant, requests that have drawn nothing; no set is empty.
  std::unordered_map<std::string, ByAge> undrawn_;
  ByAge waiting_;
  ByAge line_;
  uint64_t next_number_ = 1;
  uint64_t num_arrivals_ = 0;
};

}  // namespace graft
