// DeviceMasters: the numbers of a TrainedLora or a TrainedPrompt where kernels take them: masters,
// gradients, moments, and the rounded rows. On the CPU they are the host's own, in a GPU's memory
// others. One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/adamw/adamw.h"
#include "kernels/round_rows/round_rows.h"
#include "tensor/buffer.h"
#include "tensor/cuda_memory.h"
#include "tensor/stream.h"

namespace graft {

// The host's, [n] each, for as long as these live.
struct HostMasters {
  std::span<float> parameters, gradients, first_moments, second_moments;
  std::function<int64_t()> version;
  std::function<void()> round;  // to what kernels read on the CPU
};
template <typename Trained>
HostMasters HostMastersOf(Trained& trained) {
  return {trained.parameters(),
          trained.gradients(),
          trained.first_moments(),
          trained.second_moments(),
          [&trained] { return trained.version(); },
          [&trained] { trained.Refresh(); }};
}

class DeviceMasters {
 public:
  DeviceMasters(HostMasters host, DType dtype, Stream& stream);
  static int64_t BytesFor(int64_t num_parameters, int64_t num_rows);

  // On a GPU where rounded masters go, before all else: memory of it that the caller owns.
  void SetRows(const std::vector<RoundedRow>& rows);

  // Takes the host's numbers where those are newer.
  void Follow();
  // The host gets these numbers where they are newer.
  void Fetch();

  // The masters of now, beside them; these are the masters again; and at the end of `numbers`.
  void KeepBest();
  void TakeBest();
  void FetchBest(std::vector<float>* numbers) const;

  // Gradients are about to change: zeros.
  void BeginGradients();
  float* gradients() { return gradients_; }
  // Who changes them calls Round.
  float* parameters() { return parameters_; }
  // For AdamW, of the numbers from `begin` on; the rest of the item is the caller's.
  AdamWItem Item(int64_t begin = 0);
  // After every change of the masters: rounds them.
  void Round();

 private:
  int64_t bytes() const { return num_parameters_ * int64_t{sizeof(float)}; }

  const HostMasters host_;
  Stream& stream_;
  const DType dtype_;
  const int64_t num_parameters_;
  int64_t version_ = 0;    // of the host's numbers that these come from
  bool is_ahead_ = false;  // of them
  int64_t num_rows_ = 0;
  Buffer own_[4];  // on a GPU, of these four
  float *parameters_, *gradients_, *first_moments_, *second_moments_;
  Buffer best_;     // of parameters_, once there was one
  Buffer rounded_;  // RoundedRow of each
};

// The values in the stream's device when this returns.
template <typename T>
Buffer OnDevice(const std::vector<T>& values, const Stream& stream) {
  const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
  Buffer buffer(bytes, stream.device);
  CopyToDevice(buffer.data(), values.data(), bytes, stream);
  Synchronize(stream);
  return buffer;
}

}  // namespace graft
