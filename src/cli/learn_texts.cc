#include "cli/learn_texts.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "runtime/progress.h"
#include "tuning/engine_writer.h"
#include "tuning/kept_writer.h"
#include "tuning/recipe.h"

namespace graft {
namespace {

// Documents with texts that are written at once. A GPU has room for more texts than one document
// has; on the CPU one document fills the steps.
constexpr size_t kDocumentsOnGpu = 8;
// What learning takes in all, in units of the time in which the questions were written on a CPU:
// their answers and the other texts, and each pass over all of them. Measured with demo/base; both
// parts grow with the model's size, so other models differ little.
constexpr double kTextsByQuestions = 2.0;
constexpr double kPassByQuestions = 1.8;
constexpr size_t kWindowsOfShort = 8;
constexpr int kRequestsMin = 256;  // that wait or run, so that no place of a step stays empty

// The engine that writes, and the writers of documents that share it.
class Writing {
 public:
  Writing(const LearnOptions& options, size_t num_documents, size_t num_windows, int32_t passes)
      : options_(options),
        num_documents_(num_documents),
        num_windows_(num_windows),
        passes_(passes) {}

  Status Begin(LoadedModel& model, const BaseIdentity& base) {
    ASSIGN_OR_RETURN(runtime_, Runtime::Create(options_.runtime, model, /*lora=*/false));
    runtime_->engine().Start();
    const size_t count = model.device.is_cpu() ? 1 : std::min(num_documents_, kDocumentsOnGpu);
    stages_.resize(count);
    is_gpu_ = !model.device.is_cpu();
    // Texts are taken in order: those behind an unfinished one must not leave places empty.
    const auto requests = static_cast<size_t>(
        std::min(std::max(kRequestsMin, 2 * options_.runtime.limits.sequences_max),
                 options_.runtime.engine.requests_max));
    for (size_t i = 0; i < count; ++i) {
      engine_writers_.push_back(std::make_unique<EngineWriter>(
          runtime_->engine(),
          WriterSettings{
              .tenant = "",
              .orders_at_once = std::max<size_t>(1, requests / count),
              .first_id = (uint64_t{i} << 32) + 1,
              .on_text = [this, i](int64_t done, int64_t total) { return Tell(i, done, total); },
              .on_stage = [this, i](std::string_view what) { BeginStage(i, what); }}));
      writers_.push_back(engine_writers_.back().get());
      if (options_.texts.empty()) continue;
      kept_writers_.push_back(std::make_unique<KeptWriter>(*engine_writers_.back(), options_.texts,
                                                           TextsIdentity(model, base)));
      writers_.back() = kept_writers_.back().get();
    }
    return OkStatus();
  }

  GeneratorLimits limits() { return runtime_->engine().limits(); }
  std::span<TextWriter* const> writers() const { return writers_; }
  std::stop_source stop() const { return stop_; }

 private:
  // What a writer is about to write. A writer alone has a bar for each stage; the stages of several
  // come at once, and one bar counts the texts of all.
  void BeginStage(size_t writer, std::string_view what) {
    const std::lock_guard lock(mutex_);
    if (what == "answers") TellTime();
    stages_[writer] = {};
    stage_ns_ = SteadyClock::Get().NowNs();
    const bool is_alone = stages_.size() == 1;
    if (bar_.has_value() && !is_alone) return;
    done_ = total_ = 0;
    bar_.emplace(is_alone ? "writing " + std::string(what)
                          : "writing for " + std::to_string(num_documents_) + " documents",
                 options_.quiet);
  }

  // Behind the questions of a short document alone, the first stage that takes long. Those of a
  // long one are written part by part, and those that were kept are not written.
  void TellTime() const {
    const bool is_short = num_windows_ <= kWindowsOfShort;
    if (num_documents_ != 1 || !is_short || is_gpu_ || options_.quiet) return;
    if (!options_.texts.empty()) return;
    const double seconds = NsToSeconds(SteadyClock::Get().NowNs() - stage_ns_);
    const double left = seconds * (kTextsByQuestions - 1.0 + kPassByQuestions * passes_);
    std::fprintf(stderr, "about %.0f s until the adapter is there\n", std::max(1.0, left));
  }

  // Notes how far one writer's stage is. Any thread.
  bool Tell(size_t writer, int64_t done, int64_t total) {
    const std::lock_guard lock(mutex_);
    Stage& stage = stages_[writer];
    total_ += total - std::exchange(stage.total, total);
    done_ += done - std::exchange(stage.done, done);
    if (bar_.has_value()) bar_->Update(done_, total_);
    return !stop_.stop_requested();
  }

  struct Stage {
    int64_t done = 0, total = 0;  // texts
  };

  const LearnOptions& options_;
  const size_t num_documents_;
  const size_t num_windows_;
  const int32_t passes_;
  bool is_gpu_ = false;
  std::unique_ptr<Runtime> runtime_;
  std::vector<std::unique_ptr<EngineWriter>> engine_writers_;
  std::vector<std::unique_ptr<KeptWriter>> kept_writers_;
  std::vector<TextWriter*> writers_;
  std::stop_source stop_;
  std::mutex mutex_;
  // With the mutex held.
  std::vector<Stage> stages_;  // of each writer, the one that it is at
  std::optional<ProgressBar> bar_;
  int64_t stage_ns_ = 0;          // when a stage began
  int64_t done_ = 0, total_ = 0;  // texts that the bar shows
};

}  // namespace

Status PrepareDocuments(const LearnOptions& options, const LearnSizes& sizes, LoadedModel& model,
                        const BaseIdentity& base, LearningPlan* plan) {
  const int64_t begin_ns = SteadyClock::Get().NowNs();
  const size_t num_documents = plan->documents.size();
  size_t num_windows = 0;
  for (const LearningDocument& document : plan->documents) {
    const auto num_tokens = static_cast<int64_t>(document.input.tokens.size());
    num_windows += WindowsOf(num_tokens, document.input.window_tokens).size();
  }
  Writing writing(options, num_documents, num_windows, RatesOf(*plan).passes);
  if (plan->writes) {
    RETURN_IF_ERROR(writing.Begin(model, base));
    RETURN_IF_ERROR(CheckTexts(*plan, writing.limits()));
  }
  RETURN_IF_ERROR(PrepareAll(sizes, writing.writers(), writing.stop(), plan));
  LOG_INFO("texts of {} documents: {:.1f} s", num_documents,
           NsToSeconds(SteadyClock::Get().NowNs() - begin_ns));
  return OkStatus();
}

}  // namespace graft
