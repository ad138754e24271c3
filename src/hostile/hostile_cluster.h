// HostileCluster: a cluster among faults, by a virtual clock. RunnerSets, placement and engines are
// real. The network delays, cuts and breaks streams, and runners and frontends die, stop, go on,
// drain and are slow. Everything is drawn from one seed, and the same seed gives the same run. One
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cluster/runner_set.h"
#include "hostile/defect.h"
#include "hostile/event_loop.h"
#include "hostile/findings.h"
#include "hostile/hostile_link.h"
#include "hostile/hostile_network.h"
#include "hostile/hostile_runner.h"

namespace graft {

struct HostileResult {
  std::string found;  // what did not hold; "": all did
  uint64_t hash = 0;  // of all that happened
  std::vector<std::string> lines;
};

struct HostileOptions {
  uint64_t seed = 1;
  bool keeps_lines = false;  // of all that happens
  Defect defect = Defect::kNone;
};

class HostileCluster {
 public:
  explicit HostileCluster(const HostileOptions& options);
  ~HostileCluster();
  // Until all requests have ended and nothing is left of them; once.
  HostileResult Run();

 private:
  struct RunnerMachine {
    HostileRunnerOptions options;
    std::unique_ptr<HostileRunner> runner;  // null: none runs
    std::string address;
    int64_t num_runs = 0;
    bool has_power = true;
  };
  struct FrontendMachine {
    std::unique_ptr<SimProcess> process;  // null: none runs
    std::unique_ptr<RunnerSet> set;
    std::vector<std::weak_ptr<DeathLedger>> links;  // of all that it ever had
  };
  struct Client {
    Request request;
    size_t frontend = 0;
    std::shared_ptr<TokenStream> stream;        // shared with the frontend
    std::vector<std::vector<int32_t>> answers;  // by arithmetic; empty: it is not that one
    size_t num_tokens = 0;
    bool is_submitted = false;
    bool is_cancelled = false;
    bool has_ended = false;
    int32_t num_deaths = 0;
    std::weak_ptr<DeathLedger> asked;  // of the runner that was asked last
  };
  // How a process ends: what it wrote arrives, or it is lost, or no other process hears of the end.
  enum class Ending : uint8_t { kWritten, kReset, kPower };

  int64_t Draw(int64_t below) {
    return static_cast<int64_t>(random_.Below(static_cast<uint64_t>(below)));
  }
  void DrawCluster();
  void StartRunner(size_t runner);
  void EndRunner(size_t runner, Ending ending);
  void StartFrontend(size_t frontend);
  void EndFrontend(size_t frontend, Ending ending);
  void TickFrontend(size_t frontend);
  std::shared_ptr<SimStream> Call(int32_t frontend, const std::string& address);
  void List(const std::string& address, bool is_there);
  void TellRunners(size_t frontend);
  void Arrive();
  void Submit(int32_t key);
  void CancelSome(int32_t key);
  void OnSubmitted(const Request& request, const std::shared_ptr<DeathLedger>& runner);
  void OnDeath(int32_t key);
  void ReadClients();
  void Read(Client& client, const TokenEvent& event);
  void EndClient(Client& client, const TokenEvent& event);
  bool IsOffered(const Client& client) const;
  void CheckFrontends();
  void CheckEnd();
  // In hostile_faults.cc.
  void Fault();
  void StopAny(bool of_frontends);
  void CutAny();
  void SlowAny();
  void DrainAny();
  void SwitchAny();
  void EndAny(bool of_frontends);
  void Heal();

  const HostileOptions options_;
  Random random_;
  EventLoop loop_;
  Findings findings_;
  HostileNetwork network_;
  SimAdapters adapters_;
  PlacementKind placement_ = PlacementKind::kMostIdle;
  int64_t arrival_every_ns_ = 0;
  bool consolidates_ = false;
  // Runners come to other addresses each time, and frontends hear of them from a list, as etcd's.
  bool lists_runners_ = false;
  std::set<std::string> listed_;
  std::vector<std::string> spare_;  // as the first frontend has it, which leads
  bool is_healed_ = false;
  int32_t num_arithmetics_ = 1;
  std::vector<RunnerMachine> runners_;
  std::vector<FrontendMachine> frontends_;
  uint64_t num_frontends_ = 0;                    // that ever ran
  std::vector<std::unique_ptr<Client>> clients_;  // by key
  std::vector<int32_t> ready_;                    // clients with events in their streams
  std::set<int32_t> poison_;
  std::set<int32_t> open_;  // clients that have not ended
};

}  // namespace graft
