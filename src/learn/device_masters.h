// DeviceMasters: TrainedNumbers where kernels take them. On the CPU they are the host's own, in a
// GPU's memory others, which follow those. One thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/adamw/adamw.h"
#include "learn/trained_numbers.h"
#include "tensor/buffer.h"
#include "tensor/cuda_memory.h"
#include "tensor/device_array.h"
#include "tensor/stream.h"

namespace graft {

class DeviceMasters {
 public:
  // Borrows both. A GPU has TrainedSize::bytes of them.
  DeviceMasters(TrainedNumbers& host, Stream& stream);

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
  // After every change of the masters: rounds them to the rows.
  void Round();

  // As TrainedNumbers has them, with pointers of the device.
  const void* const* row_pointers() const { return row_pointers_; }
  const char* copy() const { return copy_; }

 private:
  void PlaceRows();
  int64_t bytes() const { return host_.parameters().size_bytes(); }

  TrainedNumbers& host_;
  Stream& stream_;
  int64_t version_ = 0;    // of the host's numbers that these come from
  bool is_ahead_ = false;  // of them
  float *parameters_, *gradients_, *first_moments_, *second_moments_;
  const char* copy_;
  const void* const* row_pointers_;
  Buffer best_;                           // of parameters_, once there was one
  Buffer own_[4];                         // on a GPU, of these four
  Buffer own_copy_, own_rows_, rounded_;  // and of the rows; RoundedRow of each
};

}  // namespace graft
