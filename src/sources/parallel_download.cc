#include "sources/parallel_download.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/thread_name.h"

namespace graft {
namespace {

constexpr auto kProgressEvery = std::chrono::milliseconds(200);
constexpr int kWholeTriesMax = 2;
// Eight threads of 10 would together weigh as much as one that serves.
constexpr int kYieldingNice = 19;

// A file and what all threads know of it.
struct FileState {
  explicit FileState(DownloadedFile downloaded) : file(std::move(downloaded)) {}

  DownloadedFile file;
  std::mutex mutex;
  // Where the first server sends for the bytes; asked directly until it refuses, so that a file of
  // many parts is not looked up for each.
  std::optional<WebUrl> elsewhere;
  int num_begun = 0;  // parts handed out, in order
  int num_open = 0;   // parts not finished
  int num_tries = 1;
};

class Download {
 public:
  Download(std::vector<DownloadedFile> files, const DownloadOptions& options) : options_(options) {
    for (DownloadedFile& file : files) {
      const PartFile& parts = *file.file;
      auto state = std::make_unique<FileState>(std::move(file));
      for (int part = 0; part < parts.num_parts(); ++part) {
        total_bytes_ += parts.PartEnd(part) - parts.PartBegin(part);
      }
      done_bytes_ += parts.done_bytes();
      states_.push_back(std::move(state));
    }
  }

  Status Run();

 private:
  struct Task {
    FileState* state = nullptr;
    int part = 0;
  };

  void Work();
  Status WorkOn(WebConnection& connection, WebPatience& patience);
  std::optional<Task> Take();
  Status FetchPart(const Task& task, WebConnection& connection, WebPatience& patience);
  Result<int64_t> FetchRange(const Task& task, int64_t begin, WebConnection& connection,
                             std::optional<int64_t>* asked_ns);
  Status CheckAnswer(const Task& task, const WebAnswer& answer, int64_t begin) const;
  Status Finish(const Task& task);
  void Fail(const Status& status);
  bool IsStopped() const;

  const DownloadOptions& options_;
  std::vector<std::unique_ptr<FileState>> states_;
  std::atomic<int64_t> done_bytes_{0};
  int64_t total_bytes_ = 0;
  std::atomic<bool> is_stopped_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  Status status_;
  int num_working_ = 0;
  int num_tasks_out_ = 0;
};

bool Download::IsStopped() const {
  return is_stopped_.load() ||
         (options_.web.is_cancelled != nullptr && options_.web.is_cancelled->load());
}

void Download::Fail(const Status& status) {
  std::lock_guard lock(mutex_);
  if (status_.ok()) status_ = status;
  is_stopped_.store(true);
  changed_.notify_all();
}

// The next part that no thread has. Waits while parts under way may have to be fetched anew.
std::optional<Download::Task> Download::Take() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (IsStopped()) return std::nullopt;
    for (const auto& state : states_) {
      std::lock_guard state_lock(state->mutex);
      const PartFile& file = *state->file.file;
      while (state->num_begun < file.num_parts() && file.IsDone(state->num_begun)) {
        ++state->num_begun;
      }
      if (state->num_begun == file.num_parts()) continue;
      ++num_tasks_out_;
      return Task{state.get(), state->num_begun++};
    }
    if (num_tasks_out_ == 0) return std::nullopt;
    changed_.wait_for(lock, kProgressEvery);
  }
}

Status Download::CheckAnswer(const Task& task, const WebAnswer& answer, int64_t begin) const {
  const std::string what = task.state->file.name + ": " + answer.url.ForPeople();
  if (answer.status == 206) {
    const std::string range = answer.Header("content-range");
    if (range.starts_with("bytes " + std::to_string(begin) + "-")) return OkStatus();
    return UnavailableError(what + " sent another range than was asked for");
  }
  // A server that knows no ranges sends the whole; that is of use where the whole was wanted.
  if (answer.status == 200 && begin == 0 && task.state->file.file->num_parts() == 1) {
    return OkStatus();
  }
  if (IsPassingStatus(answer.status)) {
    return UnavailableError(what + " answered " + std::to_string(answer.status));
  }
  if (answer.status == 200) return FailedPreconditionError(what + " answers no ranges");
  if (answer.status == 412) {
    return Status(StatusCode::kAborted, what + " was replaced meanwhile; fetch it again");
  }
  const bool is_refused = answer.status == 401 || answer.status == 403 || answer.status == 404;
  return Status(is_refused ? StatusCode::kPermissionDenied : StatusCode::kFailedPrecondition,
                what + " answered " + std::to_string(answer.status));
}

// Returns the byte up to which the part is there. A failure that may pass is told by
// `*asked_ns` having a value, or by the next byte being before the part's end.
Result<int64_t> Download::FetchRange(const Task& task, int64_t begin, WebConnection& connection,
                                     std::optional<int64_t>* asked_ns) {
  PartFile& file = *task.state->file.file;
  const int64_t end = file.PartEnd(task.part);
  WebOrder order = task.state->file.order;
  bool is_elsewhere = false;
  {
    std::lock_guard lock(task.state->mutex);
    is_elsewhere = task.state->elsewhere.has_value();
    if (is_elsewhere) {
      WebUrl url = *task.state->elsewhere;
      order = WebOrder{.url = std::move(url)};
    }
  }
  order.begin = begin;
  order.end = end;
  int64_t at = begin;
  const auto sink = [&](const WebAnswer& head, std::string_view bytes) -> Status {
    if (at == begin) RETURN_IF_ERROR(CheckAnswer(task, head, begin));
    if (is_stopped_.load()) return CancelledError("the fetch was ended");
    if (std::ssize(bytes) > end - at) {
      return DataLossError(task.state->file.name + " is longer than its listing says");
    }
    RETURN_IF_ERROR(file.Write(at, bytes));
    at += std::ssize(bytes);
    done_bytes_ += std::ssize(bytes);
    return OkStatus();
  };
  const Result<WebAnswer> answer = connection.Ask(order, sink);
  if (!answer.ok()) {
    // What came before the cut counts.
    if (at > begin && answer.status().code() == StatusCode::kUnavailable) return at;
    // The first server may know of another one by now.
    std::lock_guard lock(task.state->mutex);
    if (is_elsewhere) task.state->elsewhere.reset();
    return answer.status();
  }
  if (is_elsewhere && answer->status >= 400 && !IsPassingStatus(answer->status)) {
    // A signed address that has run out: ask the first server for another.
    std::lock_guard lock(task.state->mutex);
    task.state->elsewhere.reset();
    return at;
  }
  *asked_ns = AskedWaitNs(*answer, UnixTimeSeconds());
  RETURN_IF_ERROR(CheckAnswer(task, *answer, begin));
  if (answer->is_redirected) {
    std::lock_guard lock(task.state->mutex);
    task.state->elsewhere = answer->url;
  }
  return at;
}

Status Download::FetchPart(const Task& task, WebConnection& connection, WebPatience& patience) {
  const PartFile& file = *task.state->file.file;
  int64_t at = file.PartBegin(task.part);
  while (at < file.PartEnd(task.part)) {
    std::optional<int64_t> asked_ns;
    const Result<int64_t> next = FetchRange(task, at, connection, &asked_ns);
    if (next.ok() && *next > at) {
      at = *next;
      patience.OnProgress();
      continue;
    }
    const Status failure =
        next.ok() ? UnavailableError(task.state->file.name + ": no byte came") : next.status();
    RETURN_IF_ERROR(patience.WaitAfter(failure, asked_ns));
  }
  return OkStatus();
}

Status Download::Finish(const Task& task) {
  FileState& state = *task.state;
  const Status finished = state.file.file->FinishPart(task.part);
  if (finished.code() == StatusCode::kDataLoss) {
    std::lock_guard lock(state.mutex);
    if (++state.num_tries > kWholeTriesMax) return finished.WithContext("twice");
    state.num_begun = 0;
    state.elsewhere.reset();
    for (int part = 0; part < state.file.file->num_parts(); ++part) {
      done_bytes_ -= state.file.file->PartEnd(part) - state.file.file->PartBegin(part);
    }
    return OkStatus();
  }
  return finished;
}

Status Download::WorkOn(WebConnection& connection, WebPatience& patience) {
  while (const std::optional<Task> task = Take()) {
    Status status = FetchPart(*task, connection, patience);
    if (status.ok()) status = Finish(*task);
    {
      std::lock_guard lock(mutex_);
      --num_tasks_out_;
      changed_.notify_all();
    }
    RETURN_IF_ERROR(status);
  }
  return OkStatus();
}

void Download::Work() {
  NameThread("fetch");
  if (options_.yields) setpriority(PRIO_PROCESS, 0, kYieldingNice);  // 0: this thread
  WebOptions web = options_.web;
  web.is_cancelled = &is_stopped_;
  Result<std::unique_ptr<WebConnection>> connection = WebConnection::Open(std::move(web));
  Status status = connection.status();
  if (connection.ok()) {
    WebPatience patience(options_.patience, &is_stopped_);
    status = WorkOn(**connection, patience);
  }
  if (!status.ok()) Fail(status);
  std::lock_guard lock(mutex_);
  --num_working_;
  changed_.notify_all();
}

Status Download::Run() {
  int64_t num_parts = 0;
  for (const auto& state : states_) num_parts += state->file.file->num_parts();
  const auto num_threads =
      static_cast<int>(std::clamp<int64_t>(num_parts, 0, options_.connections_max));
  num_working_ = num_threads;
  std::vector<std::thread> threads;
  for (int i = 0; i < num_threads; ++i) threads.emplace_back([this] { Work(); });
  {
    std::unique_lock lock(mutex_);
    while (num_working_ > 0) {
      changed_.wait_for(lock, kProgressEvery);
      if (options_.web.is_cancelled != nullptr && options_.web.is_cancelled->load()) {
        is_stopped_.store(true);
      }
      if (!options_.on_progress) continue;
      lock.unlock();
      options_.on_progress(std::clamp<int64_t>(done_bytes_.load(), 0, total_bytes_), total_bytes_);
      lock.lock();
    }
  }
  for (std::thread& thread : threads) thread.join();
  if (!status_.ok()) return status_;
  if (options_.web.is_cancelled != nullptr && options_.web.is_cancelled->load()) {
    return CancelledError("the fetch was cancelled");
  }
  return OkStatus();
}

}  // namespace

Status DownloadAll(std::vector<DownloadedFile> files, const DownloadOptions& options) {
  return Download(std::move(files), options).Run();
}

}  // namespace graft
