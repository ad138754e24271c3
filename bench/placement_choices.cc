// How long a choice of a runner takes, by policy: clusters of 60 and of 1,000 runners, 40,000
// adapters that are asked for by Zipf's law. Each choice is a new request among as many as fill the
// runners by half; what it does to the index of adapters counts, too. Times are of the CPU: what
// others take of a busy machine does not count. With pages of prompts `auto` looks for prefixes:
// half of a prompt is its tenant's, half its adapter's, and runners have cached what those there
// brought. Naming the pages counts, what runners tell of their caches does not.
//
//   placement_choices [RUNNERS] [ADAPTERS] [CHOICES] [PAGES]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <vector>

#include "base/prefix_hash.h"
#include "base/random.h"
#include "placement/policy.h"

namespace graft {
namespace {

constexpr int32_t kBatchMax = 32;
constexpr int32_t kPageTokens = 16;
constexpr int64_t kSecondNs = 1'000'000'000;

double CpuMicroseconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

struct Settings {
  std::vector<size_t> runners = {60, 1000};
  int32_t adapters = 40'000;
  int choices = 20'000;
  int32_t pages = 0;  // of a prompt, whose prefixes are looked for
};

struct Live {
  size_t runner = 0;
  PlacedRequest request;
};

// Zipf's law by its inverse, as a continuous one: n^u is 1 for u = 0 and n for u = 1.
int32_t DrawAdapter(int32_t adapters, Random& random) {
  return static_cast<int32_t>(std::pow(adapters, random.Uniform())) - 1;
}

PlacedRequest DrawRequest(int32_t adapters, Random& random) {
  PlacedRequest request;
  request.adapter = DrawAdapter(adapters, random);
  request.adapter_id = RandomBits(7, static_cast<uint64_t>(request.adapter));
  request.rank = 8 << (request.adapter % 4);
  request.tenant = static_cast<uint64_t>(request.adapter % 100);
  request.prompt_tokens = 200;
  request.output_tokens_max = 400;
  return request;
}

// Half of the tokens are those of all requests of the tenant, half of the adapter.
std::vector<int32_t> PromptOf(const PlacedRequest& request, int32_t pages) {
  std::vector<int32_t> tokens(static_cast<size_t>(pages * kPageTokens), request.adapter);
  std::fill_n(tokens.begin(), tokens.size() / 2, static_cast<int32_t>(request.tenant));
  return tokens;
}

// As runners do once a second: what the requests there have brought.
void TellPrefixes(const std::deque<Live>& live, Fleet& fleet) {
  std::vector<std::vector<uint64_t>> words(fleet.num_runners());
  for (std::vector<uint64_t>& one : words) one.resize(kPrefixClassWords);
  for (const Live& one : live) {
    for (const uint64_t name : one.request.prefix) {
      words[one.runner][PrefixClass(name) / 64] |= uint64_t{1} << PrefixClass(name) % 64;
    }
  }
  for (size_t i = 0; i < words.size(); ++i) fleet.prefixes().Set(i, words[i]);
}

void Measure(const PlacementName& policy, size_t runners, const Settings& settings) {
  Random random(1);
  Fleet fleet;
  fleet.SetNumRunners(runners);
  for (size_t i = 0; i < runners; ++i) {
    fleet.runner(i) = {.id = RandomBits(9, i),
                       .is_open = true,
                       .batch_max = kBatchMax,
                       .adapters_max = 256,
                       .page_tokens = kPageTokens,
                       .pages_free = 1000};
  }
  PlacementOptions options;
  options.kind = policy.kind;
  const auto chooser = MakePlacementPolicy(options);
  const std::vector<uint8_t> allowed(runners, 1);
  std::deque<Live> live;
  std::vector<double> us;
  double longest_plan_ms = 0.0;
  const size_t num_live = runners * kBatchMax / 2;
  for (int64_t i = 0; us.size() < static_cast<size_t>(settings.choices); ++i) {
    const int64_t now_ns = i * kSecondNs / static_cast<int64_t>(num_live);
    PlacedRequest request = DrawRequest(settings.adapters, random);
    const bool looks = settings.pages > 0 && chooser->reads_prefixes();
    const std::vector<int32_t> prompt = PromptOf(request, looks ? settings.pages : 0);
    if (looks) request.prompt_tokens = static_cast<int32_t>(prompt.size()) + 1;
    if (i % static_cast<int64_t>(num_live) == 0) {
      const double begin_us = CpuMicroseconds();
      chooser->Plan(fleet);
      longest_plan_ms = std::max(longest_plan_ms, (CpuMicroseconds() - begin_us) / 1e3);
      if (looks) TellPrefixes(live, fleet);
    }
    const double begin_us = CpuMicroseconds();
    if (looks) {
      const uint64_t empty = EmptyPrefixName("", "", 0, kPageTokens);
      request.prefix = PrefixNames(empty, prompt, kPageTokens, kPrefixPagesMax);
    }
    chooser->OnArrival(request);
    fleet.Arrive(request.adapter, now_ns);
    const int32_t picked = chooser->Pick(fleet, {request, allowed, now_ns});
    if (picked != kNoRunner) {
      fleet.Place(static_cast<size_t>(picked), request);
      ++fleet.runner(static_cast<size_t>(picked)).num_requests;
    }
    const double took_us = CpuMicroseconds() - begin_us;
    if (live.size() >= num_live) us.push_back(took_us);
    if (picked != kNoRunner) live.push_back({static_cast<size_t>(picked), request});
    if (live.size() <= num_live) continue;
    fleet.Leave(live.front().runner, live.front().request, /*has_drawn=*/false);
    --fleet.runner(live.front().runner).num_requests;
    live.pop_front();
  }
  std::sort(us.begin(), us.end());
  double sum = 0.0;
  for (const double one : us) sum += one;
  std::printf("%-14s %8zu %10.2f %10.2f %10.2f %12.2f\n", policy.name, runners,
              sum / static_cast<double>(us.size()), us[us.size() / 2], us[us.size() * 99 / 100],
              longest_plan_ms);
}

}  // namespace
}  // namespace graft

int main(int argc, char** argv) {
  graft::Settings settings;
  if (argc > 1) settings.runners = {static_cast<size_t>(std::atoi(argv[1]))};
  if (argc > 2) settings.adapters = std::atoi(argv[2]);
  if (argc > 3) settings.choices = std::atoi(argv[3]);
  if (argc > 4) settings.pages = std::atoi(argv[4]);
  std::printf("%-14s %8s %10s %10s %10s %12s\n", "policy", "runners", "mean us", "P50 us", "P99 us",
              "plan ms, max");
  for (const size_t runners : settings.runners) {
    for (const graft::PlacementName& policy : graft::kPlacementNames) {
      graft::Measure(policy, runners, settings);
    }
  }
}
