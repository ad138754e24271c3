// GpuMasters: the numbers of a TrainedLora or a TrainedPrompt in a GPU's memory: masters,
// gradients, moments, and the rounded rows that kernels read. One thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/adamw/adamw.h"
#include "kernels/round_rows/round_rows.h"
#include "tensor/buffer.h"
#include "tensor/cuda_memory.h"
#include "tensor/stream.h"

namespace graft {

// The host's, [n] each.
struct HostMasters {
  std::span<float> parameters, gradients, first_moments, second_moments;
  int64_t version = 0;
};
template <typename Trained>
HostMasters HostMastersOf(Trained& trained) {
  return {trained.parameters(), trained.gradients(), trained.first_moments(),
          trained.second_moments(), trained.version()};
}

class GpuMasters {
 public:
  GpuMasters(int64_t num_parameters, DType dtype, Stream& stream);
  static int64_t BytesFor(int64_t num_parameters, int64_t num_rows);

  // Where rounded masters go, before all else: memory of the device that the caller owns.
  void SetRows(const std::vector<RoundedRow>& rows);

  // Takes the host's numbers where those are newer.
  void Follow(const HostMasters& host);
  // The host gets these numbers where they are newer.
  void Fetch(const HostMasters& host);

  // The masters of now, beside them; these are the masters again; and at the end of `numbers`.
  void KeepBest();
  void TakeBest();
  void FetchBest(std::vector<float>* numbers) const;

  // Gradients are about to change: zeros.
  void BeginGradients();
  float* gradients() { return gradients_.as<float>(); }
  // Who changes them calls Round.
  float* parameters() { return parameters_.as<float>(); }
  // For AdamW, of the numbers from `begin` on; the rest of the item is the caller's.
  AdamWItem Item(int64_t begin = 0);
  // After every change of the masters: rounds them.
  void Round();

 private:
  Stream& stream_;
  const DType dtype_;
  const int64_t num_parameters_;
  int64_t version_ = 0;    // of the host's numbers that these come from
  bool is_ahead_ = false;  // of them
  int64_t num_rows_ = 0;
  Buffer parameters_, gradients_, first_moments_, second_moments_;
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
