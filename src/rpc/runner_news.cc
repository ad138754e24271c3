#include "rpc/runner_news.h"

#include <utility>

#include "rpc/adapter_proto.h"
#include "rpc/runner_figures_proto.h"
#include "rpc/token_event_proto.h"

namespace graft {
namespace {

std::optional<HeldAdapters> HeldOf(const rpc::RunnerState& state) {
  if (!state.has_held()) return std::nullopt;
  const rpc::HeldAdapters& held = state.held();
  return HeldAdapters{.resident = {held.resident().begin(), held.resident().end()},
                      .loading = {held.loading().begin(), held.loading().end()},
                      .is_whole = held.is_whole()};
}

void TellState(const rpc::RunnerState& state, size_t runner, RunnerListener* listener) {
  if (state.has_adapters()) {
    listener->OnAdapters(runner, FromProto(state.adapters().adapters()));
  }
  listener->OnState(runner,
                    {.requests_waiting = state.requests_waiting(),
                     .requests_running = state.requests_running(),
                     .pages_free = state.pages_free(),
                     .figures = FromProto(state.figures()),
                     .prefixes = {state.prefixes().begin(), state.prefixes().end()},
                     .held = HeldOf(state)},
                    state.draining());
}

}  // namespace

RunnerFacts FactsOf(const rpc::Welcome& welcome) {
  RunnerFacts facts;
  facts.protocol = welcome.protocol();
  facts.base = {.name = welcome.base().name(),
                .text_hash = welcome.base().text_hash(),
                .weights_hash = welcome.base().weights_hash()};
  facts.arithmetic_id = welcome.arithmetic_id();
  facts.limits = {.context_tokens_max = welcome.context_tokens_max(),
                  .vocab_size = welcome.vocab_size(),
                  .requests_max = welcome.requests_max()};
  facts.page_tokens = welcome.page_tokens();
  facts.batch_max = welcome.batch_max();
  facts.adapters_max = welcome.adapters_max();
  facts.num_pages = welcome.num_pages();
  facts.startup_ms = welcome.startup_ms();
  facts.instance = welcome.instance();
  facts.has_prefix_cache = !welcome.without_prefix_cache();
  facts.adapters = FromProto(welcome.adapters());
  return facts;
}

void TellListener(const rpc::RunnerMessage& message, size_t runner, RunnerListener* listener) {
  for (const rpc::RequestEvents& events : message.events()) {
    std::vector<TokenEvent> taken;
    taken.reserve(static_cast<size_t>(events.events_size()));
    for (const rpc::TokenEvent& event : events.events()) taken.push_back(FromProto(event));
    listener->OnEvents(runner, events.number(), std::move(taken));
  }
  if (message.has_step()) {
    const auto& undrawn = message.step().undrawn();
    listener->OnStep(runner, {undrawn.begin(), undrawn.end()});
  }
  if (message.has_state()) TellState(message.state(), runner, listener);
  for (const uint64_t number : message.evicted()) listener->OnEvicted(runner, number);
}

}  // namespace graft
