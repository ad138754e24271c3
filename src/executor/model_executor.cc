#include "executor/model_executor.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/clock.h"

namespace graft {
namespace {

std::vector<LogprobEntry> TopLogprobs(const SampledToken& sampled) {
  std::vector<LogprobEntry> top(sampled.num_top);
  for (int32_t i = 0; i < sampled.num_top; ++i) {
    top[i] = {sampled.top_tokens[i], sampled.top_logprobs[i]};
  }
  return top;
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
      batch_(limits.page_tokens, transformer.limits().padded_rank_max == 0),
      samplers_(limits.sequences_max) {
  CHECK_GE(transformer.limits().step_tokens_max, limits.step_tokens_max);
  CHECK_GE(transformer.limits().logits_rows_max, limits.sequences_max);
  const int32_t rows_max = transformer.limits().logits_rows_max;
  sampled_ = PinnedBuffer(rows_max * int64_t{sizeof(SampledToken)});
  sampling_scratch_ = SamplingScratch(rows_max, limits.vocab_size, stream.device);
}

AssistRates ModelExecutor::assist_rates() const {
  return parts_.assist == nullptr ? AssistRates{} : parts_.assist->rates();
}

// `num_rows` results, as if nothing had been drawn.
std::span<SampledToken> ModelExecutor::ResetSampled(size_t num_rows) {
  const std::span<SampledToken> sampled(sampled_.as<SampledToken>(), num_rows);
  std::fill(sampled.begin(), sampled.end(), SampledToken{});
  return sampled;
}

void ModelExecutor::RecordGraphs(const DecodeGraphs::Progress& progress, int32_t rank_max) {
  UseDevice(stream_.device);
  graphs_ = std::make_unique<DecodeGraphs>(transformer_, limits_.sequences_max, Adapters(),
                                           parts_.merged);
  if (loras_ != nullptr) rank_max = std::max(rank_max, loras_->rank_max());
  graphs_->Record(rank_max, stream_, progress);
}

ForwardTimes ModelExecutor::Profile(const StepPlan& plan) {
  CHECK(plan_ == nullptr) << "the last step was not finished";
  plan_ = &plan;
  ForwardTimes times;
  Launch(&times);
  Synchronize(stream_);
  plan_ = nullptr;
  return times;
}

void ModelExecutor::Begin(const StepPlan& plan) {
  CHECK(plan_ == nullptr) << "the last step was not finished";
  plan_ = &plan;
  begin_ns_ = SteadyClock::Get().NowNs();
  if (!stream_.device.is_cpu()) Launch(nullptr);
}

// By looking again and again, which is what waiting for a stream does, too.
bool ModelExecutor::Wait(const std::atomic<bool>& interrupted) {
  CHECK(plan_ != nullptr) << "no step was begun";
  while (!IsDone(stream_)) {
    if (interrupted) return false;
    std::this_thread::yield();
  }
  return true;
}

StepResult ModelExecutor::Finish() {
  CHECK(plan_ != nullptr) << "no step was begun";
  ForwardTimes times;
  StepResult result;
  if (stream_.device.is_cpu()) Launch(&times);
  Synchronize(stream_);
  const StepPlan& plan = *std::exchange(plan_, nullptr);
  result.step_id = plan.step_id;
  result.sequences.resize(plan.sequences.size());
  TakeSampled(plan, &result);
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    if (!plan.sequences[i].prompt_logprobs) continue;
    AddPromptLogprobs(plan.sequences[i], batch_.row_begin()[i], &result.sequences[i]);
  }
  if (is_assisted_) result.num_assisted_layers = parts_.assist->num_layers_taken();
  result.times.gemm_ns = times.gemm_ns;
  result.times.lora_ns = times.lora_ns;
  result.times.attention_ns = times.attention_ns;
  result.times.sampling_ns = sampling_ns_;
  result.times.total_ns = SteadyClock::Get().NowNs() - begin_ns_;
  return result;
}

void ModelExecutor::Launch(ForwardTimes* times) {
  UseDevice(stream_.device);
  StartSequences();
  batch_.Build(*plan_);
  CHECK_LE(batch_.num_rows(), limits_.step_tokens_max);
  gate_.Reset(*plan_, parts_.arrivals);
  if (plan_->merged_slot != kNoAdapter) {
    CHECK(loras_ != nullptr && parts_.merged != nullptr)
        << "this executor has no weights to merge into";
    if (plan_->merges) parts_.merged->Merge(Adapters(), plan_->merged_slot, stream_);
  }
  const float* logits = Forward(times);
  const int64_t sampling_begin_ns = SteadyClock::Get().NowNs();
  SampleRows(logits);
  sampling_ns_ = times == nullptr ? 0 : SteadyClock::Get().NowNs() - sampling_begin_ns;
}

void ModelExecutor::StartSequences() {
  for (const SequenceStart& start : plan_->starts) {
    CHECK(start.sequence_slot >= 0 && start.sequence_slot < limits_.sequences_max);
    samplers_[start.sequence_slot].Start(start);
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

const float* ModelExecutor::Forward(ForwardTimes* times) {
  ForwardBatch batch;
  if (!gate_.is_open()) batch.gate = &gate_;
  batch.tokens = batch_.tokens();
  batch.positions = batch_.positions();
  batch.row_page = batch_.row_page();
  batch.row_slot = batch_.row_slot();
  batch.row_begin = batch_.row_begin();
  batch.page_begin = batch_.page_begin();
  batch.pages = batch_.pages();
  batch.kv_tokens = batch_.kv_tokens();
  if (plan_->merged_slot != kNoAdapter) {
    batch.merged = parts_.merged;
  } else if (!batch_.segments().empty() || !batch_.prompt_segments().empty()) {
    CHECK(loras_ != nullptr) << "the plan names an adapter, this executor has none";
    batch.lora_segments = batch_.segments();
    batch.lora_prompt_segments = batch_.prompt_segments();
    batch.lora = Adapters();
  }
  if (batch.gate != nullptr && parts_.assist != nullptr && plan_->assists) {
    parts_.assist->Enter(*parts_.arrivals, &batch);
    gate_.WorkWhileBlocked();  // its layers are launched as its workers answer
  }
  is_assisted_ = batch.assist != nullptr;
  batch.logits_rows = batch_.sample_rows();
  const auto num_rows = static_cast<size_t>(batch_.num_rows());
  const bool is_decode = batch.kv_tokens.size() == num_rows &&
                         batch.logits_rows.size() == num_rows && batch.lora_prompt_segments.empty();
  if (graphs_ != nullptr && is_decode && times == nullptr && batch.gate == nullptr) {
    return graphs_->Run(batch, stream_);
  }
  return transformer_.Forward(batch, stream_, times);
}

void ModelExecutor::SampleRows(const float* logits) {
  sampling_rows_.clear();
  for (const PlannedSequence& planned : plan_->sequences) {
    if (!planned.samples) continue;
    sampling_rows_.push_back(samplers_[planned.sequence_slot].Row(
        plan_->banned_tokens.data() + planned.banned_begin, planned.num_banned));
  }
  SamplingArgs args;
  args.logits = logits;
  args.vocab_size = limits_.vocab_size;
  args.rows = sampling_rows_.data();
  args.out = ResetSampled(sampling_rows_.size()).data();
  args.num_rows = static_cast<int32_t>(sampling_rows_.size());
  args.scratch = &sampling_scratch_;
  Sample(args, stream_);
}

void ModelExecutor::TakeSampled(const StepPlan& plan, StepResult* result) {
  const SampledToken* sampled = sampled_.as<SampledToken>();
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    if (!plan.sequences[i].samples) continue;
    SequenceResult& out = result->sequences[i];
    out.not_finite = sampled->not_finite;
    out.token = sampled->token;
    out.logprob = sampled->logprob;
    out.top_logprobs = TopLogprobs(*sampled);
    if (!out.not_finite) samplers_[plan.sequences[i].sequence_slot].Accept(out.token);
    ++sampled;
  }
}

void ModelExecutor::AddPromptLogprobs(const PlannedSequence& planned, int32_t row_begin,
                                      SequenceResult* result) {
  const SequenceSampler& sampler = samplers_[planned.sequence_slot];
  const std::vector<int32_t>& prompt = sampler.prompt_tokens();
  const auto num_prompt = static_cast<int32_t>(prompt.size());
  // Row i predicts the token at the position after it.
  const int32_t num_rows =
      std::min(planned.num_tokens, std::max(num_prompt - 1 - planned.position_begin, 0));
  const int32_t rows_max = transformer_.limits().logits_rows_max;
  for (int32_t done = 0; done < num_rows;) {
    const int32_t count = std::min(rows_max, num_rows - done);
    logit_rows_.resize(count);
    for (int32_t i = 0; i < count; ++i) logit_rows_[i] = row_begin + done + i;
    const std::span<SampledToken> sampled = ResetSampled(count);
    TokenLogprobsArgs args;
    args.logits = transformer_.Logits(logit_rows_, stream_);
    args.vocab_size = limits_.vocab_size;
    args.tokens = prompt.data() + planned.position_begin + done + 1;
    args.num_top = std::max(sampler.num_logprobs(), 0);
    args.out = sampled.data();
    args.num_rows = count;
    args.scratch = &sampling_scratch_;
    TokenLogprobs(args, stream_);
    Synchronize(stream_);
    for (const SampledToken& row : sampled) {
      result->not_finite |= row.not_finite;
      result->prompt_logprobs.push_back({row.token, row.logprob});
      result->prompt_top_logprobs.push_back(TopLogprobs(row));
    }
    done += count;
  }
}

}  // namespace graft
