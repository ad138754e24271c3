#include "sim/sim_frontend.h"

#include "base/random.h"

namespace graft {

void SimFrontend::Equip(size_t runner, bool is_open) {
  fleet_.Reset(runner);
  fleet_.runner(runner) = {.id = RandomBits(seed_, runner),
                           .is_open = is_open,
                           .batch_max = runner_.limits.sequences_max,
                           .adapters_max = runner_.limits.adapters_max,
                           .page_tokens = runner_.limits.page_tokens,
                           .pages_free = runner_.limits.num_pages,
                           .num_pages = runner_.limits.num_pages};
  pages_sent_[runner] = 0;
}

void SimFrontend::Look(size_t runner, int64_t num_requests, int64_t pages_free) {
  RunnerState& state = fleet_.runner(runner);
  state.num_requests = num_requests;
  state.pages_free = pages_free - pages_sent_[runner];
  state.pages_used = runner_.limits.num_pages - pages_free;
}

void SimFrontend::Arrive(const PlacedRequest& request, int64_t now_ns) {
  policy_->OnArrival(request);
  fleet_.Arrive(request.adapter, now_ns);
}

void SimFrontend::Place(size_t runner, const PlacedRequest& request) {
  fleet_.Place(runner, request);
  RunnerState& state = fleet_.runner(runner);
  ++state.num_requests;
  const int64_t pages =
      (request.prompt_tokens + runner_.limits.page_tokens - 1) / runner_.limits.page_tokens;
  pages_sent_[runner] += pages;
  state.pages_free -= pages;
}

void SimFrontend::Leave(size_t runner, const PlacedRequest& request, bool has_drawn) {
  fleet_.Leave(runner, request, has_drawn);
  --fleet_.runner(runner).num_requests;
}

}  // namespace graft
