#include "base/server_log.h"

#include <poll.h>
#include <spdlog/async.h>
#include <spdlog/formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/spdlog_level.h"
#include "base/start_notes.h"

namespace graft {
namespace {

using SteadyTime = std::chrono::steady_clock;

// A pipe that is writable takes so much without a wait.
constexpr size_t kPartBytes = 4096;
constexpr int kPollMs = 100;

const char* ColorOf(spdlog::level::level_enum level) {
  if (level >= spdlog::level::err) return "\033[31m\033[1m";
  return level == spdlog::level::warn ? "\033[33m\033[1m" : "\033[32m";
}

// Lines to a descriptor, with colours if that is a terminal. Waits for it to take them until it is
// told to hurry.
class DescriptorSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit DescriptorSink(int descriptor)
      : descriptor_(descriptor), has_colors_(::isatty(descriptor) == 1) {}

  // From `moment` on, what cannot be written at once is dropped.
  void HurryFrom(SteadyTime::time_point moment) { hurry_from_ = moment.time_since_epoch().count(); }
  int64_t num_dropped() const { return num_dropped_; }

  // Whether a flush was asked for and came to its turn after the `number`th.
  bool WaitForFlush(int64_t number, std::chrono::milliseconds limit) {
    std::unique_lock lock(flush_mutex_);
    return flushed_.wait_for(lock, limit, [&] { return num_flushes_ > number; });
  }
  int64_t num_flushes() {
    std::lock_guard lock(flush_mutex_);
    return num_flushes_;
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& line) override {
    spdlog::memory_buf_t formatted;
    formatter_->format(line, formatted);
    std::string text(formatted.data(), formatted.size());
    if (has_colors_ && line.color_range_end > line.color_range_start) {
      text.insert(line.color_range_end, "\033[m");
      text.insert(line.color_range_start, ColorOf(line.level));
    }
    if (!Write(text)) ++num_dropped_;
  }

  void flush_() override {
    std::lock_guard lock(flush_mutex_);
    ++num_flushes_;
    flushed_.notify_all();
  }

 private:
  bool Write(std::string_view text) {
    while (!text.empty()) {
      if (!WaitUntilWritable()) return false;
      const ssize_t bytes = ::write(descriptor_, text.data(), std::min(text.size(), kPartBytes));
      if (bytes < 0 && errno != EINTR && errno != EAGAIN) return false;
      if (bytes > 0) text.remove_prefix(static_cast<size_t>(bytes));
    }
    return true;
  }

  bool WaitUntilWritable() {
    pollfd entry{.fd = descriptor_, .events = POLLOUT, .revents = 0};
    while (true) {
      const bool hurries = SteadyTime::now().time_since_epoch().count() >= hurry_from_;
      const int ready = ::poll(&entry, 1, hurries ? 0 : kPollMs);
      if (ready > 0) return true;
      if (hurries || (ready < 0 && errno != EINTR)) return false;
    }
  }

  const int descriptor_;
  const bool has_colors_;
  std::atomic<int64_t> hurry_from_{SteadyTime::time_point::max().time_since_epoch().count()};
  std::atomic<int64_t> num_dropped_{0};
  std::mutex flush_mutex_;
  std::condition_variable flushed_;
  int64_t num_flushes_ = 0;
};

struct State {
  LogFormat format = LogFormat::kText;
  std::shared_ptr<DescriptorSink> sink;
  std::shared_ptr<spdlog::details::thread_pool> pool;
  std::shared_ptr<spdlog::logger> logger;
  std::shared_ptr<spdlog::logger> fields;               // for JSON
  std::vector<std::shared_ptr<spdlog::logger>> former;  // some thread may still be in one
  std::atomic<int64_t> num_lost{0};                     // by queues and sinks that are gone
};

// Never destroyed: threads may log until the process's last moment.
State& TheLog() {
  static State* state = new State();
  return *state;
}

// What is on the lines of `format` as the value of a field.
std::string FieldText(const OrderedJson& value) {
  if (!value.is_string()) return value.dump();
  std::string text = EscapeForLog(value.get<std::string>());
  const auto needs_quotes = [](char c) { return c == ' ' || c == '"' || c == '=' || c == '\\'; };
  if (!text.empty() && std::none_of(text.begin(), text.end(), needs_quotes)) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace

Result<std::unique_ptr<ServerLog>> ServerLog::Begin(const ServerLogOptions& options) {
  ASSIGN_OR_RETURN(const auto level, ParseSpdlogLevel(options.level));
  State& state = TheLog();
  CHECK(state.pool == nullptr) << "one ServerLog at a time";
  if (state.sink != nullptr) state.num_lost += state.sink->num_dropped();
  state.format = options.format;
  state.sink = std::make_shared<DescriptorSink>(options.descriptor);
  state.sink->set_formatter(MakeLogFormatter(state.format));
  state.pool = std::make_shared<spdlog::details::thread_pool>(options.lines_waiting_max, 1);
  const auto make = [&](const char* name) {
    auto logger = std::make_shared<spdlog::async_logger>(
        name, state.sink, state.pool, spdlog::async_overflow_policy::overrun_oldest);
    logger->set_level(level);
    return logger;
  };
  state.logger = make("graft");
  state.fields = make(kFieldsLogger);
  spdlog::set_default_logger(state.logger);
  for (const std::string& note : TakeStartNotes()) LOG_WARN("{}", note);
  return std::unique_ptr<ServerLog>(new ServerLog(options.end_limit));
}

ServerLog::~ServerLog() {
  State& state = TheLog();
  state.sink->HurryFrom(SteadyTime::now() + end_limit_);
  const auto level = state.logger->level();
  state.former.insert(state.former.end(), {state.logger, state.fields});
  state.logger = std::make_shared<spdlog::logger>("graft", state.sink);
  state.fields = std::make_shared<spdlog::logger>(kFieldsLogger, state.sink);
  state.logger->set_level(level);
  state.fields->set_level(level);
  spdlog::set_default_logger(state.logger);
  const auto pool = std::exchange(state.pool, nullptr);
  state.num_lost += static_cast<int64_t>(pool->overrun_counter());
}  // the pool's end writes, or drops, what waits

void ServerLog::Flush(std::chrono::milliseconds limit) {
  State& state = TheLog();
  if (state.pool == nullptr) return;
  const int64_t number = state.sink->num_flushes();
  state.logger->flush();
  state.sink->WaitForFlush(number, limit);
}

int64_t ServerLog::num_dropped() {
  const State& state = TheLog();
  int64_t count = state.num_lost;
  if (state.sink != nullptr) count += state.sink->num_dropped();
  if (state.pool != nullptr) count += static_cast<int64_t>(state.pool->overrun_counter());
  return count;
}

bool ServerLog::is_there() { return TheLog().sink != nullptr; }

bool ServerLog::is_json() {
  const State& state = TheLog();
  return state.logger != nullptr && state.format == LogFormat::kJson &&
         state.logger->level() != spdlog::level::off;
}

void LogFields(LogLevel log_level, std::string_view what, const OrderedJson& fields) {
  const spdlog::level::level_enum level = SpdlogLevel(log_level);
  spdlog::logger& logger = *spdlog::default_logger_raw();
  if (!logger.should_log(level)) return;
  const State& state = TheLog();
  if (state.fields != nullptr && state.format == LogFormat::kJson) {
    OrderedJson line = {{"message", what}};
    line.update(fields);
    const std::string object =
        line.dump(-1, ' ', /*ensure_ascii=*/true, OrderedJson::error_handler_t::replace);
    state.fields->log(level, spdlog::string_view_t(object.data() + 1, object.size() - 2));
    return;
  }
  std::string text(what);
  for (const auto& [name, value] : fields.items()) text += " " + name + "=" + FieldText(value);
  logger.log(level, spdlog::string_view_t(text));
}

}  // namespace graft
