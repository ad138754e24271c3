// DeathLedger: what a frontend should count, computed again from the messages of one link alone:
// the requests that its runner has, and those of them that a death counts against, because the
// runner's step held them and they had drawn nothing there. It also tracks which adapters the
// runner reports. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "request/request.h"
#include "rpc/protocol.h"
#include "rpc/runner.pb.h"

namespace graft {

class DeathLedger {
 public:
  // The runner has no requests. `tells_steps`: it tells which ones its steps hold; else any may be.
  void Clear(bool tells_steps) {
    *this = {};
    tells_steps_ = tells_steps;
  }
  void OnWelcome(const rpc::Welcome& welcome) {
    Clear(welcome.protocol() >= kProtocolWithSteps);
    List(welcome.adapters());
  }
  void OnSubmit(const Request& request) {
    requests_[request.id.number] = {request.prompt_tokens.back(), false};
  }
  void OnCancel(uint64_t number) { requests_.erase(number); }
  void OnMessage(const rpc::RunnerMessage& message) {
    for (const rpc::RequestEvents& events : message.events()) {
      const auto it = requests_.find(events.number());
      if (it == requests_.end()) continue;
      for (const rpc::TokenEvent& event : events.events()) {
        if (event.token() >= 0) it->second.has_drawn = true;
        if (event.finish_reason() == 0) continue;
        if (event.status().code() == kNotFound) lacks_for_.insert(it->second.key);
        requests_.erase(it);
        break;
      }
    }
    if (message.has_step()) {
      in_step_ = {message.step().undrawn().begin(), message.step().undrawn().end()};
    }
    if (!message.has_state()) return;
    is_draining_ |= message.state().draining();
    if (message.state().has_adapters()) List(message.state().adapters().adapters());
  }
  // It could be asked for the request: it lists the adapter, and has not said since that it is not
  // there.
  bool Offers(const std::string& adapter_hash, int32_t key) const {
    return !is_draining_ && adapters_.contains(adapter_hash) && !lacks_for_.contains(key);
  }
  // The keys of those that a death now counts against.
  std::set<int32_t> Charged() const {
    std::set<int32_t> charged;
    for (const auto& [number, one] : requests_) {
      const bool may_be_in_step = !tells_steps_ || in_step_.contains(number);
      if (!is_draining_ && !one.has_drawn && may_be_in_step) charged.insert(one.key);
    }
    return charged;
  }
  bool is_draining() const { return is_draining_; }
  bool tells_steps() const { return tells_steps_; }
  // The keys of all that the runner has.
  std::set<int32_t> Sent() const {
    std::set<int32_t> sent;
    for (const auto& [number, one] : requests_) sent.insert(one.key);
    return sent;
  }

 private:
  static constexpr auto kNotFound = static_cast<uint32_t>(StatusCode::kNotFound);

  struct OnRunner {
    int32_t key = -1;  // the prompt's last token
    bool has_drawn = false;
  };
  template <typename Adapters>
  void List(const Adapters& adapters) {
    adapters_.clear();
    lacks_for_.clear();
    for (const rpc::Adapter& adapter : adapters) adapters_.insert(adapter.hash());
  }

  std::set<std::string> adapters_;  // hashes
  std::set<int32_t> lacks_for_;     // keys of requests that it has since ended for want of them
  std::map<uint64_t, OnRunner> requests_;
  std::set<uint64_t> in_step_;
  bool tells_steps_ = true;
  bool is_draining_ = false;
};

}  // namespace graft
