// CpuTraining: TrainingDevice on the CPU, by a TrainingTransformer. Adapters' numbers are those of
// the host's TrainedLora and TrainedPrompt themselves. One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "learn/training_device.h"
#include "learn/training_transformer.h"

namespace graft {

class CpuTraining : public TrainingDevice {
 public:
  CpuTraining(const ModelConfig& config, const ModelWeights& weights, const TrainingLimits& limits,
              Stream& stream, std::function<void()> pause);

  int32_t page_tokens() const override { return transformer_.page_tokens(); }
  int32_t num_kept_layers() const override { return transformer_.num_kept_layers(); }
  void Add(const AdapterInTraining& adapter) override;
  void BeginGradients(std::span<const int32_t> adapters) override;
  std::vector<double> Run(const TrainingBatch& batch, const TrainingTargets& targets,
                          bool backward) override;
  void Apply(std::span<const Update> updates) override;
  void Fetch(int32_t) override {}
  void KeepBest(int32_t adapter) override;
  void TakeBest(int32_t adapter) override;
  std::vector<float> FetchBest(int32_t adapter) override { return best_[Index(adapter)]; }
  void Encode(const TrainingBatch& batch, std::span<const EncodedRows> rows) override;
  void BackwardEncoded(const TrainingBatch& batch, std::span<const EncodedRows> rows) override;
  void Map(int32_t map, std::span<const MappedRows> rows) override;
  void BackwardMap(int32_t map, std::span<const MappedRows> rows) override;
  void BeginPrompt(const TrainingBatch& batch, TrainedPrompt& prompt) override;
  void TakeStates(const TrainingBatch& batch, std::span<const int32_t> rows,
                  float* states) override;

 private:
  static size_t Index(int32_t adapter) { return static_cast<size_t>(adapter); }
  TrainedPrompt& PromptOf(int32_t adapter) { return *adapters_[Index(adapter)].prompt; }
  // After every change of an adapter's numbers.
  void Refresh(int32_t adapter);
  std::vector<std::span<float>> NumbersOf(int32_t adapter);
  // At most logits_rows_max rows each.
  std::vector<EncodedRows> HeadParts(std::span<const EncodedRows> rows) const;

  const ModelConfig config_;
  const TrainingLimits limits_;
  Stream& stream_;
  TrainingTransformer transformer_;
  std::vector<AdapterInTraining> adapters_;
  std::vector<std::vector<float>> best_;  // of each adapter; empty: none
};

}  // namespace graft
