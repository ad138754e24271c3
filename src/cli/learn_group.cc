#include "cli/learn_group.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "learn/learned_folder.h"
#include "learn/training_run.h"
#include "runtime/progress.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

std::string MinutesText(double seconds) {
  char text[32];
  const auto whole = static_cast<long long>(seconds + 0.5);
  std::snprintf(text, sizeof(text), "%lld:%02lld", whole / 60, whole % 60);
  return text;
}

// Learns these jobs side by side.
class LearnGroup {
 public:
  LearnGroup(const LearnOptions& options, const TaskSet& task, Learner& learner, LoadedModel& model,
             const BaseIdentity& base, const TrainingLimits& limits, std::span<LearnJob> jobs)
      : options_(options),
        task_(task),
        learner_(learner),
        model_(model),
        base_(base),
        jobs_(jobs),
        trainer_(model.config, model.weights, limits, model.stream) {}

  Status Run() {
    RETURN_IF_ERROR(AddDocuments(task_, model_.config, trainer_));
    const LearnRecipe& recipe = options_.recipe;
    for (LearnJob& job : jobs_) {
      runs_.push_back(std::make_unique<TrainingRun>(
          trainer_, std::move(job.data), RatesOf(recipe, learner_), job.shape, recipe.seed,
          RunIdentity(OriginOf(job), model_)));
    }
    start_ns_ = SteadyClock::Get().NowNs();
    std::vector<TrainingRun*> runs;
    for (size_t i = 0; i < jobs_.size(); ++i) {
      ASSIGN_OR_RETURN(const bool resumed, runs_[i]->Resume(jobs_[i].checkpoint));
      if (resumed) {
        std::fprintf(stderr, "%s goes on from step %d of %d\n", jobs_[i].name.c_str(),
                     runs_[i]->step(), runs_[i]->num_steps());
      }
      RETURN_IF_ERROR(runs_[i]->Begin());
      runs.push_back(runs_[i].get());
    }
    Tell("losses before");
    RETURN_IF_ERROR(Train(runs));
    Tell("steps");
    RETURN_IF_ERROR(FinishAll());
    Tell("losses after, and the writing of adapters");
    return OkStatus();
  }

 private:
  // How long a part took.
  void Tell(const char* part) {
    const int64_t now_ns = SteadyClock::Get().NowNs();
    LOG_INFO("{} of {} documents: {:.1f} s", part, jobs_.size(), NsToSeconds(now_ns - told_ns_));
    told_ns_ = now_ns;
  }

  // The steps left of the run that has the most.
  int64_t StepsLeft() const {
    int64_t left = 0;
    for (const auto& run : runs_) left = std::max<int64_t>(left, run->num_steps() - run->step());
    return left;
  }

  Status Train(std::span<TrainingRun* const> runs) {
    ProgressBar bar(jobs_.size() == 1 ? "learning " + jobs_[0].name
                                      : "learning " + std::to_string(jobs_.size()) + " documents",
                    options_.quiet);
    const int64_t total = StepsLeft();
    const int64_t begin_ns = SteadyClock::Get().NowNs();
    int64_t saved_ns = begin_ns;
    for (int64_t left = total; left > 0;) {
      StepTogether(trainer_, runs);
      left = StepsLeft();
      const int64_t now_ns = SteadyClock::Get().NowNs();
      const double seconds = NsToSeconds(now_ns - begin_ns) / static_cast<double>(total - left) *
                             static_cast<double>(left);
      bar.Update(total - left, total, LossText() + ", " + MinutesText(seconds) + " left");
      if (left == 0 || now_ns - saved_ns < int64_t{options_.checkpoint_seconds} * 1'000'000'000) {
        continue;
      }
      RETURN_IF_ERROR(SaveAll());
      saved_ns = SteadyClock::Get().NowNs();
    }
    // Whatever comes behind the last step is then done again from there. Without it adapters may be
    // written still.
    const Status saved = SaveAll();
    if (!saved.ok()) LOG_WARN("no checkpoint behind the last step: {}", saved.message());
    return OkStatus();
  }

  Status SaveAll() {
    for (size_t i = 0; i < jobs_.size(); ++i) {
      RETURN_IF_ERROR(runs_[i]->SaveCheckpoint(jobs_[i].checkpoint));
    }
    return OkStatus();
  }

  std::string LossText() const {
    double sum = 0.0;
    for (const auto& run : runs_) sum += run->last_loss();
    char text[32];
    std::snprintf(text, sizeof(text), "loss %.3f", sum / static_cast<double>(runs_.size()));
    return text;
  }

  OrderedJson OriginOf(const LearnJob& job) const {
    OrderedJson origin = OriginJson(options_.recipe, learner_, job.shape, model_, base_,
                                    job.document, job.input.tokens.size());
    for (const TaskSet::FrozenDocument& document : task_.documents) {
      origin["documents"][document.name] = document.hash;
    }
    return origin;
  }

  // While one is written, the device looks at the next one. One that fails costs no other.
  Status FinishAll() {
    Status first;
    const auto note = [&first](Status status) {
      if (first.ok()) first = std::move(status);
    };
    std::future<Status> written;
    for (size_t i = 0; i < jobs_.size(); ++i) {
      const LearnJob& job = jobs_[i];
      TrainingRun& run = *runs_[i];
      RETURN_IF_ERROR(run.Finish());
      const LearnedAdapter adapter = {run.lora(), run.prompt()};  // in the host's memory from here
      if (written.valid()) note(written.get());
      const Status learned =
          CheckLearned(job.name, run.scores(), "lower --learning-rate or --prompt-learning-rate");
      if (!learned.ok()) {
        RemoveCheckpoint(job);  // it would end the same
        note(learned);
        continue;
      }
      written = std::async(std::launch::async,
                           [this, &job, &run, adapter] { return Write(job, run, adapter); });
    }
    if (written.valid()) note(written.get());
    return first;
  }

  // From which the learning would go on, until the adapter is there.
  static void RemoveCheckpoint(const LearnJob& job) {
    std::error_code ignored;
    fs::remove(job.checkpoint, ignored);
  }

  Status Write(const LearnJob& job, TrainingRun& run, const LearnedAdapter& adapter) {
    const double seconds = NsToSeconds(SteadyClock::Get().NowNs() - start_ns_);
    OrderedJson provenance = OriginOf(job);
    provenance["scores"] = ScoresJson(run.scores());
    ASSIGN_OR_RETURN(const std::string hash,
                     WriteLearnedFolder(job.folder, model_.config, adapter, model_.weights.dtype,
                                        model_.name, provenance));
    Report(job, run, hash, seconds);
    RETURN_IF_ERROR(WriteJoined(job, run, provenance));
    RemoveCheckpoint(job);
    return OkStatus();
  }

  int64_t ServedBytes(TrainingRun& run) const {
    int64_t bytes = 0;
    if (run.lora() != nullptr) {
      bytes +=
          static_cast<int64_t>(run.lora()->parameters().size()) * DTypeBytes(model_.weights.dtype);
    }
    if (run.prompt() != nullptr) {
      bytes += static_cast<int64_t>(run.prompt()->parameters().size()) *
               DTypeBytes(run.prompt()->dtype());
    }
    return bytes;
  }

  void Report(const LearnJob& job, TrainingRun& run, const std::string& hash, double seconds) {
    const TrainingScores& scores = run.scores();
    std::printf("%s  (%s)\n", job.name.c_str(), job.folder.c_str());
    std::printf("  document  %lld bytes, %zu tokens\n", static_cast<long long>(job.document.bytes),
                job.input.tokens.size());
    std::printf("  loss      %.3f -> %.3f on what it learned", scores.before, scores.after);
    if (scores.num_held_out_rows > 0) {
      std::printf(", %.3f -> %.3f on %lld tokens held out\n", scores.held_out_before,
                  scores.held_out_after, static_cast<long long>(scores.num_held_out_rows));
    } else {
      std::printf("; nothing was held out of a document as short as this\n");
    }
    const int64_t adapter = ServedBytes(run);
    const KvLayout layout =
        MakeKvLayout(model_.config, 1, KvDType(model_.weights.dtype, model_.device));
    const int64_t kv = layout.PageBytes() * static_cast<int64_t>(job.input.tokens.size());
    std::printf("  size      %.0f KiB, %.2f of the document's keys and values\n",
                static_cast<double>(adapter) / 1024,
                static_cast<double>(adapter) / static_cast<double>(kv));
    std::printf("  time      %s, %d steps, seed %llu\n", MinutesText(seconds).c_str(),
                run.num_steps(), static_cast<unsigned long long>(options_.recipe.seed));
    std::printf("  hash      %s\n", hash.c_str());
  }

  // Beside each frozen document as one adapter, which a server serves by one name.
  Status WriteJoined(const LearnJob& job, TrainingRun& run, const OrderedJson& provenance) {
    for (size_t i = 0; i < task_.documents.size(); ++i) {
      const auto index = static_cast<int32_t>(i);
      const std::unique_ptr<TrainedLora> joined =
          JoinLora(model_.config, trainer_.lora(index), run.lora(), model_.weights.dtype);
      OrderedJson both = provenance;
      both["joined"] = {task_.documents[i].name, job.name};
      const std::string name = JoinedName(task_.documents[i], job.name);
      ASSIGN_OR_RETURN(const std::string hash,
                       WriteLearnedFolder(options_.adapters + "/" + name, model_.config,
                                          {joined.get(), trainer_.prompt(index)},
                                          model_.weights.dtype, model_.name, both));
      std::printf("  with %s: %s, hash %s\n", task_.documents[i].name.c_str(), name.c_str(),
                  hash.c_str());
    }
    return OkStatus();
  }

  const LearnOptions& options_;
  const TaskSet& task_;
  Learner& learner_;
  LoadedModel& model_;
  const BaseIdentity& base_;
  const std::span<LearnJob> jobs_;
  Trainer trainer_;
  std::vector<std::unique_ptr<TrainingRun>> runs_;
  int64_t start_ns_ = 0;
  int64_t told_ns_ = SteadyClock::Get().NowNs();
};

}  // namespace

std::string JoinedName(const TaskSet::FrozenDocument& document, const std::string& name) {
  return document.name + "." + name;
}

Status LearnTogether(const LearnOptions& options, const TaskSet& task, Learner& learner,
                     LoadedModel& model, const BaseIdentity& base, const TrainingLimits& limits,
                     std::span<LearnJob> jobs) {
  return LearnGroup(options, task, learner, model, base, limits, jobs).Run();
}

}  // namespace graft
