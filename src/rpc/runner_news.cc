#include "rpc/runner_news.h"

#include <utility>

#include "rpc/adapter_proto.h"
#include "rpc/request_proto.h"

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
  facts.base = FromProto(welcome.base());
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

rpc::RunnerFigures ToProto(const RunnerFigures& figures) {
  rpc::RunnerFigures proto;
  proto.set_pages_free(figures.pages_free);
  proto.set_pages_cached(figures.pages_cached);
  proto.set_pages_referenced(figures.pages_referenced);
  proto.set_pages_adapters(figures.pages_adapters);
  proto.set_adapters_resident(figures.adapters_resident);
  proto.set_step_sequences(figures.step_sequences);
  proto.set_step_adapters(figures.step_adapters);
  proto.set_step_prompt_rows(figures.step_prompt_rows);
  proto.set_step_decode_rows(figures.step_decode_rows);
  proto.set_steps(figures.steps);
  proto.set_prompt_tokens(figures.prompt_tokens);
  proto.set_output_tokens(figures.output_tokens);
  proto.set_preemptions(figures.preemptions);
  proto.set_adapter_copies(figures.adapter_copies);
  proto.set_adapter_evictions(figures.adapter_evictions);
  return proto;
}

RunnerFigures FromProto(const rpc::RunnerFigures& proto) {
  RunnerFigures figures;
  figures.pages_free = proto.pages_free();
  figures.pages_cached = proto.pages_cached();
  figures.pages_referenced = proto.pages_referenced();
  figures.pages_adapters = proto.pages_adapters();
  figures.adapters_resident = proto.adapters_resident();
  figures.step_sequences = proto.step_sequences();
  figures.step_adapters = proto.step_adapters();
  figures.step_prompt_rows = proto.step_prompt_rows();
  figures.step_decode_rows = proto.step_decode_rows();
  figures.steps = proto.steps();
  figures.prompt_tokens = proto.prompt_tokens();
  figures.output_tokens = proto.output_tokens();
  figures.preemptions = proto.preemptions();
  figures.adapter_copies = proto.adapter_copies();
  figures.adapter_evictions = proto.adapter_evictions();
  return figures;
}

rpc::BaseModel ToProto(const BaseModelId& base) {
  rpc::BaseModel proto;
  proto.set_name(base.name);
  proto.set_text_hash(base.text_hash);
  proto.set_weights_hash(base.weights_hash);
  return proto;
}

BaseModelId FromProto(const rpc::BaseModel& proto) {
  return {
      .name = proto.name(), .text_hash = proto.text_hash(), .weights_hash = proto.weights_hash()};
}

}  // namespace graft
