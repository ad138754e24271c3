// The runners that a frontend has, each in a place that keeps its number for as long as the runner
// is listed or up. Invariant: a free place has no link and no requests; what is up has a link. No
// locks: see the owner.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cluster/remote_runner.h"

namespace graft {

class RemoteRunners {
 public:
  explicit RemoteRunners(const std::vector<std::string>& addresses);

  size_t size() const { return runners_.size(); }
  RemoteRunner& operator[](size_t idx) { return runners_[idx]; }
  const RemoteRunner& operator[](size_t idx) const { return runners_[idx]; }
  std::span<const RemoteRunner> all() const { return runners_; }

  // The runner's place, which it gets where it has none: references to runners may end.
  size_t PlaceFor(const std::string& address);
  // No runner is listed any more.
  void Unlist();
  // Those at these addresses are spare, and no others.
  void MarkSpare(const std::vector<std::string>& addresses);
  // No runner is up from now on, nor comes up again; the links are to be ended as those below.
  std::vector<std::unique_ptr<RunnerLink>> TakeAllLinks();
  // Links that are not needed any more; their runners are ending from now on. They are to be ended
  // outside the lock, since their threads may wait for it.
  std::vector<std::unique_ptr<RunnerLink>> TakeDeadLinks();
  // The runner's link has ended: its place is free, unless it was listed again meanwhile.
  void Forget(size_t idx);

  // kUnavailable with the reason of each runner, where none is up.
  Status WhyNoneIsUp() const;
  // Those of `own`, cut to what every runner that is up can do.
  GeneratorLimits LimitsOfAll(GeneratorLimits own) const;
  // Runners that are listed, or were and are in use.
  int32_t NumKnown() const;
  // Any of the pool has all of these adapters.
  bool AnyHas(const std::string& pool, std::span<const AdapterUse> adapters) const;
  // Addresses of the pool's runners that do not drain; the idlest first.
  std::vector<std::string> IdlestFirst(const std::string& pool) const;

  // `num_in_flight`: by runner, as the requests have it. For tests.
  Status CheckIntegrity(std::span<const int64_t> num_in_flight) const;

 private:
  std::vector<RemoteRunner> runners_;
};

}  // namespace graft
