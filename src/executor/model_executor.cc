#include "executor/model_executor.h"

#include <algorithm>

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
                             const ExecutorLimits& limits, Stream& stream)
    : transformer_(transformer),
      loras_(loras),
      limits_(limits),
      stream_(stream),
      batch_(limits.page_tokens),
      samplers_(limits.sequences_max) {
  CHECK_GE(transformer.limits().step_tokens_max, limits.step_tokens_max);
  CHECK_GE(transformer.limits().logits_rows_max, limits.sequences_max);
}

StepResult ModelExecutor::Run(const StepPlan& plan) {
  const int64_t begin_ns = SteadyClock::Get().NowNs();
  StartSequences(plan);
  batch_.Build(plan);
  CHECK_LE(batch_.num_rows(), limits_.step_tokens_max);

  StepResult result;
  result.step_id = plan.step_id;
  result.sequences.resize(plan.sequences.size());
  ForwardTimes times;
  const float* logits = Forward(&times);
  const int64_t sampling_begin_ns = SteadyClock::Get().NowNs();
  SampleSequences(plan, logits, &result);
  result.times.sampling_ns = SteadyClock::Get().NowNs() - sampling_begin_ns;
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    if (!plan.sequences[i].prompt_logprobs) continue;
    AddPromptLogprobs(plan.sequences[i], batch_.row_begin()[i], &times, &result.sequences[i]);
  }
  result.times.gemm_ns = times.gemm_ns;
  result.times.lora_ns = times.lora_ns;
  result.times.attention_ns = times.attention_ns;
  result.times.total_ns = SteadyClock::Get().NowNs() - begin_ns;
  return result;
}

void ModelExecutor::StartSequences(const StepPlan& plan) {
  for (const SequenceStart& start : plan.starts) {
    CHECK(start.sequence_slot >= 0 && start.sequence_slot < limits_.sequences_max);
    samplers_[start.sequence_slot].Start(start);
  }
}

const float* ModelExecutor::Forward(ForwardTimes* times) {
  ForwardBatch batch;
  batch.tokens = batch_.tokens();
  batch.positions = batch_.positions();
  batch.row_page = batch_.row_page();
  batch.row_slot = batch_.row_slot();
  batch.row_begin = batch_.row_begin();
  batch.page_begin = batch_.page_begin();
  batch.pages = batch_.pages();
  batch.kv_tokens = batch_.kv_tokens();
  batch.lora_segments = batch_.segments();
  if (!batch_.segments().empty()) {
    CHECK(loras_ != nullptr) << "the plan names an adapter, this executor has none";
    batch.lora = {loras_->matrices(0, LoraModule::kQ), loras_->matrices_stride(),
                  loras_->rank_max()};
  }
  batch.logits_rows = batch_.sample_rows();
  return transformer_.Forward(batch, stream_, times);
}

void ModelExecutor::SampleSequences(const StepPlan& plan, const float* logits, StepResult* result) {
  sampling_rows_.clear();
  for (const PlannedSequence& planned : plan.sequences) {
    if (!planned.samples) continue;
    sampling_rows_.push_back(samplers_[planned.sequence_slot].Row(
        plan.banned_tokens.data() + planned.banned_begin, planned.num_banned));
  }
  sampled_.assign(sampling_rows_.size(), SampledToken{});
  SamplingArgs args;
  args.logits = logits;
  args.vocab_size = limits_.vocab_size;
  args.rows = sampling_rows_.data();
  args.out = sampled_.data();
  args.num_rows = static_cast<int32_t>(sampling_rows_.size());
  Sample(args, stream_);

  auto sampled = sampled_.begin();
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
                                      ForwardTimes* times, SequenceResult* result) {
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
    sampled_.assign(count, SampledToken{});
    TokenLogprobsArgs args;
    args.logits = transformer_.Logits(logit_rows_, stream_, times);
    args.vocab_size = limits_.vocab_size;
    args.tokens = prompt.data() + planned.position_begin + done + 1;
    args.num_top = std::max(sampler.num_logprobs(), 0);
    args.out = sampled_.data();
    args.num_rows = count;
    TokenLogprobs(args, stream_);
    for (const SampledToken& row : sampled_) {
      result->not_finite |= row.not_finite;
      result->prompt_logprobs.push_back({row.token, row.logprob});
      result->prompt_top_logprobs.push_back(TopLogprobs(row));
    }
    done += count;
  }
}

}  // namespace graft
