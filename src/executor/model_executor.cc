#include "executor/model_executor.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <numeric>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/out_of_memory.h"
#include "kernels/common/launch_ledger.h"

namespace graft {
namespace {

constexpr int64_t kLookNs = 100'000'000;  // between looks at other ranks while a step runs

std::vector<LogprobEntry> TopLogprobs(const SampledToken& sampled) {
  std::vector<LogprobEntry> top(sampled.num_top);
  for (int32_t i = 0; i < sampled.num_top; ++i) {
    top[i] = {sampled.top_tokens[i], sampled.top_logprobs[i]};
  }
  return top;
}

DrawnToken DrawnOf(const SampledToken& sampled) {
  return {sampled.token, sampled.logprob, TopLogprobs(sampled)};
}

bool HasMasks(const StepPlan& plan) {
  return std::any_of(plan.sequences.begin(), plan.sequences.end(),
                     [](const PlannedSequence& planned) { return planned.has_mask; });
}

}  // namespace

ModelExecutor::ModelExecutor(Transformer& transformer, const LoraStore* loras,
                             const ExecutorLimits& limits, Stream& stream,
                             const ExecutorParts& parts)
    : transformer_(transformer),
      loras_(loras),
      parts_(parts),
      limits_(limits),
      stream_(stream),
      batch_(limits.page_tokens),
      samplers_(limits.sequences_max),
      pooled_(transformer, limits.sequences_max, stream.device),
      steps_{RunningStep(stream.device, transformer.limits().logits_rows_max),
             RunningStep(stream.device, transformer.limits().logits_rows_max),
             RunningStep(stream.device, transformer.limits().logits_rows_max)},
      prompt_batches_{PromptBatch(stream.device, transformer.limits().logits_rows_max),
                      PromptBatch(stream.device, transformer.limits().logits_rows_max)} {
  CHECK_GE(transformer.limits().step_tokens_max, limits.step_tokens_max);
  CHECK_GE(transformer.limits().logits_rows_max, std::max(limits.sequences_max, limits.draws_max));
  const int32_t rows_max = transformer.limits().logits_rows_max;
  sampling_scratch_ = SamplingScratch(rows_max, limits.vocab_size, stream.device);
  CHECK(!limits.runs_ahead || !stream.device.is_cpu()) << "a CPU computes in Finish";
  if (limits.runs_ahead) {
    drawn_tokens_ = Buffer(rows_max * int64_t{sizeof(int32_t)}, stream.device);
  }
}

BytesNeeded ModelExecutor::BytesFor(const TransformerLimits& limits, const ModelConfig& config,
                                    const Device& device) {
  const int32_t rows_max = limits.logits_rows_max;
  BytesNeeded needed = SamplingScratch::BytesFor(rows_max, config.vocab_size, device);
  const BytesNeeded pooled =
      PooledStates::BytesFor(limits.step_tokens_max, config.hidden_size, device);
  needed.on_device += pooled.on_device;
  needed.on_host += pooled.on_host;
  const int64_t token = sizeof(int32_t);
  const int64_t sampled = sizeof(SampledToken);
  const int64_t results = rows_max * (static_cast<int64_t>(kSteps) * sampled +
                                      static_cast<int64_t>(kPromptBatches) * (sampled + token));
  if (device.is_cpu()) return {.on_device = results + pooled.on_device};
  needed.on_device += rows_max * token;  // drawn_tokens_
  needed.on_host += results;
  return needed;
}

class ModelExecutor::LaunchTurn {
 public:
  explicit LaunchTurn(const ExecutorParts& parts) : turns_(parts.device_turns) {
    if (turns_ != nullptr) turns_->BeginStep();
  }
  ~LaunchTurn() {
    if (turns_ != nullptr) turns_->EndStep();
  }
  LaunchTurn(const LaunchTurn&) = delete;
  LaunchTurn& operator=(const LaunchTurn&) = delete;

 private:
  DeviceTurns* const turns_;
};

std::span<SampledToken> ModelExecutor::RunningStep::ResetSampled(size_t num_rows) const {
  const std::span<SampledToken> results(sampled.as<SampledToken>(), num_rows);
  std::fill(results.begin(), results.end(), SampledToken{});
  return results;
}

void ModelExecutor::RecordGraphs(const DecodeGraphs::Progress& progress, int32_t rank_max) {
  UseDevice(stream_.device);
  graphs_ = std::make_unique<DecodeGraphs>(transformer_, limits_.sequences_max,
                                           limits_.draft_tokens_max, Adapters());
  if (loras_ != nullptr) rank_max = std::max(rank_max, loras_->rank_max());
  if (parts_.ranks != nullptr) parts_.ranks->Record(rank_max, loras_ != nullptr);
  graphs_->Record(rank_max, stream_, progress);
}

ModelExecutor::RunningStep& ModelExecutor::AddStep(const StepPlan& plan) {
  const uint64_t num_running = num_begun_ - num_finished_;
  CHECK_EQ(num_running, plan.ahead ? 1u : 0u) << "steps begun and not finished";
  CHECK(!plan.ahead || limits_.runs_ahead) << "this executor finishes a step first";
  // What is ahead goes on from what the step before it draws.
  const Status before = plan.ahead ? first_step().status : OkStatus();
  RunningStep& step = steps_[num_begun_++ % steps_.size()];
  step.plan = &plan;
  step.status = before;
  step.is_bridged = step.draws_later = false;
  step.begin_ns = SteadyClock::Get().NowNs();
  return step;
}

ModelExecutor::RunningStep& ModelExecutor::first_step() {
  CHECK_LT(num_finished_, num_begun_) << "no step was begun";
  return steps_[num_finished_ % steps_.size()];
}

ForwardTimes ModelExecutor::Profile(const StepPlan& plan) {
  ForwardTimes times;
  RunningStep& step = AddStep(plan);
  Launch(step, &times);
  step.done.Record(stream_);
  Synchronize(stream_);
  ++num_finished_;
  return times;
}

int64_t ModelExecutor::IdleNsBefore(const RunningStep& step) const {
  if (stream_.device.is_cpu() || num_finished_ == 0) return -1;
  if (!step.status.ok()) return -1;  // the stream may not have come to `begun`
  return step.begun.NsSince(steps_[(num_finished_ - 1) % steps_.size()].done);
}

void ModelExecutor::Begin(const StepPlan& plan) {
  RunningStep& step = AddStep(plan);
  if (stream_.device.is_cpu()) return;
  const LaunchTurn turn(parts_);
  Try(step, [&] { Launch(step, nullptr); });
  if (!step.draws_later) step.done.Record(stream_);
}

void ModelExecutor::Continue() {
  RunningStep& step = first_step();
  if (!std::exchange(step.draws_later, false)) return;
  UseDevice(stream_.device);
  const LaunchTurn turn(parts_);
  Try(step, [&] { SampleRows(step); });
  step.done.Record(stream_);
}

// Work that was launched before memory ran out runs to its end; its results are dropped.
void ModelExecutor::Try(RunningStep& step, const std::function<void()>& part) {
  if (!step.status.ok()) return;
  try {
    part();
  } catch (const std::bad_alloc& error) {
    LaunchLedger::OfThread() = {};
    step.status = UnavailableError(
        "memory ran out in a step of " + std::to_string(step.plan->tokens.size()) + " rows (" +
        error.what() +
        "), and its requests were given up; try again later or with less, and where " +
        "it comes again, start the server with a smaller --step-tokens-max, --sequences-max or "
        "--pool-gib");
    LOG_ERROR("{}", step.status.message());
  }
}

// Fails the step if another rank found no memory.
void ModelExecutor::FailWithRanks(RunningStep& step) {
  if (parts_.ranks == nullptr) return;
  const std::string why = parts_.ranks->TakeFailure();
  if (!why.empty()) Try(step, [&] { ThrowOutOfMemory(why); });
}

// Polls, as CUDA's wait for a stream does, too.
bool ModelExecutor::Wait(const std::atomic<bool>& interrupted, int64_t timeout_ns) {
  const RunningStep& step = first_step();
  const int64_t begin_ns = SteadyClock::Get().NowNs();
  while (!step.done.HasHappened()) {
    const int64_t now_ns = SteadyClock::Get().NowNs();
    if (interrupted || now_ns - begin_ns >= timeout_ns) return false;
    // NCCL's kernels wait for a rank that is stopped for as long as it is.
    if (parts_.ranks != nullptr && now_ns - last_look_ns_ >= kLookNs) {
      last_look_ns_ = now_ns;
      parts_.ranks->LookForStopped(now_ns - step.begin_ns);
    }
    std::this_thread::yield();
  }
  return true;
}

StepResult ModelExecutor::Finish() {
  RunningStep& step = first_step();
  const StepPlan& plan = *step.plan;
  ForwardTimes times;
  StepResult result;
  CHECK(!step.draws_later) << "Continue comes first";
  if (parts_.turns != nullptr) parts_.turns->BeginStep();
  if (stream_.device.is_cpu()) Try(step, [&] { Launch(step, &times); });
  step.done.Wait();
  transformer_.CheckRanks();
  result.step_id = plan.step_id;
  result.sequences.resize(plan.sequences.size());
  FailWithRanks(step);
  Try(step, [&] {
    TakeSampled(step, &result);
    TakePromptLogprobs(step, &result);
    TakeEmbeddings(step, &result);
  });
  FailWithRanks(step);
  if (parts_.turns != nullptr) parts_.turns->EndStep();
  result.status = step.status;
  if (step.is_bridged) result.num_bridged_layers = parts_.bridge->num_layers_taken();
  result.times.gemm_ns = times.gemm_ns;
  result.times.lora_ns = times.lora_ns;
  result.times.attention_ns = times.attention_ns;
  result.times.sampling_ns = sampling_ns_;
  if (parts_.device_turns != nullptr) {
    const int64_t step_ns = step.status.ok() ? step.done.NsSince(step.begun) : 0;
    result.times.others_ns = parts_.device_turns->OnStepDone(step_ns);
  }
  result.times.idle_ns = IdleNsBefore(step);
  if (result.times.idle_ns > 0) {
    result.times.idle_ns = std::max<int64_t>(0, result.times.idle_ns - result.times.others_ns);
  }
  const int64_t finish_ns = SteadyClock::Get().NowNs();
  const int64_t took_ns = finish_ns - std::max(step.begin_ns, last_finish_ns_);
  result.times.total_ns = std::max<int64_t>(0, took_ns - result.times.others_ns);
  if (last_finish_ns_ > 0) {
    result.times.gap_ns = std::max<int64_t>(0, step.begin_ns - last_finish_ns_);
  }
  last_finish_ns_ = finish_ns;
  ++num_finished_;
  return result;
}

void ModelExecutor::Launch(RunningStep& step, ForwardTimes* times) {
  const StepPlan& plan = *step.plan;
  UseDevice(stream_.device);
  StartSequences(plan);
  batch_.Build(plan);
  CHECK_LE(batch_.num_rows(), limits_.step_tokens_max);
  gate_.Reset(plan, parts_.arrivals);
  step.logits = Forward(step, times);
  step.draws_later = plan.ahead && HasMasks(plan);
  if (step.draws_later) return;
  const int64_t sampling_begin_ns = SteadyClock::Get().NowNs();
  SampleRows(step);
  sampling_ns_ = times == nullptr ? 0 : SteadyClock::Get().NowNs() - sampling_begin_ns;
}

void ModelExecutor::StartSequences(const StepPlan& plan) {
  for (const SequenceStart& start : plan.starts) {
    CHECK(start.sequence_slot >= 0 && start.sequence_slot < limits_.sequences_max);
    samplers_[start.sequence_slot].Start(start, limits_.vocab_size);
    pooled_.Start(start.sequence_slot);
  }
}

// A bound no higher than the batch needs: on a GPU it sizes the kernels' shared memory.
LoraTable ModelExecutor::Adapters() const {
  if (loras_ == nullptr) return {};
  int32_t rank_max = gate_.rank_max();
  for (const auto* segments : {&batch_.segments(), &batch_.prompt_segments()}) {
    for (const LoraSegment& segment : *segments) {
      rank_max = std::max(rank_max, loras_->rank_of(segment.adapter_slot));
    }
  }
  return {loras_->matrices(0, LoraModule::kQ), loras_->matrices_stride(), rank_max};
}

// Where no adapter that changes the head is there, no row is looked at.
std::span<const LoraSegment> ModelExecutor::HeadSegments(std::span<const int32_t> rows) {
  constexpr int32_t kRowsMax = 64;  // see LoraArgs
  if (loras_ == nullptr) return {};
  if (batch_.segments().empty() && batch_.prompt_segments().empty()) return {};
  const auto changes_head = [this](int32_t slot) {
    return loras_->changes_head(slot) || gate_.changes_head(slot);
  };
  if (!loras_->any_changes_head() && !gate_.any_changes_head()) return {};
  return batch_.HeadSegments(rows, changes_head, kRowsMax);
}

const float* ModelExecutor::Forward(RunningStep& step, ForwardTimes* times) {
  const StepPlan& plan = *step.plan;
  HostBatch batch;
  static_cast<BatchArrays&>(batch) = batch_.arrays();
  if (!gate_.is_open()) batch.gate = &gate_;
  batch.begun = &step.begun;
  batch.avoids_copy_engine = parts_.arrivals != nullptr && parts_.arrivals->num_under_way() > 0;
  if (plan.ahead) batch.drawn_tokens = drawn_tokens_.as<int32_t>();
  if (loras_ != nullptr) batch.virtual_rows = loras_->virtual_rows();
  if (!batch.lora_segments.empty() || !batch.lora_prompt_segments.empty()) {
    CHECK(loras_ != nullptr) << "the plan names an adapter, this executor has none";
    batch.lora = Adapters();
    if (batch.lora.rank_max == 0) {  // virtual tokens alone
      batch.lora_segments = {};
      batch.lora_prompt_segments = {};
    } else {
      batch.head_segments = HeadSegments(batch.logits_rows);
    }
  }
  if (batch.gate != nullptr && parts_.bridge != nullptr && plan.bridges) {
    parts_.bridge->Enter(&batch);
    gate_.WorkWhileBlocked();  // a bridge's layers are launched as it answers
  }
  step.is_bridged = batch.bridge != nullptr;
  // A recorded step waits for no rows. The other ranks' copies may be behind this one's.
  const bool is_whole =
      batch.gate == nullptr && (parts_.ranks == nullptr || !gate_.names_arrivals());
  const bool replays = graphs_ != nullptr && graphs_->Covers(batch) && times == nullptr && is_whole;
  if (parts_.ranks != nullptr) parts_.ranks->Forward(batch, replays);
  const float* logits = nullptr;
  if (replays) {
    WithRanks(graphs_->PaddedRows(batch_.num_rows()), true,
              [&] { logits = graphs_->Run(batch, stream_); });
    return logits;
  }
  // Launched kernel by kernel, which takes longer than the first layers.
  if (!stream_.device.is_cpu()) batch.gate = &gate_;
  WithRanks(batch_.num_rows(), !batch.logits_rows.empty(),
            [&] { logits = transformer_.Forward(batch, stream_, times); });
  return logits;
}

// Computes a part that the other ranks have begun. If this rank finds no memory, it still takes
// part in their exchanges, so that they come to an end.
void ModelExecutor::WithRanks(int64_t num_rows, bool has_logits,
                              const std::function<void()>& part) {
  struct Guard {
    ~Guard() {
      if (!is_done && executor.parts_.ranks != nullptr) {
        executor.transformer_.GiveUp(num_rows, has_logits, executor.stream_);
      }
    }
    ModelExecutor& executor;
    const int64_t num_rows;
    const bool has_logits;
    bool is_done = false;
  } guard{*this, num_rows, has_logits};
  part();
  guard.is_done = true;
}

// A GPU computes the step's rows meanwhile. One mask may take a hundred times as long as another.
// Without a mask in time, a sequence draws any token, which is dropped.
void ModelExecutor::FillMasks(RunningStep& step) {
  const StepPlan& plan = *step.plan;
  step.left_out.assign(plan.sequences.size(), 0);
  masked_.clear();
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    if (plan.sequences[i].samples && plan.sequences[i].has_mask) masked_.push_back(i);
  }
  if (masked_.empty()) return;
  CHECK(masks_ != nullptr) << "the plan has masks, and nobody knows them";
  const auto num_words = static_cast<size_t>(NumMaskWords(limits_.vocab_size));
  words_.resize(masked_.size() * num_words);
  std::atomic<size_t> next{0};
  const auto work = [&](int /*worker_idx*/) {
    for (size_t i = next++; i < masked_.size(); i = next++) {
      const auto words = std::span(words_).subspan(i * num_words, num_words);
      if (masks_->FillMask(plan, masked_[i], words)) continue;
      std::fill(words.begin(), words.end(), ~uint32_t{0});
      step.left_out[masked_[i]] = 1;
    }
  };
  if (masked_.size() > 1 && stream_.cpu_threads != nullptr) {
    stream_.cpu_threads->Run(work);
  } else {
    work(0);
  }
}

// A step that was launched ahead and waited draws with all that is known by now.
void ModelExecutor::SampleRows(RunningStep& step) {
  const StepPlan& plan = *step.plan;
  FillMasks(step);
  const bool draws_ahead = plan.ahead && masked_.empty();
  const uint32_t* mask = words_.data();
  sampling_rows_.clear();
  for (const PlannedSequence& planned : plan.sequences) {
    if (!planned.samples) continue;
    SequenceSampler& sampler = samplers_[planned.sequence_slot];
    CHECK(planned.num_drafts == 0 || (planned.num_banned == 0 && !planned.has_mask))
        << "draws that differ in their bans";
    sampling_rows_.push_back(
        draws_ahead ? sampler.RowAhead()
                    : sampler.Row(std::span(plan.banned_tokens)
                                      .subspan(static_cast<size_t>(planned.banned_begin),
                                               static_cast<size_t>(planned.num_banned)),
                                  planned.has_mask ? mask : nullptr));
    if (planned.has_mask) mask += NumMaskWords(limits_.vocab_size);
    for (int32_t i = 1; i <= planned.num_drafts; ++i) sampling_rows_.push_back(sampler.RowAhead(i));
  }
  SamplingArgs args;
  args.logits = step.logits;
  args.vocab_size = limits_.vocab_size;
  args.rows = sampling_rows_.data();
  args.out = step.ResetSampled(sampling_rows_.size()).data();
  args.num_rows = static_cast<int32_t>(sampling_rows_.size());
  args.scratch = &sampling_scratch_;
  if (limits_.runs_ahead) args.device_tokens = drawn_tokens_.as<int32_t>();
  Sample(args, stream_);
}

void ModelExecutor::TakeSampled(const RunningStep& step, StepResult* result) {
  const StepPlan& plan = *step.plan;
  const SampledToken* sampled = step.sampled.as<SampledToken>();
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    const PlannedSequence& planned = plan.sequences[i];
    if (!planned.samples) continue;
    SequenceResult& out = result->sequences[i];
    const std::span<const SampledToken> draws(sampled, static_cast<size_t>(planned.num_drafts) + 1);
    sampled += draws.size();
    out.not_finite = draws[0].not_finite;
    static_cast<DrawnToken&>(out) = DrawnOf(draws[0]);
    if (out.not_finite) continue;
    if (step.left_out[i] != 0) {
      out = {};
      out.left_out = true;
      continue;
    }
    SequenceSampler& sampler = samplers_[planned.sequence_slot];
    sampler.Accept(out.token);
    const auto drafts = std::span(plan.tokens)
                            .subspan(static_cast<size_t>(planned.token_begin))
                            .first(static_cast<size_t>(planned.num_tokens))
                            .last(static_cast<size_t>(planned.num_drafts));
    // What is not finite behind a draft fails in the next step, as it would have without.
    for (size_t draft = 0; draft < drafts.size(); ++draft) {
      const SampledToken& next = draws[draft + 1];
      if (drafts[draft] != draws[draft].token || next.not_finite) break;
      out.further.push_back(DrawnOf(next));
      sampler.Accept(next.token);
    }
  }
}

// What came after the step's end was the device's work, too. The host has what came of it, but an
// event that is recorded anew has no time before it happens.
void ModelExecutor::EndLater(RunningStep& step) {
  step.done.Record(stream_);
  step.done.Wait();
}

void ModelExecutor::TakePromptLogprobs(RunningStep& step, StepResult* result) {
  for (size_t i = 0; i < step.plan->sequences.size(); ++i) {
    if (!step.plan->sequences[i].prompt_logprobs) continue;
    AddPromptLogprobs(step, i, &result->sequences[i]);
    EndLater(step);
  }
}

void ModelExecutor::TakeEmbeddings(RunningStep& step, StepResult* result) {
  const StepPlan& plan = *step.plan;
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    const PlannedSequence& planned = plan.sequences[i];
    if (planned.pooling == RowPooling::kNone) continue;
    const bool is_mean = planned.pooling == RowPooling::kMean;
    const SequenceSampler& sampler = samplers_[planned.sequence_slot];
    const auto num_prompt = static_cast<int32_t>(sampler.prompt_tokens().size());
    const int32_t end = planned.position_begin + planned.num_prompt_rows;
    const bool is_last = end == sampler.prompt_position() + num_prompt;
    if (!is_mean && !is_last) continue;
    // The rows of an adapter's own tokens count for nothing.
    const int32_t skipped = is_mean ? planned.num_virtual_rows : planned.num_prompt_rows - 1;
    SequenceResult& out = result->sequences[i];
    out.not_finite |= !pooled_.Add(planned.sequence_slot, batch_.first_row(i) + skipped,
                                   planned.num_prompt_rows - skipped, stream_);
    if (is_last) out.embedding = pooled_.Take(planned.sequence_slot, is_mean ? num_prompt : 1);
    EndLater(step);
  }
}

// In batches of as many rows as there are logits for. The device works on the next one while the
// host reads what came of one, and stands still for none.
void ModelExecutor::AddPromptLogprobs(const RunningStep& step, size_t idx, SequenceResult* result) {
  const PlannedSequence& planned = step.plan->sequences[idx];
  const SequenceSampler& sampler = samplers_[planned.sequence_slot];
  const std::span<const int32_t> prompt = sampler.prompt_tokens();
  const auto num_prompt = static_cast<int32_t>(prompt.size());
  // Row i predicts the token at the position after it. Nothing is told of what virtual tokens
  // predict, as nothing is of a prompt's first token without them.
  const int32_t first_row = batch_.first_row(idx) + planned.num_virtual_rows;
  const int32_t first =
      planned.position_begin + planned.num_virtual_rows - sampler.prompt_position();
  const int32_t num_rows =
      std::min(planned.num_tokens - planned.num_virtual_rows, std::max(num_prompt - 1 - first, 0));
  const int32_t rows_max = transformer_.limits().logits_rows_max;
  const PromptBatch* last = nullptr;
  size_t turn = 0;
  for (int32_t done = 0; done < num_rows; done += rows_max) {
    PromptBatch& batch = prompt_batches_[turn++ % prompt_batches_.size()];
    batch.num_rows = std::min(rows_max, num_rows - done);
    LaunchPromptLogprobs(first_row + done, prompt.subspan(first + done + 1, batch.num_rows),
                         std::max(sampler.num_logprobs(), 0), &batch);
    if (last != nullptr) TakePromptLogprobs(*last, result);
    last = &batch;
  }
  if (last != nullptr) TakePromptLogprobs(*last, result);
}

void ModelExecutor::LaunchPromptLogprobs(int32_t row_begin, std::span<const int32_t> tokens,
                                         int32_t num_top, PromptBatch* batch) {
  const std::span<int32_t> rows(batch->rows.as<int32_t>(), tokens.size());
  std::iota(rows.begin(), rows.end(), row_begin);
  std::fill_n(batch->sampled.as<SampledToken>(), tokens.size(), SampledToken{});
  Transformer::HeadLora head{.segments = HeadSegments(rows)};
  if (!head.segments.empty()) {
    head.lora = Adapters();
    // The step itself may have asked for no logits with LoRA, and so have waited for no head's
    // rows.
    gate_.Await(transformer_.config().num_layers - 1, stream_);
  }
  if (parts_.ranks != nullptr) parts_.ranks->Logits(rows, head);
  TokenLogprobsArgs args;
  WithRanks(0, true, [&] { args.logits = transformer_.Logits(rows, stream_, head); });
  args.vocab_size = limits_.vocab_size;
  args.tokens = tokens.data();
  args.num_top = num_top;
  args.out = batch->sampled.as<SampledToken>();
  args.num_rows = static_cast<int32_t>(tokens.size());
  args.scratch = &sampling_scratch_;
  TokenLogprobs(args, stream_);
  batch->done.Record(stream_);
}

void ModelExecutor::TakePromptLogprobs(const PromptBatch& batch, SequenceResult* result) {
  batch.done.Wait();
  for (const SampledToken& row :
       std::span(batch.sampled.as<SampledToken>(), static_cast<size_t>(batch.num_rows))) {
    result->not_finite |= row.not_finite;
    result->prompt_logprobs.push_back({row.token, row.logprob});
    result->prompt_top_logprobs.push_back(TopLogprobs(row));
  }
}

}  // namespace graft
