#include "cli/learn_group.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "runtime/progress.h"
#include "tuning/training_group.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

std::string MinutesText(double seconds) {
  char text[32];
  const auto whole = static_cast<long long>(seconds + 0.5);
  std::snprintf(text, sizeof(text), "%lld:%02lld", whole / 60, whole % 60);
  return text;
}

// Shows the steps of documents.
class StepsShown : public TrainingHost {
 public:
  StepsShown(std::string title, bool quiet) : title_(std::move(title)), is_quiet_(quiet) {}

  void OnBegin(const std::string& name, const TrainingProgress& at, bool resumed) override {
    if (!resumed) return;
    std::fprintf(stderr, "%s goes on from step %d of %d\n", name.c_str(), at.step, at.num_steps);
  }

  void OnSteps(const TrainingProgress& at) override {
    total_ = at.num_steps - at.step;
    begin_ns_ = SteadyClock::Get().NowNs();
    if (total_ > 0) bar_.emplace(title_, is_quiet_);
  }

  Status OnStep(const TrainingProgress& at) override {
    const int64_t left = at.num_steps - at.step;
    const double seconds = NsToSeconds(SteadyClock::Get().NowNs() - begin_ns_) /
                           static_cast<double>(total_ - left) * static_cast<double>(left);
    char loss[32];
    std::snprintf(loss, sizeof(loss), "loss %.3f", at.loss);
    bar_->Update(total_ - left, total_, loss + (", " + MinutesText(seconds)) + " left");
    if (left == 0) bar_.reset();  // what is printed next has a line of its own
    return OkStatus();
  }

 private:
  const std::string title_;
  const bool is_quiet_;
  std::optional<ProgressBar> bar_;
  int64_t total_ = 0;  // steps that were left where they began
  int64_t begin_ns_ = 0;
};

// Learns documents side by side.
class LearnGroup {
 public:
  LearnGroup(const LearnOptions& options, const LearningPlan& plan,
             std::span<LearningDocument> documents, LoadedModel& model, const BaseIdentity& base,
             const TrainingLimits& limits)
      : options_(options),
        plan_(plan),
        documents_(documents),
        model_(model),
        trainer_(model.config, model.weights, limits, model.stream),
        shown_(documents.size() == 1
                   ? "learning " + documents[0].name
                   : "learning " + std::to_string(documents.size()) + " documents",
               options.quiet),
        group_(plan, documents, model, base, trainer_, shown_, options.checkpoint_seconds) {}

  Status Run() {
    RETURN_IF_ERROR(group_.Begin());
    Tell("the adapters' beginnings");
    RETURN_IF_ERROR(group_.Train());
    Tell("losses before and steps");
    RETURN_IF_ERROR(
        group_.Finish([this](size_t place, TrainingRun& run, const LearnedAdapter& adapter) {
          return Write(place, run, adapter);
        }));
    Tell("losses after, and the writing of adapters");
    return OkStatus();
  }

 private:
  // How long a part took.
  void Tell(const char* part) {
    const int64_t now_ns = SteadyClock::Get().NowNs();
    LOG_INFO("{} of {} documents: {:.1f} s", part, documents_.size(),
             NsToSeconds(now_ns - told_ns_));
    told_ns_ = now_ns;
  }

  Status Write(size_t place, TrainingRun& run, const LearnedAdapter& adapter) {
    const LearningDocument& document = documents_[place];
    const double seconds = NsToSeconds(SteadyClock::Get().NowNs() - start_ns_);
    const OrderedJson provenance = group_.ProvenanceOf(place, run);
    ASSIGN_OR_RETURN(const std::string hash,
                     WriteAdapter(document.folder, adapter, provenance, model_));
    Report(document, run, adapter, hash, seconds);
    RETURN_IF_ERROR(WriteJoined(document, adapter, provenance));
    std::error_code ignored;
    fs::remove(document.checkpoint, ignored);  // from which it would go on until now
    return OkStatus();
  }

  int64_t ServedBytes(const LearnedAdapter& adapter) const {
    int64_t bytes = 0;
    if (adapter.lora != nullptr) {
      bytes += static_cast<int64_t>(adapter.lora->parameters().size()) *
               DTypeBytes(model_.weights.types.operands);
    }
    if (adapter.prompt != nullptr) {
      bytes += static_cast<int64_t>(adapter.prompt->parameters().size()) *
               DTypeBytes(adapter.prompt->dtype());
    }
    return bytes;
  }

  void Report(const LearningDocument& document, const TrainingRun& run,
              const LearnedAdapter& learned, const std::string& hash, double seconds) {
    const TrainingScores& scores = run.scores();
    std::printf("%s  (%s)\n", document.name.c_str(), document.folder.c_str());
    std::printf("  document  %lld bytes, %zu tokens\n",
                static_cast<long long>(document.document.bytes), document.input.tokens.size());
    std::printf("  loss      %.3f -> %.3f on what it learned", scores.before, scores.after);
    if (scores.num_held_out_rows > 0) {
      std::printf(", %.3f -> %.3f on %lld tokens held out\n", scores.held_out_before,
                  scores.held_out_after, static_cast<long long>(scores.num_held_out_rows));
    } else {
      std::printf("; nothing was held out of a document as short as this\n");
    }
    const int64_t adapter = ServedBytes(learned);
    const KvLayout layout = MakeKvLayout(model_.config, 1, model_.weights.types.kv);
    const int64_t kv = layout.PageBytes() * static_cast<int64_t>(document.input.tokens.size());
    std::printf("  size      %.0f KiB, %.2f of the document's keys and values\n",
                static_cast<double>(adapter) / 1024,
                static_cast<double>(adapter) / static_cast<double>(kv));
    std::printf("  time      %s, %d steps, seed %llu\n", MinutesText(seconds).c_str(),
                run.num_steps(), static_cast<unsigned long long>(plan_.recipe.seed));
    std::printf("  hash      %s\n", hash.c_str());
  }

  // Beside each frozen document as one adapter, which a server serves by one name.
  Status WriteJoined(const LearningDocument& document, const LearnedAdapter& adapter,
                     const OrderedJson& provenance) {
    const std::vector<TaskSet::FrozenDocument>& frozen = plan_.task.documents;
    for (size_t i = 0; i < frozen.size(); ++i) {
      const auto index = static_cast<int32_t>(i);
      const std::unique_ptr<TrainedLora> joined = JoinLora(
          model_.config, trainer_.lora(index), adapter.lora, model_.weights.types.adapters);
      OrderedJson both = provenance;
      both["joined"] = {frozen[i].name, document.name};
      const std::string name = JoinedName(frozen[i], document.name);
      ASSIGN_OR_RETURN(const std::string hash,
                       WriteAdapter(options_.adapters + "/" + name,
                                    {joined.get(), trainer_.prompt(index)}, both, model_));
      std::printf("  with %s: %s, hash %s\n", frozen[i].name.c_str(), name.c_str(), hash.c_str());
    }
    return OkStatus();
  }

  const LearnOptions& options_;
  const LearningPlan& plan_;
  const std::span<LearningDocument> documents_;
  LoadedModel& model_;
  Trainer trainer_;
  StepsShown shown_;
  TrainingGroup group_;
  const int64_t start_ns_ = SteadyClock::Get().NowNs();
  int64_t told_ns_ = start_ns_;
};

}  // namespace

std::string JoinedName(const TaskSet::FrozenDocument& document, const std::string& name) {
  return document.name + "." + name;
}

Status LearnTogether(const LearnOptions& options, const LearningPlan& plan,
                     std::span<LearningDocument> documents, LoadedModel& model,
                     const BaseIdentity& base, const TrainingLimits& limits) {
  return LearnGroup(options, plan, documents, model, base, limits).Run();
}

}  // namespace graft
