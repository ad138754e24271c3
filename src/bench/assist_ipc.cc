#include "bench/assist_ipc.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "assist/assist_exchange.h"
#include "assist/assist_profile.h"
#include "assist/assist_worker.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/thread_pool.h"
#include "kernels/host_exchange/host_exchange.h"
#include "profile/report.h"
#include "tensor/dtype.h"
#include "tensor/shared_memory.h"

namespace graft {
namespace {

// One adapter's q, k and v of a layer and the rows to compute for; forked workers inherit them.
class LayerWork {
 public:
  LayerWork(const ModelConfig& config, int32_t rows, int32_t rank) : rows_(rows), rank_(rank) {
    Random random(1);
    for (const LoraModule module : ModulesOfProjection(LoraModule::kQ)) {
      const LoraModuleShape shape = ShapeOfLoraModule(config, module);
      k_ = shape.in;
      slice_begin_[num_slices_] = columns_;
      slice_n_[num_slices_] = shape.out;
      columns_ += shape.out;
      std::vector<Bfloat16>& weights = weights_[num_slices_];
      weights.resize(static_cast<size_t>((shape.in + shape.out) * rank));
      for (Bfloat16& one : weights)
        one = FromFloat<Bfloat16>(0.01f * static_cast<float>(random.Uniform()));
      for (int32_t j = 0; j < rank; ++j) tables_[num_slices_].push_back(&weights[j * shape.in]);
      const Bfloat16* const b = weights.data() + rank * shape.in;
      for (int32_t j = 0; j < rank; ++j) tables_[num_slices_].push_back(b + j * shape.out);
      ++num_slices_;
    }
    x_.resize(static_cast<size_t>(rows * k_));
    for (Bfloat16& one : x_) one = FromFloat<Bfloat16>(static_cast<float>(random.Uniform()));
    delta_.resize(static_cast<size_t>(rows * columns_));
  }

  AssistLimits LimitsFor(int32_t num_workers) const {
    return {.rows_max = rows_,
            .x_row_bytes = x_row_bytes(),
            .delta_columns = columns_,
            .num_workers = num_workers};
  }
  // Rows [begin, end) are worker i's: [share_begin[i], share_begin[i + 1]).
  int32_t Split(int32_t num_workers, int32_t* share_begin) const {
    const AssistPart part{rows_, {.fixed_us = 0.0, .row_us = 1.0}};
    return SplitRows({&part, 1}, num_workers, share_begin);
  }
  // Without segments there is nothing to compute.
  void Fill(bool computes, AssistJob* job) const {
    job->dtype = DType::kBF16;
    job->x_is_fp32 = false;
    job->k = k_;
    job->delta_columns = columns_;
    job->num_slices = num_slices_;
    std::copy(slice_begin_, slice_begin_ + kLoraSlicesMax, job->slice_begin);
    std::copy(slice_n_, slice_n_ + kLoraSlicesMax, job->slice_n);
    job->num_segments = computes ? 1 : 0;
    AssistJob::Segment& segment = job->segments[0];
    segment = {};
    segment.row_end = rows_;
    int32_t num_places = 0;
    for (int32_t s = 0; s < num_slices_; ++s) {
      segment.rank[s] = rank_;
      segment.places_begin[s] = num_places;
      for (const void* row : tables_[s]) {
        job->places[num_places++] = reinterpret_cast<uintptr_t>(row);
      }
    }
  }
  // What a worker does for rows of x.
  void Compute(const char* x, int32_t num_rows, float* delta, float* h, Stream& stream) const {
    std::fill(delta, delta + num_rows * columns_, 0.0f);
    const LoraSegment segment{0, num_rows, 0};
    LoraMatrix matrices[kLoraSlicesMax];
    for (int32_t s = 0; s < num_slices_; ++s) {
      matrices[s] = {tables_[s].data(), tables_[s].data() + rank_, rank_, 1.0f};
    }
    LoraArgs args{.dtype = DType::kBF16,
                  .segments = &segment,
                  .num_segments = 1,
                  .matrices = matrices,
                  .matrices_stride = num_slices_,
                  .num_slices = num_slices_,
                  .x = x,
                  .x_stride = k_,
                  .k = k_,
                  .h = h,
                  .h_stride = rank_,
                  .num_rows = num_rows,
                  .y = delta,
                  .y_stride = columns_};
    std::copy(slice_begin_, slice_begin_ + kLoraSlicesMax, args.slice_begin);
    std::copy(slice_n_, slice_n_ + kLoraSlicesMax, args.slice_n);
    Lora(args, stream);
  }

  int32_t rows() const { return rows_; }
  int64_t k() const { return k_; }
  int64_t columns() const { return columns_; }
  int64_t h_floats() const { return int64_t{num_slices_} * rows_ * rank_; }
  int64_t x_row_bytes() const { return k_ * int64_t{sizeof(Bfloat16)}; }
  const char* x() const { return reinterpret_cast<const char*>(x_.data()); }
  int64_t delta_bytes() const { return rows_ * columns_ * int64_t{sizeof(float)}; }
  // Where answers that come by sockets end.
  float* delta() { return delta_.data(); }

 private:
  const int32_t rows_, rank_;
  int64_t k_ = 0, columns_ = 0;
  int32_t num_slices_ = 0;
  int64_t slice_begin_[kLoraSlicesMax] = {}, slice_n_[kLoraSlicesMax] = {};
  std::vector<Bfloat16> weights_[kLoraSlicesMax], x_;
  std::vector<const void*> tables_[kLoraSlicesMax];  // rows of A, then of B^T
  std::vector<float> delta_;
};

// Forks; the child runs `work` and ends.
template <typename Function>
pid_t Fork(const Function& work) {
  const pid_t child = fork();
  CHECK_GE(child, 0) << std::strerror(errno);
  if (child > 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  work();
  _exit(0);
}

void WaitForAll(const std::vector<pid_t>& children) {
  for (const pid_t child : children) waitpid(child, nullptr, 0);
}

double MedianUs(int repeats, const std::function<void()>& run) {
  constexpr int kWarmups = 5;
  std::vector<double> times;
  for (int i = -kWarmups; i < repeats; ++i) {
    const int64_t begin_ns = SteadyClock::Get().NowNs();
    run();
    if (i >= 0) times.push_back(static_cast<double>(SteadyClock::Get().NowNs() - begin_ns) * 1e-3);
  }
  return UpperMedian(std::move(times));
}

// As the CPU assist does it.
class SharedWorkers {
 public:
  static Result<std::unique_ptr<SharedWorkers>> Start(const LayerWork& work, int32_t num_workers) {
    ASSIGN_OR_RETURN(SharedMemory memory,
                     SharedMemory::Create(AssistExchange::Bytes(work.LimitsFor(num_workers))));
    return std::unique_ptr<SharedWorkers>(new SharedWorkers(work, num_workers, std::move(memory)));
  }
  ~SharedWorkers() {
    exchange_.Stop();
    WaitForAll(children_);
  }

  void RoundTrip(bool computes) {
    const uint32_t number = exchange_.NextNumber(0);
    AssistJob& job = exchange_.Prepare(number);
    work_.Fill(computes, &job);
    const int32_t num_shares = work_.Split(exchange_.limits().num_workers, job.share_begin);
    exchange_.Post(number, num_shares);
    HostExportArgs args{.rows = {},
                        .x = work_.x(),
                        .x_stride = work_.k(),
                        .k = work_.k(),
                        .dtype = DType::kBF16,
                        .out = exchange_.x(),
                        .flag = exchange_.exported(),
                        .step = number,
                        .num_done = nullptr};
    args.rows.count = 1;
    args.rows.segments[0].row_end = work_.rows();
    HostExport(args, stream_);
    HostWait({.flags = exchange_.answered(),
              .flag_stride = AssistExchange::kFlagStride,
              .num_flags = num_shares,
              .step = number},
             stream_);
  }
  const float* delta() const { return exchange_.delta(); }

 private:
  SharedWorkers(const LayerWork& work, int32_t num_workers, SharedMemory memory)
      : work_(work),
        memory_(std::move(memory)),
        exchange_(work.LimitsFor(num_workers), memory_.data()) {
    for (int32_t i = 0; i < num_workers; ++i) {
      children_.push_back(Fork([&] {
        AssistExchange theirs(memory_.data());
        AssistWorker(theirs, i, nullptr).Serve();
      }));
    }
  }

  const LayerWork& work_;
  SharedMemory memory_;
  AssistExchange exchange_;
  std::vector<pid_t> children_;
  ThreadPool alone_{1};
  Stream stream_{.device = {}, .cpu_threads = &alone_};
};

// All of it, or the other end is gone.
bool Send(int socket, const void* data, int64_t bytes) {
  for (const char* from = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t sent = send(socket, from, static_cast<size_t>(bytes), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    from += sent;
    bytes -= sent;
  }
  return true;
}

bool Receive(int socket, void* data, int64_t bytes) {
  for (char* to = static_cast<char*>(data); bytes > 0;) {
    const ssize_t received = recv(socket, to, static_cast<size_t>(bytes), 0);
    if (received <= 0) return false;
    to += received;
    bytes -= received;
  }
  return true;
}

// The rows of each worker's share go through a socket of its own, and so do its answers.
class SocketWorkers {
 public:
  SocketWorkers(LayerWork& work, int32_t num_workers) : work_(work) {
    num_shares_ = work_.Split(num_workers, share_begin_);
    for (int32_t i = 0; i < num_shares_; ++i) {
      int ends[2];
      CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0) << std::strerror(errno);
      children_.push_back(Fork([&] {
        for (const int socket : sockets_) close(socket);
        close(ends[0]);
        Serve(ends[1], share_begin_[i + 1] - share_begin_[i]);
      }));
      close(ends[1]);
      sockets_.push_back(ends[0]);
    }
  }
  ~SocketWorkers() {
    for (const int socket : sockets_) close(socket);
    WaitForAll(children_);
  }

  void RoundTrip(bool computes) {
    for (int32_t i = 0; i < num_shares_; ++i) {
      const char what = computes ? 1 : 0;
      CHECK(Send(sockets_[i], &what, 1) &&
            Send(sockets_[i], work_.x() + share_begin_[i] * work_.x_row_bytes(),
                 (share_begin_[i + 1] - share_begin_[i]) * work_.x_row_bytes()));
    }
    for (int32_t i = 0; i < num_shares_; ++i) {
      CHECK(Receive(
          sockets_[i], work_.delta() + share_begin_[i] * work_.columns(),
          (share_begin_[i + 1] - share_begin_[i]) * work_.columns() * int64_t{sizeof(float)}));
    }
  }

 private:
  void Serve(int socket, int32_t num_rows) {
    ThreadPool alone(1);
    Stream stream{.device = {}, .cpu_threads = &alone};
    std::vector<char> x(static_cast<size_t>(num_rows * work_.x_row_bytes()));
    std::vector<float> delta(static_cast<size_t>(num_rows * work_.columns()));
    std::vector<float> h(static_cast<size_t>(work_.h_floats()));
    const auto bytes = static_cast<int64_t>(delta.size() * sizeof(float));
    for (char computes = 0; Receive(socket, &computes, 1);) {
      if (!Receive(socket, x.data(), static_cast<int64_t>(x.size()))) return;
      if (computes != 0) work_.Compute(x.data(), num_rows, delta.data(), h.data(), stream);
      if (!Send(socket, delta.data(), bytes)) return;
    }
  }

  LayerWork& work_;
  int32_t num_shares_ = 0;
  int32_t share_begin_[kHostFlagsMax + 1] = {};
  std::vector<int> sockets_;
  std::vector<pid_t> children_;
};

}  // namespace

Result<OrderedJson> RunAssistIpc(const ModelConfig& config, const AssistIpcOptions& options) {
  LayerWork work(config, options.rows, options.rank);
  std::printf(
      "q, k and v of a layer, rank %d, %d rows: microseconds from the rows being there to all "
      "answers being there\n%8s %28s %28s\n%8s %13s %14s %13s %14s\n",
      options.rank, options.rows, "", "shared memory", "UNIX domain sockets", "workers", "",
      "hand-off alone", "", "hand-off alone");
  OrderedJson rows = OrderedJson::array();
  for (const int num_workers : options.workers) {
    double us[4] = {};
    ASSIGN_OR_RETURN(const std::unique_ptr<SharedWorkers> shared,
                     SharedWorkers::Start(work, num_workers));
    us[0] = MedianUs(options.repeats, [&] { shared->RoundTrip(true); });
    const std::string answer(reinterpret_cast<const char*>(shared->delta()),
                             static_cast<size_t>(work.delta_bytes()));
    us[1] = MedianUs(options.repeats, [&] { shared->RoundTrip(false); });
    SocketWorkers sockets(work, num_workers);
    us[2] = MedianUs(options.repeats, [&] { sockets.RoundTrip(true); });
    if (std::memcmp(answer.data(), work.delta(), answer.size()) != 0) {
      return InternalError("shared memory and sockets brought different answers");
    }
    us[3] = MedianUs(options.repeats, [&] { sockets.RoundTrip(false); });
    std::printf("%8d %13.0f %14.0f %13.0f %14.0f\n", num_workers, us[0], us[1], us[2], us[3]);
    std::fflush(stdout);
    rows.push_back({{"workers", num_workers},
                    {"shared_us", us[0]},
                    {"shared_handoff_us", us[1]},
                    {"socket_us", us[2]},
                    {"socket_handoff_us", us[3]}});
  }
  return rows;
}

}  // namespace graft
