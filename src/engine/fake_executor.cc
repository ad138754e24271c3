#include "engine/fake_executor.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <utility>

#include "base/check.h"
#include "base/random.h"

namespace graft {
namespace {

constexpr uint64_t kFirstDigest = 0x243f6a8885a308d3ULL;

uint64_t Fold(uint64_t digest, uint64_t value) { return RandomBits(digest, value); }

uint64_t HashText(const std::string& text) {
  uint64_t digest = kFirstDigest;
  for (const char c : text) digest = Fold(digest, static_cast<uint8_t>(c));
  return digest;
}

uint64_t NextDigest(uint64_t previous, int32_t token, uint64_t adapter, uint64_t seed) {
  return Fold(Fold(Fold(previous, static_cast<uint64_t>(token)), adapter), seed >> 32);
}

// The draw: a hash of all that attention would see, the seed and the draw index, walked on past
// tokens that are banned or, where not all are, not allowed, or not in the mask. -1: none is left.
int32_t Draw(uint64_t seen, uint64_t seed, int64_t draw_idx, std::span<const int32_t> banned,
             std::span<const int32_t> allowed, std::span<const uint32_t> mask, int32_t vocab_size) {
  const auto contains = [](std::span<const int32_t> tokens, int32_t token) {
    return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
  };
  const uint64_t bits = Fold(Fold(seen, seed), static_cast<uint64_t>(draw_idx));
  int32_t token = static_cast<int32_t>(bits % static_cast<uint64_t>(vocab_size));
  for (int32_t i = 0; i < vocab_size; ++i, token = (token + 1) % vocab_size) {
    const bool is_allowed = allowed.empty() || contains(allowed, token);
    const bool is_in_mask = mask.empty() || IsInMask(mask.data(), token);
    if (is_allowed && is_in_mask && !contains(banned, token)) return token;
  }
  return -1;
}

float LogprobOf(uint64_t digest, int32_t token) {
  return -static_cast<float>(RandomUniform(digest, static_cast<uint64_t>(token)));
}

bool Contains(std::span<const int32_t> values, int32_t value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

uint64_t Fold(uint64_t digest, std::initializer_list<int64_t> values) {
  for (const int64_t value : values) digest = Fold(digest, static_cast<uint64_t>(value));
  return digest;
}

uint64_t Fold(uint64_t digest, std::span<const int32_t> values) {
  digest = Fold(digest, values.size());
  for (const int32_t value : values) digest = Fold(digest, static_cast<uint64_t>(value));
  return digest;
}

// What sequences are sampled by is the requests', and no choice of the plan.
uint64_t FoldPlan(uint64_t digest, const StepPlan& plan) {
  digest = Fold(digest, plan.step_id);
  for (const SequenceStart& start : plan.starts) {
    digest = Fold(digest, {start.sequence_slot, start.num_virtual_tokens});
    digest = Fold(Fold(digest, start.prompt_tokens), start.output_tokens);
  }
  for (const PlannedSequence& one : plan.sequences) {
    digest = Fold(digest, {one.sequence_slot, one.adapter_slot, one.num_tokens, one.num_drafts,
                           one.num_prompt_rows, one.num_base_rows, one.position_begin,
                           one.num_virtual_rows, one.num_virtual_kv, one.num_pages, one.samples,
                           one.num_banned, one.has_mask, one.prompt_logprobs});
  }
  digest = Fold(Fold(Fold(digest, plan.tokens), plan.pages), plan.banned_tokens);
  return Fold(digest, {plan.ahead, plan.bridges});
}

}  // namespace

uint64_t SeedOfTenant(const std::string& tenant, uint32_t seed) {
  return (HashText(tenant) & 0xffffffff00000000ULL) | seed;
}

std::vector<int32_t> ReferenceOutput(const Request& request, std::span<const int32_t> eos_token_ids,
                                     const ExecutorLimits& limits, int32_t num_virtual_tokens) {
  const SamplingParams& params = request.sampling;
  uint64_t digest = kFirstDigest;
  uint64_t seen = kFirstDigest;
  int32_t num_read = 0;
  const auto read = [&](int32_t token) {
    const bool acts = num_read++ >= request.activation_position;
    const uint64_t adapter = HashText(acts ? request.adapter_hash() : "");
    digest = NextDigest(digest, token, adapter, params.seed);
    seen = Fold(seen, digest);
  };
  for (int32_t i = 0; i < num_virtual_tokens; ++i) read(VirtualTokenId(i));
  for (const int32_t token : request.prompt_tokens) read(token);
  const auto context_max = static_cast<size_t>(
      std::min<int64_t>(limits.context_tokens_max, int64_t{limits.num_pages} * limits.page_tokens) -
      num_virtual_tokens);
  std::vector<int32_t> output;
  while (output.size() < static_cast<size_t>(params.tokens_max) &&
         request.prompt_tokens.size() + output.size() < context_max) {
    std::vector<int32_t> banned;
    if (output.size() < static_cast<size_t>(params.tokens_min)) {
      banned = params.stop_token_ids;
      if (!params.ignore_eos) {
        banned.insert(banned.end(), eos_token_ids.begin(), eos_token_ids.end());
      }
    }
    for (const std::vector<int32_t>& word : params.bad_words) {
      std::vector<int32_t> end(output.end() - std::min(output.size(), word.size() - 1),
                               output.end());
      end.push_back(word.back());
      if (end == word) banned.push_back(word.back());
    }
    output.push_back(Draw(seen, params.seed, static_cast<int64_t>(output.size()), banned,
                          params.allowed_token_ids, {}, limits.vocab_size));
    if (!params.ignore_eos && Contains(eos_token_ids, output.back())) break;
    if (Contains(params.stop_token_ids, output.back())) break;
    read(output.back());
  }
  return output;
}

float ReferencePromptLogprob(const Request& request, int32_t position, int32_t num_virtual_tokens) {
  uint64_t digest = kFirstDigest;
  for (int32_t i = 0; i < num_virtual_tokens; ++i) {
    digest = NextDigest(digest, VirtualTokenId(i), HashText(request.adapter_hash()),
                        request.sampling.seed);
  }
  for (int32_t i = 0; i < position; ++i) {
    const uint64_t adapter =
        HashText(i >= request.activation_position ? request.adapter_hash() : "");
    digest = NextDigest(digest, request.prompt_tokens[static_cast<size_t>(i)], adapter,
                        request.sampling.seed);
  }
  return LogprobOf(digest, request.prompt_tokens[static_cast<size_t>(position)]);
}

FakeExecutor::FakeExecutor(const ExecutorLimits& limits, BridgeRates bridge_rates)
    : limits_(limits),
      bridge_rates_(std::move(bridge_rates)),
      cells_(static_cast<size_t>(limits.num_pages) * static_cast<size_t>(limits.page_tokens)),
      units_(static_cast<size_t>(limits.num_pages * limits.page_bytes / kRowAlignment)),
      adapters_(static_cast<size_t>(limits.adapters_max)),
      slots_(static_cast<size_t>(limits.sequences_max)) {}

void FakeExecutor::SetAdapter(int32_t slot, const std::string& content,
                              const std::vector<PageExtent>& extents) {
  SlotAdapter& adapter = adapters_[static_cast<size_t>(slot)];
  CHECK(!adapter.is_arriving) << "slot " << slot << " is set or freed while it is copied to";
  for (const StepPlan* const plan : plans_) CheckUntouched(*plan, slot, extents);
  adapter = {content, extents, !content.empty(), false};
}

// Copies are beside steps: none may write what a step that runs reads.
void FakeExecutor::CheckUntouched(const StepPlan& plan, int32_t slot,
                                  const std::vector<PageExtent>& extents) {
  for (const PlannedSequence& planned : plan.sequences) {
    CHECK_NE(planned.adapter_slot, slot) << "step " << plan.step_id << " reads the slot";
  }
  for (const PageExtent& extent : extents) {
    CHECK(std::find(plan.pages.begin(), plan.pages.end(), extent.page) == plan.pages.end())
        << "step " << plan.step_id << " reads page " << extent.page;
  }
}

void FakeExecutor::FinishArrival(int32_t slot) {
  SlotAdapter& adapter = adapters_[static_cast<size_t>(slot)];
  CHECK(adapter.is_arriving) << "slot " << slot;
  adapter.is_arriving = false;
  WriteRows(adapter);
}

void FakeExecutor::WriteRows(SlotAdapter& adapter) {
  if (std::exchange(adapter.is_written, true)) return;
  const uint64_t digest = HashText(adapter.content);
  for (const PageExtent& extent : adapter.extents) {
    for (int64_t offset = 0; offset < extent.bytes; offset += kRowAlignment) {
      units_[UnitOf(extent, offset)] = Fold(digest, extent.source_begin + offset);
    }
    // Whatever KV was there is gone.
    const auto page_tokens = static_cast<ptrdiff_t>(limits_.page_tokens);
    std::fill_n(cells_.begin() + extent.page * page_tokens, page_tokens, Cell());
  }
}

size_t FakeExecutor::UnitOf(const PageExtent& extent, int64_t offset) const {
  CHECK(extent.page >= 0 && extent.page < limits_.num_pages);
  CHECK_LE(extent.page_begin + extent.bytes, limits_.page_bytes);
  return static_cast<size_t>((extent.page * limits_.page_bytes + extent.page_begin + offset) /
                             kRowAlignment);
}

uint64_t FakeExecutor::ReadAdapter(int32_t slot) const {
  const SlotAdapter& adapter = adapters_[static_cast<size_t>(slot)];
  const uint64_t digest = HashText(adapter.content);
  if (!adapter.is_written) return digest;  // the CPU reads it where it comes from
  uint64_t read = digest;
  for (const PageExtent& extent : adapter.extents) {
    for (int64_t offset = 0; offset < extent.bytes; offset += kRowAlignment) {
      const uint64_t unit = units_[UnitOf(extent, offset)];
      if (unit != Fold(digest, extent.source_begin + offset)) read = Fold(read, unit);
    }
  }
  return read;
}

void FakeExecutor::Begin(const StepPlan& plan) {
  CHECK_EQ(plan.ahead ? 1u : 0u, plans_.size()) << "steps begun and not finished";
  if (plan.ahead) CheckAhead(plan);
  plans_.push_back(&plan);
  if (!plan.ahead) may_ask_ = true;
}

void FakeExecutor::Continue() {
  CHECK(plans_.size() == 1 && plans_.front()->ahead) << "no step was ahead";
  may_ask_ = true;
}

bool FakeExecutor::Wait(const std::atomic<bool>& interrupted, int64_t timeout_ns) {
  CHECK(!plans_.empty()) << "Wait without Begin";
  if (timeout_ns != kNever) last_timeout_ns_ = timeout_ns;
  const bool comes_late = timeout_ns != kNever && !is_late_;
  if (beside_ && !(is_beside_late_ && comes_late)) std::exchange(beside_, {})();
  if (interrupted) return false;
  return timeout_ns == kNever || std::exchange(is_late_, true);
}

StepResult FakeExecutor::Finish() {
  CHECK(!plans_.empty()) << "Finish without Begin";
  const StepPlan& plan = *plans_.front();
  plans_.pop_front();
  is_late_ = false;
  CheckPlan(plan);
  const bool is_bridged = IsBridged(plan);
  if (!is_bridged) AwaitArrivals(plan);
  ApplyStarts(plan);
  last_plan_ = plan;
  plans_hash_ = FoldPlan(plans_hash_, plan);
  ++num_steps_;
  StepResult result;
  result.step_id = plan.step_id;
  if (fails_) {
    fails_ = !plans_.empty();
    Fail(plan, &result);
    return result;
  }
  for (const PlannedSequence& planned : plan.sequences) {
    result.sequences.push_back(RunSequence(plan, planned));
  }
  may_ask_ = false;
  result.times.total_ns = 500 + row_ns_ * static_cast<int64_t>(plan.tokens.size());
  result.times.gap_ns = plan.ahead ? 0 : gap_ns_;
  result.times.idle_ns = idle_ns_;
  result.times.others_ns = others_ns_;
  if (is_bridged) {
    ++num_bridged_steps_;
    result.num_bridged_layers = 1;
    result.times.total_ns += bridge_ns_;
  }
  return result;
}

// The rules of the lower waist, StepPlan.
void FakeExecutor::CheckPlan(const StepPlan& plan) const {
  CHECK(!plan.sequences.empty());
  CHECK_LE(plan.tokens.size(), static_cast<size_t>(limits_.step_tokens_max));
  std::set<int32_t> sequence_slots;
  std::map<AdapterSlot, size_t> last_row_of_adapter;
  size_t num_tokens = 0;
  size_t num_pages = 0;
  int32_t num_drafts = 0;
  int32_t num_draws = 0;
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    const PlannedSequence& planned = plan.sequences[i];
    CHECK(sequence_slots.insert(planned.sequence_slot).second) << "planned twice";
    CHECK_GT(planned.num_tokens, planned.num_drafts);
    CHECK(planned.num_base_rows >= 0 && planned.num_base_rows <= planned.num_tokens);
    CheckDrafts(plan, planned);
    num_drafts += planned.num_drafts;
    num_draws += planned.samples ? 1 + planned.num_drafts : 0;
    CHECK(planned.num_prompt_rows == 0 || planned.num_prompt_rows == planned.num_tokens)
        << "rows of a prompt and drawn rows in one chunk";
    CHECK_EQ(static_cast<size_t>(planned.token_begin), num_tokens);
    CHECK_EQ(static_cast<size_t>(planned.page_begin), num_pages);
    const int32_t end = planned.position_begin + planned.num_tokens;
    CHECK_LE(end, limits_.context_tokens_max);
    CHECK_EQ(planned.num_pages, (end + limits_.page_tokens - 1) / limits_.page_tokens);
    CHECK(planned.num_virtual_rows == 0 || planned.num_virtual_kv == 0) << "one kind an adapter";
    CHECK_LE(planned.num_virtual_rows, planned.num_prompt_rows);
    CHECK_LE(planned.num_virtual_kv, planned.position_begin);
    num_tokens += static_cast<size_t>(planned.num_tokens);
    num_pages += static_cast<size_t>(planned.num_pages);
    if (planned.adapter_slot == kNoAdapter) {
      CHECK(i == 0 || plan.sequences[i - 1].adapter_slot == kNoAdapter) << "base rows come first";
    } else {
      CHECK(!adapters_[static_cast<size_t>(planned.adapter_slot)].content.empty())
          << "freed adapter";
    }
    const auto [it, is_new] = last_row_of_adapter.try_emplace(planned.adapter_slot, i);
    CHECK(is_new || it->second + 1 == i) << "rows of one adapter are not adjacent";
    it->second = i;
  }
  if (plan.bridges) {
    CHECK(std::any_of(plan.sequences.begin(), plan.sequences.end(), [this](const auto& planned) {
      return planned.adapter_slot != kNoAdapter &&
             adapters_[static_cast<size_t>(planned.adapter_slot)].is_arriving;
    })) << "everything is there";
  }
  CHECK_EQ(plan.num_drafts, num_drafts);
  CHECK_LE(num_draws, std::max(limits_.draws_max, limits_.sequences_max));
  CHECK_EQ(plan.tokens.size(), num_tokens);
  CHECK_EQ(plan.pages.size(), num_pages);
}

void FakeExecutor::CheckDrafts(const StepPlan& plan, const PlannedSequence& planned) {
  if (planned.num_drafts == 0) return;
  CHECK_GE(planned.num_drafts, 0);
  CHECK(planned.samples && planned.num_prompt_rows == 0 && planned.num_banned == 0 && !plan.ahead);
}

// Against the step that runs.
void FakeExecutor::CheckAhead(const StepPlan& plan) const {
  const StepPlan& before = *plans_.front();
  CHECK(limits_.runs_ahead);
  CHECK_EQ(plan.step_id, before.step_id + 1);
  CHECK(plan.num_drafts == 0 && before.num_drafts == 0);
  CHECK(plan.starts.empty() && plan.banned_tokens.empty());
  CHECK(!plan.bridges);
  CHECK_EQ(plan.sequences.size(), before.sequences.size());
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    const PlannedSequence& planned = plan.sequences[i];
    const PlannedSequence& last = before.sequences[i];
    CHECK_EQ(planned.sequence_slot, last.sequence_slot);
    CHECK_EQ(planned.adapter_slot, last.adapter_slot);
    CHECK_EQ(planned.position_begin, last.position_begin + last.num_tokens);
    CHECK(last.samples && planned.samples && planned.num_tokens == 1);
    CHECK(!last.prompt_logprobs && !planned.prompt_logprobs && planned.num_prompt_rows == 0);
    CHECK(planned.num_virtual_rows == 0 && planned.num_virtual_kv == 0);
    CHECK_EQ(plan.tokens[i], -1) << "nobody can know it yet";
  }
}

bool FakeExecutor::IsBridged(const StepPlan& plan) const {
  if (!plan.bridges || bridge_rates_.ranks.empty()) return false;
  return std::any_of(plan.sequences.begin(), plan.sequences.end(), [this](const auto& planned) {
    return planned.adapter_slot != kNoAdapter &&
           !adapters_[static_cast<size_t>(planned.adapter_slot)].is_written;
  });
}

void FakeExecutor::AwaitArrivals(const StepPlan& plan) {
  bool is_gated = false;
  for (const PlannedSequence& planned : plan.sequences) {
    if (planned.adapter_slot == kNoAdapter) continue;
    SlotAdapter& adapter = adapters_[static_cast<size_t>(planned.adapter_slot)];
    is_gated = is_gated || !adapter.is_written;
    WriteRows(adapter);
  }
  if (is_gated) ++num_gated_steps_;
}

void FakeExecutor::ApplyStarts(const StepPlan& plan) {
  for (const SequenceStart& start : plan.starts) {
    auto& slot = slots_[static_cast<size_t>(start.sequence_slot)];
    slot = SlotState{
        .sampling = start.sampling,
        .num_prompt = static_cast<int64_t>(start.prompt_tokens.size()) + start.num_virtual_tokens,
        .num_drawn = static_cast<int64_t>(start.output_tokens.size()),
        .num_virtual_tokens = start.num_virtual_tokens,
        .poisoned = Contains(start.prompt_tokens, kPoisonToken)};
    for (int32_t i = 0; i < start.num_virtual_tokens; ++i) {
      slot->tokens.push_back(VirtualTokenId(i));
    }
    slot->tokens.insert(slot->tokens.end(), start.prompt_tokens.begin(), start.prompt_tokens.end());
    slot->tokens.insert(slot->tokens.end(), start.output_tokens.begin(), start.output_tokens.end());
  }
}

FakeExecutor::Cell& FakeExecutor::CellOf(const StepPlan& plan, const PlannedSequence& planned,
                                         int32_t position) {
  const int32_t page =
      plan.pages[static_cast<size_t>(planned.page_begin + position / limits_.page_tokens)];
  CHECK(page >= 0 && page < limits_.num_pages);
  return cells_[static_cast<size_t>(page) * static_cast<size_t>(limits_.page_tokens) +
                static_cast<size_t>(position % limits_.page_tokens)];
}

// Nothing that the step leaves in its pages may be read.
void FakeExecutor::Fail(const StepPlan& plan, StepResult* result) {
  result->status = UnavailableError("memory ran out");
  result->sequences.resize(plan.sequences.size());
  for (const PlannedSequence& planned : plan.sequences) {
    for (int32_t row = -planned.num_virtual_kv; row < planned.num_tokens; ++row) {
      CellOf(plan, planned, planned.position_begin + row) = {};
    }
  }
}

void FakeExecutor::WriteVirtualKv(const StepPlan& plan, const PlannedSequence& planned,
                                  uint64_t adapter, uint64_t seed) {
  for (int32_t row = -planned.num_virtual_kv; row < 0; ++row) {
    ReadRow(plan, planned, row, VirtualTokenId(planned.position_begin + row), adapter, seed);
  }
}

// A vector of one number: the mean of the prompt's tokens, or the last one. The adapter's own count
// for nothing.
void FakeExecutor::Pool(const PlannedSequence& planned, size_t position, SlotState& slot,
                        SequenceResult* result) {
  if (slot.tokens[position] >= 0) slot.pooled += slot.tokens[position];
  if (static_cast<int64_t>(position) + 1 != slot.num_prompt) return;
  const bool is_mean = planned.pooling == RowPooling::kMean;
  const int64_t num_asked = slot.num_prompt - slot.num_virtual_tokens;
  const double vector = is_mean ? slot.pooled / static_cast<double>(num_asked)
                                : static_cast<double>(slot.tokens[position]);
  result->embedding = {static_cast<float>(vector)};
}

SequenceResult FakeExecutor::RunSequence(const StepPlan& plan, const PlannedSequence& planned) {
  auto& slot = slots_[static_cast<size_t>(planned.sequence_slot)];
  CHECK(slot.has_value()) << "slot " << planned.sequence_slot << " was never started";
  const SamplingSpec& sampling = slot->sampling;
  const uint64_t seed = sampling.seed;
  const uint64_t adapter =
      planned.adapter_slot == kNoAdapter ? HashText("") : ReadAdapter(planned.adapter_slot);
  SequenceResult result;
  if (plan.ahead || planned.num_drafts > 0) {
    CHECK(sampling.repetition_penalty == 1.0f && sampling.frequency_penalty == 0.0f &&
          sampling.presence_penalty == 0.0f)
        << "the last token is counted before the draw";
  }
  if (plan.ahead && slot->poisoned) {
    result.not_finite = true;
    return result;  // it drew no token
  }
  if (plan.ahead && static_cast<size_t>(planned.position_begin) >= slot->tokens.size()) {
    // The step before drew nothing for it: its row is of any token.
    ReadRow(plan, planned, 0, slot->tokens.back() ^ 1, adapter, seed);
    CHECK(!FillMask(plan, planned)) << "a mask for a token that was not drawn";
    result.left_out = true;
    return result;
  }
  WriteVirtualKv(plan, planned, adapter, seed);
  const int32_t num_sure = planned.num_tokens - planned.num_drafts;
  for (int32_t row = 0; row < num_sure; ++row) {
    const auto position = static_cast<size_t>(planned.position_begin + row);
    CHECK_LT(position, slot->tokens.size()) << "a token it was not told of";
    const int32_t token = plan.ahead ? slot->tokens.back()
                                     : plan.tokens[static_cast<size_t>(planned.token_begin + row)];
    CHECK_EQ(token, slot->tokens[position]) << "row of another sequence";
    CHECK_EQ(row < planned.num_virtual_rows, token < 0) << "a row of no token";
    ReadRow(plan, planned, row, token, adapter, seed);
    if (planned.pooling != RowPooling::kNone) Pool(planned, position, *slot, &result);
    const bool is_told =
        row >= planned.num_virtual_rows && static_cast<int64_t>(position) + 1 < slot->num_prompt;
    if (planned.prompt_logprobs && is_told) {
      const int32_t next = slot->tokens[position + 1];
      const uint64_t digest = CellOf(plan, planned, planned.position_begin + row).digest;
      result.prompt_logprobs.push_back({.token = next, .logprob = LogprobOf(digest, next)});
      result.prompt_top_logprobs.push_back({result.prompt_logprobs.back()});
    }
  }
  if (!planned.samples) return result;
  if (slot->poisoned) {
    result.not_finite = true;
    return result;
  }
  result.left_out = !FillMask(plan, planned);
  if (result.left_out) return result;
  static_cast<DrawnToken&>(result) = DrawAfter(plan, planned, num_sure - 1);
  slot->poisoned = result.not_finite = result.token < 0;
  if (result.not_finite) return result;
  // A draft leaves something in its page whether it was right or not.
  bool is_right = true;
  for (int32_t row = num_sure; row < planned.num_tokens; ++row) {
    const int32_t token = plan.tokens[static_cast<size_t>(planned.token_begin + row)];
    is_right = is_right && token == slot->tokens.back();
    ReadRow(plan, planned, row, token, adapter, seed);
    if (is_right) result.further.push_back(DrawAfter(plan, planned, row));
  }
  return result;
}

void FakeExecutor::ReadRow(const StepPlan& plan, const PlannedSequence& planned, int32_t row,
                           int32_t token, uint64_t adapter, uint64_t seed) {
  if (row >= 0 && row < planned.num_base_rows) adapter = HashText("");
  const int32_t position = planned.position_begin + row;
  const uint64_t previous =
      position == 0 ? kFirstDigest : CellOf(plan, planned, position - 1).digest;
  CellOf(plan, planned, position) = {.digest = NextDigest(previous, token, adapter, seed),
                                     .position = position};
  const int64_t page = plan.pages[static_cast<size_t>(planned.page_begin) +
                                  static_cast<size_t>(position / limits_.page_tokens)];
  std::fill(units_.begin() + page * limits_.page_bytes / kRowAlignment,
            units_.begin() + (page + 1) * limits_.page_bytes / kRowAlignment, 0);
}

// What the row sees decides.
DrawnToken FakeExecutor::DrawAfter(const StepPlan& plan, const PlannedSequence& planned,
                                   int32_t row) {
  SlotState& slot = *slots_[static_cast<size_t>(planned.sequence_slot)];
  uint64_t seen = kFirstDigest;
  for (int32_t position = 0; position <= planned.position_begin + row; ++position) {
    const Cell& cell = CellOf(plan, planned, position);
    seen = Fold(seen, cell.position == position ? cell.digest : 0);
  }
  const auto banned = std::span(plan.banned_tokens)
                          .subspan(static_cast<size_t>(planned.banned_begin),
                                   static_cast<size_t>(planned.num_banned));
  const int32_t token = Draw(seen, slot.sampling.seed, slot.num_drawn++, banned,
                             slot.sampling.allowed_tokens, words_, limits_.vocab_size);
  if (token < 0) return {};
  slot.tokens.push_back(token);
  return {.token = token, .logprob = LogprobOf(seen, token)};
}

// Into words_, which are empty where all tokens may be drawn. False: there is no mask yet.
bool FakeExecutor::FillMask(const StepPlan& plan, const PlannedSequence& planned) {
  words_.clear();
  if (!planned.has_mask) return true;
  CHECK(masks_ != nullptr) << "nobody knows the masks";
  CHECK(may_ask_) << "Continue comes first";
  words_.resize(static_cast<size_t>(NumMaskWords(limits_.vocab_size)));
  return masks_->FillMask(plan, static_cast<size_t>(&planned - plan.sequences.data()), words_);
}

}  // namespace graft
