#include "runtime/rank_processes.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "base/fault.h"
#include "base/log.h"
#include "executor/rank_worker.h"
#include "model/shard.h"
#include "runtime/runtime.h"
#include "tensor/host_memory.h"

namespace graft {
namespace {

// What the terminal, or a supervisor that signals all processes of a service, means for the server:
// rank 0 takes it, and the others end with that.
void LeaveSignalsToServer() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) signal(number, SIG_IGN);
}

Status ServeShard(const RuntimeOptions& options, const std::string& model_shape,
                  Communicator& communicator, std::span<char> host_memory) {
  ASSIGN_OR_RETURN(const std::unique_ptr<LoadedModel> model,
                   LoadShard(options, model_shape, communicator));
  return RankWorker::Serve({.communicator = communicator,
                            .exchange = *model->exchange,
                            .model = model->config,
                            .weights = model->weights,
                            .stream = model->stream,
                            .host_memory = host_memory});
}

// Its words are rank 0's to say.
[[noreturn]] void RunRank(const RuntimeOptions& options, const std::string& shape, char* memory,
                          int32_t rank, std::span<char> host_memory, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  const std::string name = "rank " + std::to_string(rank);
  prctl(PR_SET_NAME, ("graft " + name).c_str());
  LeaveSignalsToServer();
  Communicator communicator(memory, rank);
  Status status = InitLog("off");
  try {
    if (status.ok()) status = ServeShard(options, shape, communicator, host_memory);
  } catch (const std::bad_alloc& error) {
    status = ResourceExhaustedError(std::string("memory ran out (") + error.what() + ")");
  }
  communicator.Break(name + ": " + status.message());
  _exit(1);
}

std::string EndOf(int32_t rank, const siginfo_t& end) {
  const std::string who =
      "rank " + std::to_string(rank) + " (process " + std::to_string(end.si_pid) + ")";
  if (end.si_code == CLD_EXITED) return who + " ended with " + std::to_string(end.si_status);
  return who + " was killed by signal " + std::to_string(end.si_status) + " (" +
         strsignal(end.si_status) + ")";
}

}  // namespace

Result<std::unique_ptr<RankProcesses>> RankProcesses::Start(const RuntimeOptions& options,
                                                            const std::string& shape) {
  std::unique_ptr<RankProcesses> ranks;
  if (options.ranks.num_ranks == 1) return ranks;
  RETURN_IF_ERROR(CheckOptions(options));
  ranks.reset(new RankProcesses);
  RETURN_IF_ERROR(ranks->Prepare(options, shape));
  for (int32_t rank = 1; rank < options.ranks.num_ranks; ++rank) {
    RETURN_IF_ERROR(ranks->Fork(options, shape, rank));
  }
  for (int32_t rank = 1; rank < options.ranks.num_ranks; ++rank) {
    ranks->watching_.emplace_back([&ranks = *ranks, rank] { ranks.Watch(rank); });
  }
  return ranks;
}

Status RankProcesses::Prepare(const RuntimeOptions& options, const std::string& model_shape) {
  ASSIGN_OR_RETURN(const ModelConfig config, ReadModelShape(options, model_shape));
  CommunicatorLimits communicator = options.ranks;
  const int32_t num_ranks = communicator.num_ranks;
  RETURN_IF_ERROR(CheckRanks(config, num_ranks).WithContext("--tensor-parallel"));
  const ModelConfig shard = ShardConfig(config, num_ranks);
  const ServedShape shape = {.config = shard,
                             .types = TypesOf(ServingDType(config, options.dtype, {})),
                             .device = {},
                             .num_ranks = num_ranks};
  const ExecutorLimits limits = ExecutorLimitsOf(options, shape, /*lora=*/true);
  communicator.part_floats = PartFloatsOf(TransformerLimitsOf(options, limits), config, num_ranks);
  ASSIGN_OR_RETURN(memory_, SharedMemory::Create(Communicator::Bytes(communicator)));
  Communicator::Format(communicator, memory_.data());
  communicator_ = std::make_unique<Communicator>(memory_.data(), 0);
  // How much of it will be used is chosen later; parts that are never touched take no memory.
  const int64_t host_bytes =
      options.host_gib < 0.0 ? TotalHostBytes() : GibToBytes(options.host_gib);
  ASSIGN_OR_RETURN(host_memory_, SharedMemory::Create(HostStore::SharedBytes(host_bytes)));
  return OkStatus();
}

Status RankProcesses::Fork(const RuntimeOptions& options, const std::string& shape, int32_t rank) {
  const pid_t parent = getpid();
  const std::span<char> host_memory(host_memory_.data(), static_cast<size_t>(host_memory_.bytes()));
  const pid_t process = fork();
  if (process < 0) return SystemError(errno, "cannot start rank " + std::to_string(rank));
  if (process == 0) RunRank(options, shape, memory_.data(), rank, host_memory, parent);
  processes_.push_back(process);
  communicator_->SetProcess(rank, process);
  return OkStatus();
}

void RankProcesses::Watch(int32_t rank) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  const pid_t process = processes_[static_cast<size_t>(rank) - 1];
  siginfo_t end = {};
  // Its number stays its own until it is waited for.
  while (waitid(P_PID, static_cast<id_t>(process), &end, WEXITED | WNOWAIT) != 0 &&
         errno == EINTR) {
  }
  if (is_stopping_) return;
  communicator_->Break(EndOf(rank, end));
  if (is_serving_) EndRank(0, communicator_->state());
}

RankProcesses::~RankProcesses() {
  is_stopping_ = true;
  for (const pid_t process : processes_) kill(process, SIGKILL);
  for (std::thread& thread : watching_) thread.join();
  for (const pid_t process : processes_) {
    while (waitpid(process, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

}  // namespace graft
