// RunnerChooser translates a frontend's requests and runners for placement: numbers for adapters,
// ids that are the same at every frontend, and the fleet as the runners reported it at the time of
// a choice. Its owner locks.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "cluster/remote_runners.h"
#include "placement/policy.h"
#include "request/request.h"

namespace graft {

class RunnerChooser {
 public:
  explicit RunnerChooser(const PlacementOptions& options);

  // A new request for an adapter of this rank (0: not known), as the calls below name it.
  PlacedRequest Arrive(const Request& request, int32_t rank, int64_t now_ns);
  // One of the runners with a 1 in `allowed`. kNoRunner: none, or it has to wait for room.
  int32_t Pick(std::span<const RemoteRunner> runners, std::span<const uint8_t> allowed,
               const PlacedRequest& request, int64_t now_ns);
  // Leaves those that are spare out of `allowed`, where another one has room.
  void LeaveSpareOut(std::span<const RemoteRunner> runners, const PlacedRequest& request,
                     std::vector<uint8_t>* allowed);
  // Leaves all out that have no room, or are spare.
  void KeepWithRoom(std::span<const RemoteRunner> runners, const PlacedRequest& request,
                    std::vector<uint8_t>* allowed);
  // As of the runners at the last choice or plan.
  const Fleet& fleet() const { return fleet_; }
  // Whether the runner's device is thought to hold the request's adapter.
  bool Holds(size_t runner, const PlacedRequest& request) const {
    return runner < fleet_.num_runners() && fleet_.Holds(runner, request.adapter);
  }
  // The number of runners thought to hold the content on their devices.
  int32_t NumHolders(const std::string& hash) const;
  // Whether a request that finds no room holds up those behind it.
  bool keeps_order() const { return policy_->keeps_order(); }

  void OnPlaced(size_t runner, const PlacedRequest& request) { fleet_.Place(runner, request); }
  void OnFirstToken(size_t runner, const PlacedRequest& request) { fleet_.Draw(runner, request); }
  void OnLeft(size_t runner, const PlacedRequest& request, bool has_drawn) {
    fleet_.Leave(runner, request, has_drawn);
  }
  void OnEnded(double seconds, size_t output_tokens) {
    fleet_.End(seconds, static_cast<int64_t>(output_tokens));
  }
  // The runner has gone, and another may come in its place. Its requests have left.
  void Forget(size_t runner);
  // What the runner's prefix cache has, as PrefixDigest::Read gives it.
  void SetPrefixes(size_t runner, std::span<const uint64_t> words);
  // Tokens of the request's prompt that the runner is thought to have cached.
  int32_t CachedTokensOn(size_t runner, const PlacedRequest& request) const {
    return fleet_.CachedTokensOn(runner, request);
  }
  // Adapters on its device, and those on their way there: all of them, or some.
  void SetResident(size_t runner, std::span<const std::string> hashes, bool is_whole,
                   std::span<const std::string> loading = {});
  // Once a second.
  void Plan(std::span<const RemoteRunner> runners, int64_t now_ns);

 private:
  int32_t NumberOf(const std::string& hash);
  std::vector<int32_t> NumbersOf(std::span<const std::string> hashes);
  std::vector<uint64_t> PrefixOf(const Request& request) const;
  void ForgetAdapters(int64_t now_ns);
  void SetNumRunners(size_t num_runners);
  void Look(std::span<const RemoteRunner> runners);

  Fleet fleet_;
  const std::unique_ptr<PlacementPolicy> policy_;
  std::unordered_map<std::string, int32_t> numbers_;  // by content hash
  std::vector<std::string> hashes_;                   // by number; "": the number is free
  std::vector<int32_t> free_;
  int32_t page_tokens_ = 0;             // of a runner; the others' pages are alike
  size_t looked_at_ = 0;                // numbers that ForgetAdapters has been through
  std::vector<std::string> addresses_;  // of the runners, as their ids were made
  // By runner, what SetResident last heard: on the device, "", on their way.
  std::vector<std::vector<std::string>> told_;
};

}  // namespace graft
