// graft-bench exchange: sums of all ranks' numbers between GPUs, size by size: by kernels that read
// each other's memory, by NCCL moving and these kernels summing, and NCCL's own all-reduce beside
// them. Every way's sums are compared with those formed on the host, bit by bit where the order is
// ours.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/log.h"
#include "bench/bench_commands.h"
#include "kernels/rank_sum/rank_sum.h"
#include "layers/gpu_exchange.h"
#include "profile/report.h"
#include "tensor/cuda_graph.h"
#include "tensor/cuda_memory.h"
#include "tensor/nccl.h"
#include "tensor/shared_memory.h"

namespace graft {
namespace {

struct BenchExchangeOptions {
  DeviceChoice device;
  int threads = 0;
  int num_ranks = 2;
  std::vector<int> kib = {8, 32, 128, 512, 1024, 4096, 16'384, 65'536};
  int rounds = 9;
  std::string json;
};

constexpr int kSumsOfGraph = 20;
constexpr int64_t kTimeoutNs = 30'000'000'000;

// Numbers with a sum that depends on their order.
float Element(int32_t rank, int64_t i) {
  const float sizes[] = {1e8f, 1.0f, -1e8f, 3e-3f, 7.0f};
  return sizes[static_cast<size_t>(rank + i) % 5] *
         (1.0f + static_cast<float>((i * 31 + rank * 7) % 101) / 64.0f);
}

// One rank of the bench; all of them do the same.
class ExchangeRank {
 public:
  ExchangeRank(const BenchExchangeOptions& options, Communicator& communicator)
      : options_(options), communicator_(communicator) {}

  Status Run();
  const OrderedJson& figures() const { return figures_; }

 private:
  struct Way {
    std::string name;
    bool is_in_order = true;
    std::function<void(int64_t n)> sum;  // of parts into out_
    std::function<float*()> part;        // where the next one's part is read
  };

  Status AddPeers(const GpuExchangeLimits& limits);
  void AddNccl(const GpuExchangeLimits& limits);
  void AddExchange(std::string name, RankExchange& exchange);
  Result<double> Measure(const Way& way, int64_t n);
  Status Compare(const Way& way, int64_t n);

  const BenchExchangeOptions& options_;
  Communicator& communicator_;
  std::unique_ptr<OwnedStream> stream_;
  Buffer out_, ncclparts_;
  std::unique_ptr<RankExchange> peers_, moved_;
  std::unique_ptr<Nccl> nccl_;
  std::vector<Way> ways_;
  OrderedJson figures_ = OrderedJson::array();
};

void ExchangeRank::AddExchange(std::string name, RankExchange& exchange) {
  ways_.push_back({.name = std::move(name),
                   .sum =
                       [this, &exchange](int64_t n) {
                         exchange.Sum(n, /*accumulates=*/false, out_.as<float>(), stream_->get());
                       },
                   .part = [&exchange] { return exchange.part(); }});
}

// Where it is missing, there are no figures of it.
void ExchangeRank::AddNccl(const GpuExchangeLimits& limits) {
  const Device& device = stream_->get().device;
  Result<std::unique_ptr<RankExchange>> moved =
      MakeGpuExchange(communicator_, device, limits, RankTransport::kNccl);
  if (!moved.ok()) {
    if (communicator_.rank() == 0) std::printf("%s\n", moved.status().message().c_str());
    return;
  }
  moved_ = std::move(*moved);
  AddExchange("nccl moves", *moved_);
  nccl_ = std::move(Nccl::Join(communicator_, device).value());
  ncclparts_ = Buffer(out_.bytes(), device);
  ways_.push_back({.name = "nccl all-reduce",
                   .is_in_order = false,
                   .sum =
                       [this](int64_t n) {
                         nccl_->AllReduce(ncclparts_.as<float>(), out_.as<float>(), n,
                                          stream_->get());
                       },
                   .part = [this] { return ncclparts_.as<float>(); }});
}

Status ExchangeRank::AddPeers(const GpuExchangeLimits& limits) {
  ASSIGN_OR_RETURN(
      peers_, MakeGpuExchange(communicator_, stream_->get().device, limits, RankTransport::kPeer));
  AddExchange("peers", *peers_);
  return OkStatus();
}

// Microseconds of one of many in a row.
Result<double> ExchangeRank::Measure(const Way& way, int64_t n) {
  Stream& stream = stream_->get();
  way.sum(n);
  Synchronize(stream);
  CapturedGraph graph(stream, [&] {
    for (int i = 0; i < kSumsOfGraph; ++i) way.sum(n);
  });
  std::vector<double> us;
  const Device& device = stream.device;
  StreamEvent begin(device, true), end(device, true);
  for (int round = -2; round < options_.rounds; ++round) {
    RETURN_IF_ERROR(communicator_.Exchange());  // all begin at about the same time
    begin.Record(stream);
    graph.Launch(stream);
    end.Record(stream);
    end.Wait();
    const double ns = static_cast<double>(end.NsSince(begin));
    if (round >= 0) us.push_back(ns / kSumsOfGraph / 1e3);
  }
  return UpperMedian(std::move(us));
}

Status ExchangeRank::Compare(const Way& way, int64_t n) {
  Stream& stream = stream_->get();
  std::vector<float> values(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) values[i] = Element(communicator_.rank(), i);
  RETURN_IF_ERROR(communicator_.Exchange());
  if (peers_ != nullptr) peers_->Begin({}, stream);
  CopyToDevice(way.part(), values.data(), n * int64_t{sizeof(float)}, stream);
  way.sum(n);
  CopyFromDevice(values.data(), out_.data(), n * int64_t{sizeof(float)}, stream);
  Synchronize(stream);
  for (int64_t i = 0; i < n; ++i) {
    float sum = Element(0, i);
    for (int32_t rank = 1; rank < communicator_.num_ranks(); ++rank) sum += Element(rank, i);
    const double distance = std::abs(double{values[i]} - double{sum});
    if (way.is_in_order ? values[i] == sum : distance <= 64.0) continue;
    return InternalError(way.name + ": number " + std::to_string(i) + " of " + std::to_string(n) +
                         " is " + std::to_string(values[i]) + " instead of " + std::to_string(sum));
  }
  return OkStatus();
}

Status ExchangeRank::Run() {
  const Shard shard = {communicator_.rank(), communicator_.num_ranks()};
  ASSIGN_OR_RETURN(const Device device, PickRankDevice(options_.device, shard));
  if (device.is_cpu()) return FailedPreconditionError("exchanges between GPUs need GPUs");
  stream_ = std::make_unique<OwnedStream>(device, nullptr);
  const int64_t n_max = int64_t{*std::ranges::max_element(options_.kib)} * 1024 / 4;
  out_ = Buffer(n_max * int64_t{sizeof(float)}, device);
  const GpuExchangeLimits limits = {.part_floats = n_max, .tokens_max = 1024};
  RETURN_IF_ERROR(AddPeers(limits));
  AddNccl(limits);
  const bool prints = communicator_.rank() == 0;
  if (prints) {
    std::printf("%s and %d more\n%10s", DescribeDevice(device).c_str(), options_.num_ranks - 1,
                "KiB");
    for (const Way& way : ways_) std::printf(" %18s", (way.name + " us").c_str());
    std::printf("\n");
  }
  for (const int kib : options_.kib) {
    OrderedJson row = {{"kib", kib}};
    if (prints) std::printf("%10d", kib);
    for (const Way& way : ways_) {
      const int64_t n = int64_t{kib} * 1024 / 4;
      RETURN_IF_ERROR(Compare(way, n));
      ASSIGN_OR_RETURN(const double us, Measure(way, n));
      row[way.name] = us;
      if (prints) std::printf(" %18.2f", us);
    }
    if (prints) std::printf("\n");
    std::fflush(stdout);
    figures_.push_back(std::move(row));
  }
  peers_->CheckAfterStep();
  return OkStatus();
}

// Ends with the bench.
[[noreturn]] void RunOther(const BenchExchangeOptions& options, char* memory, int32_t rank) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Communicator communicator(memory, rank);
  const Status status = ExchangeRank(options, communicator).Run();
  if (!status.ok()) communicator.Break("rank " + std::to_string(rank) + ": " + status.message());
  _exit(status.ok() ? 0 : 1);
}

Status BenchExchange(const BenchExchangeOptions& options) {
  const CommunicatorLimits limits = {
      .num_ranks = options.num_ranks, .part_floats = 1024, .timeout_ns = kTimeoutNs};
  ASSIGN_OR_RETURN(const SharedMemory memory, SharedMemory::Create(Communicator::Bytes(limits)));
  Communicator::Format(limits, memory.data());
  Communicator communicator(memory.data(), 0);
  std::fflush(stdout);
  std::vector<pid_t> others;
  // Before anything wakes a GPU, which a forked process cannot use.
  for (int32_t rank = 1; rank < options.num_ranks; ++rank) {
    const pid_t other = fork();
    if (other < 0) return ResourceExhaustedError("cannot start rank " + std::to_string(rank));
    if (other == 0) RunOther(options, memory.data(), rank);
    communicator.SetProcess(rank, other);
    others.push_back(other);
  }
  ExchangeRank own(options, communicator);
  const Status status = own.Run();
  if (!status.ok()) communicator.Break(status.message());
  for (const pid_t other : others) waitpid(other, nullptr, 0);
  RETURN_IF_ERROR(status);
  return WriteJson(
      options.json,
      {{"machine", DescribeMachine()}, {"ranks", options.num_ranks}, {"rows", own.figures()}});
}

}  // namespace

Command BenchExchangeCommand() {
  const auto options = std::make_shared<BenchExchangeOptions>();  // lives as long as the command
  std::vector<Option> rows = DeviceOptionRows(options->device, options->threads);
  rows.push_back({"tensor-parallel", Number(options->num_ranks, Between(2, kGpuRanksMax)),
                  "ranks, one GPU each"});
  rows.push_back({"kib", Numbers(options->kib, Between(1, 1 << 20)), "sizes of a part, in turn"});
  rows.push_back({"rounds", Number(options->rounds, AtLeast(1)), "of each, of which the median"});
  rows.push_back(JsonOptionRow(options->json));
  return {.name = "exchange",
          .help = "Sums between the GPUs of several ranks, by their memory and by NCCL.",
          .groups = {{"Exchanges", std::move(rows)}},
          .run = [options] { return BenchExchange(*options); }};
}

}  // namespace graft
