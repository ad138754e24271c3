// A teacher's hidden states: taken, compared with the student's, and the gradients of their
// distance. Which way the student's differ is found in the forward and kept: what is computed
// again, or kept rounded, then has the same gradients.
#include <algorithm>

#include "base/check.h"
#include "kernels/embedding/embedding.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/state_distance/state_distance.h"
#include "learn/gpu_training.h"
#include "tensor/cuda_memory.h"

namespace graft {

void GpuTraining::PutTaught(const TaughtStates& taught) {
  on_host_ = taught.states;
  taught_index_.clear();
  if (on_host_.empty()) return;
  const auto num_targets = static_cast<size_t>(batch_.num_targets);
  CHECK_EQ(taught.states.size(), (static_cast<size_t>(config_.num_layers) + 1) * num_targets);
  CHECK_EQ(taught.shares.size(), taught.states.size());
  const auto bytes = static_cast<int64_t>(num_targets * sizeof(double));
  int32_t count = 0;
  for (size_t begin = 0; begin < on_host_.size(); begin += num_targets) {
    const auto states = on_host_.subspan(begin, num_targets);
    const bool has_any = std::ranges::any_of(states, [](const float* s) { return s != nullptr; });
    taught_index_.push_back(has_any ? count : -1);
    if (!has_any) continue;
    CHECK_LT(count, limits_.taught_states_max);
    // Rows of shares are as far apart as a batch may have targets.
    CopyToDevice(shares_.as<double>() + int64_t{count} * limits_.rows_max,
                 taught.shares.data() + begin, bytes, stream_);
    ++count;
  }
  ZeroOnDevice(distances_.data(), bytes, stream_);
}

void GpuTraining::BringTaught(int32_t boundary) {
  if (!IsTaught(boundary)) return;
  const GpuPieces::Break others(pieces_);
  const auto n = static_cast<size_t>(config_.hidden_size);
  const auto num_targets = static_cast<size_t>(batch_.num_targets);
  taught_on_host_.resize(num_targets * n);
  for (size_t i = 0; i < num_targets; ++i) {
    const float* const states = on_host_[static_cast<size_t>(boundary) * num_targets + i];
    if (states != nullptr) std::copy_n(states, n, taught_on_host_.data() + i * n);
  }
  CopyToDevice(taught_.data(), taught_on_host_.data(),
               static_cast<int64_t>(taught_on_host_.size() * sizeof(float)), stream_);
}

void GpuTraining::CompareStates(int32_t boundary, const float* states, const int32_t* rows,
                                int32_t begin, int32_t count) {
  if (!IsTaught(boundary)) return;
  const int64_t n = config_.hidden_size;
  const int64_t first =
      int64_t{taught_index_[static_cast<size_t>(boundary)]} * limits_.rows_max + begin;
  StateDistance({.states = states,
                 .rows = rows,
                 .taught = taught_.as<float>() + begin * n,
                 .shares = shares_.as<double>() + first,
                 .num_targets = count,
                 .n = n,
                 .losses = distances_.as<double>() + begin,
                 .signs = signs_.as<int8_t>() + first * n},
                stream_);
}

void GpuTraining::AddStateGradients(int32_t boundary, float* d_states, const int32_t* rows,
                                    int32_t begin, int32_t count, void* copy) {
  if (!IsTaught(boundary)) return;
  const int64_t n = config_.hidden_size;
  const int64_t first =
      int64_t{taught_index_[static_cast<size_t>(boundary)]} * limits_.rows_max + begin;
  StateGradient({.signs = signs_.as<int8_t>() + first * n,
                 .rows = rows,
                 .shares = shares_.as<double>() + first,
                 .num_targets = count,
                 .n = n,
                 .d_states = d_states,
                 .copy = copy,
                 .copy_dtype = dtype_},
                stream_);
}

// Picking rows is what Embedding does, with the hidden states for its table.
void GpuTraining::PickStates(const int32_t* rows, int64_t num_rows) {
  Embedding({.table = hidden_.data(),
             .dtype = DType::kF32,
             .vocab_size = batch_.num_rows,
             .tokens = rows,
             .out = head_hidden_.as<float>(),
             .num_tokens = num_rows,
             .n = config_.hidden_size},
            stream_);
}

const float* GpuTraining::NormPicked(int64_t num_rows) {
  RmsNorm({.x = head_hidden_.as<float>(),
           .x_stride = config_.hidden_size,
           .weight = weights_.final_norm.as<float>(),
           .out = head_states_.data(),
           .out_stride = config_.hidden_size,
           .num_tokens = num_rows,
           .n = config_.hidden_size,
           .epsilon = config_.rms_norm_epsilon},
          stream_);
  return head_states_.as<float>();
}

void GpuTraining::TakeStates(const TrainingBatch& batch, std::span<const int32_t> rows, bool all,
                             float* states) {
  PutBatch(batch, {.rows = rows});
  learns_ = false;
  const int64_t n = config_.hidden_size;
  const auto take = [&](bool normed) {
    for (int32_t begin = 0; begin < batch_.num_targets; begin += limits_.logits_rows_max) {
      const int32_t count = std::min(limits_.logits_rows_max, batch_.num_targets - begin);
      PickStates(batch_.rows + begin, count);
      const float* const from = normed ? NormPicked(count) : head_hidden_.as<float>();
      const GpuPieces::Break others(pieces_);
      CopyFromDevice(states, from, count * n * int64_t{sizeof(float)}, stream_);
      states += count * n;
    }
  };
  {
    const GpuPieces::Scope piece(pieces_);
    Embed();
    for (int32_t layer = 0; layer < config_.num_layers; ++layer) {
      if (all) take(false);
      ComputeLayer(layer, ActivationsOf(layer));
      FinishLayer(layer);
      pieces_.AfterLayer();
    }
    take(true);
  }
  Synchronize(stream_);
}

}  // namespace graft
