#include "profile/served_costs.h"

#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <thread>
#include <utility>

#include "base/fault.h"
#include "base/local_processes.h"
#include "base/random.h"
#include "profile/load_generator.h"
#include "profile/report.h"

namespace graft {
namespace {

constexpr std::chrono::seconds kUpMax(120);
constexpr std::chrono::milliseconds kUpPoll(20);
constexpr int kDownPatienceS = 20;
// The pause before a measurement: a runner that has slept finds its weights in none of the caches,
// and its threads have to be woken.
constexpr std::chrono::milliseconds kServedIdle(100);
constexpr int kServedTries = 10;  // further ones
constexpr std::chrono::seconds kServedRefused(1);
// So many requests of each kind at least are timed in a round.
constexpr int kServedTimes = 6;
// A folder that is gone with its owner.
class ScratchFolder {
 public:
  Status Make() {
    std::string name = (std::filesystem::temp_directory_path() / "graft-profile-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) return SystemError(errno, "cannot make " + name);
    path_ = name;
    return OkStatus();
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string LastLineOf(const std::string& path) {
  std::ifstream file(path);
  std::string line, last;
  while (std::getline(file, line)) {
    if (!line.empty()) last = line;
  }
  return last;
}

// A server alone; or runners, a frontend of all, and one of the first.
class ServedRunners {
 public:
  explicit ServedRunners(const ServedCostsOptions& options) : options_(options) {}
  ~ServedRunners() { EndProcesses(processes_, kDownPatienceS); }

  Status Start() {
    RETURN_IF_ERROR(folder_.Make());
    if (options_.num_runners == 1) return StartOne("serve", options_.runner_arguments, "--port");
    std::string all;
    for (int i = 0; i < options_.num_runners; ++i) {
      RETURN_IF_ERROR(StartOne("runner", options_.runner_arguments, "--rpc-port"));
      all += (i == 0 ? "" : ",") + ("127.0.0.1:" + std::to_string(ports_.back()));
    }
    ports_.clear();
    for (const std::string& runners : {all, all.substr(0, all.find(','))}) {
      RETURN_IF_ERROR(
          StartOne("frontend", {"--runners", runners, "--placement=most-idle"}, "--port"));
    }
    return OkStatus();
  }

  uint16_t port_of_one() const { return ports_.back(); }
  uint16_t port_of_all() const { return ports_.front(); }

 private:
  // Until it listens.
  Status StartOne(const std::string& command, const std::vector<std::string>& further,
                  const std::string& port_flag) {
    ASSIGN_OR_RETURN(const int port, FindFreePort());
    std::vector<std::string> arguments = {"/proc/self/exe",      command,   "--model",
                                          options_.model,        port_flag, std::to_string(port),
                                          "--request-log=false", "--quiet", "--log-level=warn"};
    arguments.insert(arguments.end(), further.begin(), further.end());
    const std::string name = command + "-" + std::to_string(processes_.size());
    const std::string log = folder_.path() + "/" + name + ".log";
    ASSIGN_OR_RETURN(const LocalProcess process, StartProcess(name, arguments, log));
    processes_.push_back(process);
    ports_.push_back(static_cast<uint16_t>(port));
    const auto end = std::chrono::steady_clock::now() + kUpMax;
    while (!Listens(port)) {
      if (!IsAlive(process)) {
        return UnavailableError("graft " + command + " has ended: " + LastLineOf(log) +
                                "; --serve-runners 0 times the executor alone");
      }
      if (std::chrono::steady_clock::now() > end) {
        return DeadlineExceededError("graft " + command + " does not listen after " +
                                     std::to_string(kUpMax.count()) + " s: " + LastLineOf(log));
      }
      std::this_thread::sleep_for(kUpPoll);
    }
    return OkStatus();
  }

  const ServedCostsOptions& options_;
  ScratchFolder folder_;
  std::vector<LocalProcess> processes_;
  std::vector<uint16_t> ports_;
};

// As a frontend calls it.
std::string NameOf(const std::string& model) {
  return std::filesystem::weakly_canonical(model).filename().string();
}

// Times of one kind, a round after the other.
using Samples = std::map<int, std::vector<double>>;

class ServedProfile {
 public:
  ServedProfile(const ServedCostsOptions& options, const CostModel& costs, uint16_t port_of_one,
                uint16_t port_of_all)
      : options_(options),
        costs_(costs),
        one_(ViaHttp(port_of_one, NameOf(options.model))),
        all_(ViaHttp(port_of_all, NameOf(options.model))),
        random_(options.seed) {}

  Status Run() {
    // All runners are asked once before anything is timed.
    RETURN_IF_ERROR(Ask(one_, 1, kServedPrompt, kServedOutput).status());
    RETURN_IF_ERROR(Ask(all_, options_.num_runners, kServedPrompt, kServedOutput).status());
    for (int round = 0; round < options_.rounds; ++round) RETURN_IF_ERROR(RunRound());
    return OkStatus();
  }

  ServedMeasurement Fit() const;

 private:
  Status RunRound() {
    for (const int prompt : options_.prompts) {
      for (int i = 0; i < kServedTimes; ++i) {
        ASSIGN_OR_RETURN(const auto timings, Ask(all_, 1, prompt, kServedFirst));
        first_ms_[prompt].push_back(timings.front().first_token_ms);
      }
    }
    for (const int batch : options_.batches) {
      for (int i = 0; i < kServedTimes; i += batch) {
        ASSIGN_OR_RETURN(const auto timings, Ask(one_, batch, kServedPrompt, kServedOutput));
        for (const LoadTiming& one : timings) rows_ms_[batch].push_back(one.token_ms);
      }
    }
    const int prompt = *std::ranges::max_element(options_.prompts);
    for (int i = 0; i < kServedTimes; i += options_.num_runners) {
      for (int busy = 1; busy <= options_.num_runners; ++busy) {
        ASSIGN_OR_RETURN(const auto decodes, Ask(all_, busy, kServedPrompt, kServedOutput));
        for (const LoadTiming& one : decodes) decode_ms_[busy].push_back(one.token_ms);
        ASSIGN_OR_RETURN(const auto prompts, Ask(all_, busy, prompt, 1));
        for (const LoadTiming& one : prompts) prompt_ms_[busy].push_back(one.first_token_ms);
      }
    }
    return OkStatus();
  }

  // So many requests of the base model, all at once, each by a connection of its own, after a while
  // in which nothing was to do.
  Result<std::vector<LoadTiming>> Ask(const RunRequest& run, int count, int32_t prompt_tokens,
                                      int32_t output_tokens) {
    std::vector<LoadRequest> requests(static_cast<size_t>(count));
    for (LoadRequest& request : requests) {
      request.output_tokens = output_tokens;
      for (int32_t i = 0; i < prompt_tokens; ++i) {
        request.prompt_tokens.push_back(
            static_cast<int32_t>(random_.Below(static_cast<uint64_t>(options_.vocab_size))));
      }
    }
    // A runner of a busy machine may fall silent for a moment. Requests are refused until its
    // frontend hears it again, and those are asked once more.
    for (int tries_left = kServedTries;; --tries_left) {
      std::this_thread::sleep_for(kServedIdle);
      LoadResult result = RunLoad(requests, count, run);
      Status failed;
      for (const LoadTiming& timing : result.requests) {
        if (failed.ok()) failed = timing.status;
      }
      if (failed.ok()) return std::move(result.requests);
      if (failed.code() != StatusCode::kUnavailable || tries_left == 0) {
        return failed.WithContext("a request that is timed");
      }
      std::this_thread::sleep_for(kServedRefused);
    }
  }

  std::vector<double> SlownessOf(const Samples& samples, double unslowed_ms) const;

  const ServedCostsOptions& options_;
  const CostModel& costs_;
  const RunRequest one_, all_;
  Random random_;
  Samples first_ms_;               // by prompt
  Samples rows_ms_;                // a token, by requests at one runner
  Samples decode_ms_, prompt_ms_;  // by busy runners
};

// What does not get longer is left out.
std::vector<double> ServedProfile::SlownessOf(const Samples& samples, double unslowed_ms) const {
  std::vector<double> slowness;
  const double alone = UpperMedian(samples.at(1));
  const double alone_ms = std::max(alone - unslowed_ms, 0.1 * alone);
  for (const auto& [busy, ms] : samples) {
    slowness.push_back(std::max(1.0, (UpperMedian(ms) - unslowed_ms) / alone_ms));
  }
  return slowness;
}

ServedMeasurement ServedProfile::Fit() const {
  ServedMeasurement made;
  std::vector<double> beyond_ms;
  for (const auto& [prompt, ms] : first_ms_) {
    StepWork work;
    work.Add(0, prompt, 0);
    const double executor_ms = costs_.ExecutorMs(work);
    made.figures.push_back(
        {"first token of a prompt of " + std::to_string(prompt), UpperMedian(ms), executor_ms});
    beyond_ms.push_back(made.figures.back().ms - executor_ms);
  }
  const double first_token_ms = UpperMedian(beyond_ms);
  made.costs.first_token_ms = std::max(0.0, first_token_ms);
  const int first_batch = rows_ms_.begin()->first;
  double first_ms = 0.0, products = 0.0, squares = 0.0;
  for (const auto& [batch, ms] : rows_ms_) {
    StepWork work;
    for (int i = 0; i < batch; ++i) work.Add(0, 1, kServedPrompt + kServedOutput / 2 - 1);
    const ServedFigure figure = {"token of " + std::to_string(batch) + " at once", UpperMedian(ms),
                                 costs_.ExecutorMs(work)};
    made.figures.push_back(figure);
    if (batch == first_batch) first_ms = figure.ms - figure.executor_ms;
    products += (batch - first_batch) * (figure.ms - figure.executor_ms - first_ms);
    squares += (batch - first_batch) * (batch - first_batch);
  }
  // Serving adds to the executor's time. Where it seems to take some away, the machine was busy
  // with other things meanwhile, and a large batch would take less than no time.
  made.costs.ms_per_row = squares > 0.0 ? std::max(0.0, products / squares) : 0.0;
  StepWork one;
  one.Add(0, 1, kServedPrompt + kServedOutput / 2 - 1);
  made.costs.step_ms = std::max(0.0, UpperMedian(decode_ms_.at(1)) - costs_.ExecutorMs(one));
  made.costs.decode_slowness = SlownessOf(decode_ms_, 0.0);
  made.costs.prompt_slowness = SlownessOf(prompt_ms_, made.costs.first_token_ms);
  for (const auto& [busy, ms] : decode_ms_) {
    const std::string with = " with " + std::to_string(busy) + " runners busy";
    made.figures.push_back({"token" + with, UpperMedian(ms), 0.0});
    made.figures.push_back({"prompt" + with, UpperMedian(prompt_ms_.at(busy)), 0.0});
  }
  return made;
}

}  // namespace

Result<ServedMeasurement> MeasureServedCosts(const ServedCostsOptions& options,
                                             const CostModel& costs) {
  ServedRunners runners(options);
  RETURN_IF_ERROR(runners.Start());
  ServedProfile profile(options, costs, runners.port_of_one(), runners.port_of_all());
  RETURN_IF_ERROR(profile.Run());
  return profile.Fit();
}

}  // namespace graft
