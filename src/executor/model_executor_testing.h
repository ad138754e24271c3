// What the executor's tests share: a ModelExecutor over the demo model and three of its adapters,
// which may move between slots and arrive while steps run.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "adapters/adapter_test_util.h"
#include "adapters/lora_weights.h"
#include "adapters/paged_loader.h"
#include "adapters/peft_backend.h"
#include "adapters/peft_folder.h"
#include "base/random.h"
#include "cache/row_packer.h"
#include "executor/model_executor.h"
#include "model/model_test_util.h"
#include "model/test_session.h"

namespace graft {
namespace model_executor_test {

using testing::SourcePath;
using testing::TestDevice;

inline constexpr int32_t kPageTokens = 16;
inline constexpr int32_t kPagesPerSequence = 8;
inline constexpr int32_t kSequencesMax = 72;
inline constexpr int32_t kKvPages = kSequencesMax * kPagesPerSequence;
inline constexpr int32_t kAdapterPages = 200;
inline constexpr const char* kAdapters[] = {"austen", "carroll", "wells"};

struct Wanted {
  std::vector<int32_t> prompt;
  AdapterSlot adapter_slot = kNoAdapter;
  float temperature = 0.0f;
};

// What a sequence drew; log-probabilities are compared by their bits.
struct Drawn {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  bool operator==(const Drawn&) const = default;
};

class ModelExecutorTest : public ::testing::TestWithParam<std::tuple<DeviceKind, DType>> {
 protected:
  void SetUp() override {
    if (!device_.exists()) GTEST_SKIP() << "this machine shows no GPU";
    const std::string dir = SourcePath("demo/base");
    const DType dtype = std::get<1>(GetParam());
    config_ = *LoadModelConfig(dir);
    Change(config_);
    weights_ = std::move(
        *LoadWeights(dir, config_, TypesOf(dtype, device_.stream().device), device_.stream()));
    loras_ = std::make_unique<LoraStore>(config_, 3, device_.stream().device);
    for (int32_t slot = 0; slot < 3; ++slot) {
      loras_->Set(slot, ReadAdapter(kAdapters[slot]).TakeRows());
    }
    const KvLayout layout = MakeKvLayout(config_, kPageTokens, weights_.types.kv);
    pool_ = std::make_unique<KvPool>(layout, kKvPages + kAdapterPages, device_.stream().device);
    transformer_ = std::make_unique<Transformer>(
        config_, weights_, *pool_,
        TransformerLimits{.step_tokens_max = 128,
                          .logits_rows_max = kSequencesMax,
                          .sequences_max = kSequencesMax,
                          .context_tokens_max = kPageTokens * kPagesPerSequence},
        device_.stream());
  }

  // What a test has otherwise than the demo model.
  virtual void Change(ModelConfig& /*config*/) const {}

  // The last one changes the head, too.
  static std::string FolderOf(const std::string& name) {
    const std::string folder = SourcePath("demo/adapters/" + name);
    if (name != kAdapters[2]) return folder;
    static const testing::TempDir* const dir = [&] {
      auto* const made = new testing::TempDir();
      testing::WriteWithHead(folder, *LoadModelConfig(SourcePath("demo/base")), made->File("head"));
      return made;
    }();
    return dir->File("head");
  }
  static std::vector<std::string> Folders() {
    return {FolderOf(kAdapters[0]), FolderOf(kAdapters[1]), FolderOf(kAdapters[2])};
  }
  LoraWeights ReadAdapter(const std::string& name) {
    PeftFolder folder = *ReadPeftFolder(FolderOf(name), 1 << 30);
    const PeftConfig peft = *ParsePeftConfig(folder.config);
    return *LoraWeights::Load(*SafetensorsFile::FromBytes(std::move(folder.weights), name), peft,
                              config_, std::get<1>(GetParam()));
  }

  std::unique_ptr<ModelExecutor> MakeExecutor(const LoraStore* loras = nullptr,
                                              const ExecutorParts& parts = {}) {
    ExecutorLimits limits;
    limits.sequences_max = kSequencesMax;
    limits.step_tokens_max = 128;
    limits.context_tokens_max = kPageTokens * kPagesPerSequence;
    limits.num_pages = pool_->num_pages();
    limits.page_tokens = kPageTokens;
    limits.vocab_size = config_.vocab_size;
    limits.adapters_max = 3;
    limits.draft_tokens_max = 4;
    limits.runs_ahead = std::get<0>(GetParam()) != DeviceKind::kCpu;
    return std::make_unique<ModelExecutor>(*transformer_, loras != nullptr ? loras : loras_.get(),
                                           limits, device_.stream(), parts);
  }

  TestDevice device_{std::get<0>(GetParam())};
  ModelConfig config_;
  ModelWeights weights_;
  std::unique_ptr<LoraStore> loras_;
  std::unique_ptr<KvPool> pool_;
  std::unique_ptr<Transformer> transformer_;
};

inline const auto kExecutorDevices = ::testing::Values(
    std::tuple(DeviceKind::kCpu, DType::kBF16), std::tuple(DeviceKind::kCuda, DType::kBF16),
    std::tuple(DeviceKind::kCuda, DType::kF16), std::tuple(DeviceKind::kCuda, DType::kF32));

inline std::string NameOfDevice(
    const ::testing::TestParamInfo<std::tuple<DeviceKind, DType>>& info) {
  return std::string(std::get<0>(info.param) == DeviceKind::kCpu ? "cpu_" : "cuda_") +
         std::string(DTypeName(std::get<1>(info.param)));
}

// Adds a sequence's next rows to the plan: its prompt, or the last drawn token.
inline void AddSequence(const Wanted& wanted, const Drawn& drawn, int32_t slot, StepPlan* plan) {
  const auto num_prompt = static_cast<int32_t>(wanted.prompt.size());
  const bool is_first = drawn.tokens.empty();
  PlannedSequence sequence;
  sequence.sequence_slot = slot;
  sequence.adapter_slot = wanted.adapter_slot;
  sequence.token_begin = static_cast<int32_t>(plan->tokens.size());
  sequence.num_tokens = is_first ? num_prompt : 1;
  sequence.num_prompt_rows = is_first ? num_prompt : 0;
  sequence.position_begin =
      is_first ? 0 : num_prompt + static_cast<int32_t>(drawn.tokens.size()) - 1;
  sequence.page_begin = static_cast<int32_t>(plan->pages.size());
  sequence.num_pages = kPagesPerSequence;
  sequence.samples = true;
  if (is_first) {
    plan->tokens.insert(plan->tokens.end(), wanted.prompt.begin(), wanted.prompt.end());
    SamplingSpec sampling;
    sampling.temperature = wanted.temperature;
    sampling.seed = 5;
    sampling.num_logprobs = 1;
    plan->starts.push_back({slot, sampling, wanted.prompt, {}});
  } else {
    plan->tokens.push_back(drawn.tokens.back());
  }
  for (int32_t page = 0; page < kPagesPerSequence; ++page) {
    plan->pages.push_back((page * kSequencesMax + slot + 5) % kKvPages);
  }
  plan->sequences.push_back(sequence);
}

inline void AppendDrawn(const StepPlan& plan, const StepResult& result, std::vector<Drawn>* drawn) {
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    Drawn& one = (*drawn)[static_cast<size_t>(plan.sequences[i].sequence_slot)];
    one.tokens.push_back(result.sequences[i].token);
    one.logprobs.push_back(result.sequences[i].logprob);
  }
}

// Runs `wanted` together and draws `num_tokens` each. Sequence i joins at step i * join_every.
// `before` runs before each step and may move adapters to other slots.
inline std::vector<Drawn> Generate(Executor& executor, std::vector<Wanted> wanted,
                                   size_t num_tokens, size_t join_every = 0,
                                   const std::function<void(std::vector<Wanted>&)>& before = {}) {
  std::vector<Drawn> drawn(wanted.size());
  for (size_t step = 0;; ++step) {
    StepPlan plan;
    plan.step_id = step;
    if (before) before(wanted);
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (step < i * join_every || drawn[i].tokens.size() == num_tokens) continue;
      AddSequence(wanted[i], drawn[i], static_cast<int32_t>(i), &plan);
    }
    if (plan.sequences.empty()) return drawn;
    const StepResult result = executor.Run(plan);
    AppendDrawn(plan, result, &drawn);
  }
}

// Base rows first, then rows of one adapter after the other, as the scheduler orders them.
inline std::vector<Wanted> Company() {
  const std::vector<int32_t> prompt = {12, 800, 45, 3021, 7, 99, 2048};
  std::vector<Wanted> wanted;
  for (const AdapterSlot slot : {-1, -1, 0, 1, 1, 1, 2, 2}) {
    Wanted one{prompt, slot, wanted.size() % 3 == 2 ? 0.8f : 0.0f};
    one.prompt.push_back(static_cast<int32_t>(wanted.size()) + 300);
    wanted.push_back(one);
  }
  return wanted;
}

// Adapters in pages that are loaded again from the host's memory before every step, or while it
// runs.
class MovingAdapters {
 public:
  MovingAdapters(const ModelConfig& config, const ServedTypes& types, KvPool& pool,
                 const Device& device)
      : backend_(config, types, host_),
        pool_(pool),
        device_(device),
        loras_(config, 4, device),
        loader_(config, backend_, pool, loras_, device, metrics_, 2),
        ids_(kKvPages + kAdapterPages),
        packer_(ids_, PageUse::kAdapters, pool.layout().PageBytes()) {
    for (int32_t page = 0; page < kKvPages; ++page) kv_.push_back(ids_.Allocate());
  }

  // Moves adapter i to another slot and other pages, and overwrites its old pages.
  AdapterSlot Move(size_t i, const std::string& folder, const std::vector<AdapterSlot>& others) {
    if (slots_[i] >= 0) {
      loader_.Free(slots_[i]);
      Ruin(pages_[i]);
      pages_[i].Release();
    }
    AdapterSlot slot = static_cast<AdapterSlot>(random_.Below(4));
    while (std::count(others.begin(), others.end(), slot) > 0) slot = (slot + 1) % 4;
    const auto content = static_cast<int32_t>(i);
    loader_.Fetch({content, folder, hashes_[i], ""});
    const LoadEvent fetched = Next(LoadEvent::Kind::kFetched);
    hashes_[i] = fetched.facts.hash;
    // A gap in front, so that the adapter comes to lie elsewhere.
    const PackedRows gap =
        *packer_.Pack(std::vector<RowRun>{{64, 1 + static_cast<int32_t>(random_.Below(500))}});
    pages_[i] = *packer_.Pack(fetched.facts.rows);
    EXPECT_TRUE(loader_.Copy({{content, folder, hashes_[i], ""}, slot, pages_[i].extents()}));
    ++num_copying_;
    return slots_[i] = slot;
  }
  // Updates `wanted` to the slots in which the adapters of `company` are now.
  void Follow(const std::vector<Wanted>& company, std::vector<Wanted>* wanted) const {
    for (size_t w = 0; w < wanted->size(); ++w) {
      if (company[w].adapter_slot < 0) continue;
      (*wanted)[w].adapter_slot = slots_[static_cast<size_t>(company[w].adapter_slot)];
    }
  }
  // Waits until all moved adapters have arrived.
  void Settle() {
    while (num_copying_ > 0) Next(LoadEvent::Kind::kCopied);
  }
  // Slows copies down, so that a step reaches every layer before the layer's rows arrive.
  void SlowDown() {
    loader_.SetBeforeLayer(
        [](AdapterSlot, int32_t) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); });
  }
  AdapterSlot slot(size_t i) const { return slots_[i]; }
  const LoraStore& loras() const { return loras_; }
  const PageArrivals& arrivals() const { return loader_.arrivals(); }
  const HostStore& host() const { return host_; }

 private:
  LoadEvent Next(LoadEvent::Kind kind) {
    LoadEvent found;
    for (bool has_found = false; !has_found;) {
      loader_.WaitForEvent();
      for (LoadEvent& event : loader_.TakeEvents()) {
        CHECK(event.status.ok()) << event.status.ToString();
        if (event.kind == LoadEvent::Kind::kCopied) --num_copying_;
        if (event.kind != kind) continue;
        has_found = true;
        found = std::move(event);
      }
    }
    return found;
  }
  void Ruin(const PackedRows& pages) {
    OwnedStream stream(device_, nullptr);
    for (const PageExtent& extent : pages.extents()) {
      const std::string junk(static_cast<size_t>(extent.bytes), '\xff');  // NaN in any dtype
      CopyToDevice(static_cast<char*>(pool_.data()) + extent.page * pool_.layout().PageBytes() +
                       extent.page_begin,
                   junk.data(), extent.bytes, stream.get());
      Synchronize(stream.get());
    }
  }

  Metrics metrics_;
  HostStore host_{int64_t{64} << 20, metrics_};
  PeftBackend backend_;
  KvPool& pool_;
  const Device device_;
  LoraStore loras_;
  PagedLoader loader_;
  PagePool ids_;
  RowPacker packer_;
  std::vector<PageRef> kv_;
  PackedRows pages_[3];
  AdapterSlot slots_[3] = {-1, -1, -1};
  std::string hashes_[3];
  int num_copying_ = 0;
  Random random_{9};
};

// Runs `company` on adapters that arrive while the steps run that use them.
inline std::vector<Drawn> GenerateOnArrivals(Executor& executor, const std::vector<Wanted>& company,
                                             MovingAdapters& moving,
                                             const std::vector<std::string>& folders) {
  size_t step = 0;
  auto drawn = Generate(executor, company, 12, 1, [&](std::vector<Wanted>& wanted) {
    moving.Settle();
    const size_t first = step == 0 ? 0 : step % 4;
    const size_t end = step == 0 ? 3 : first + 1;
    // In the first step all adapters arrive at once, in every fourth step none does.
    for (size_t i = first; i < std::min<size_t>(end, 3); ++i) {
      moving.Move(i, folders[i], {moving.slot(0), moving.slot(1), moving.slot(2)});
    }
    ++step;
    moving.Follow(company, &wanted);
  });
  moving.Settle();
  return drawn;
}

}  // namespace model_executor_test
}  // namespace graft
