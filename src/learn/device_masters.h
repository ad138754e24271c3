// DeviceMasters: TrainedNumbers where kernels read them. On the CPU they are the host's own. On a
// GPU they are copies in its memory that follow the host's. One thread at a time.
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
  // Borrows both. On a GPU it takes TrainedSize::bytes.
  DeviceMasters(TrainedNumbers& host, Stream& stream);

  // Copies the host's numbers if those are newer.
  void Follow();
  // Copies these numbers to the host if these are newer.
  void Fetch();

  // Keeps a copy of the masters, makes it the masters again, and appends it to `numbers`.
  void KeepBest();
  void TakeBest();
  void FetchBest(std::vector<float>* numbers) const;

  // Sets the gradients to zero before a step changes them.
  void BeginGradients();
  float* gradients() { return gradients_; }
  // The caller calls Round after changing them.
  float* parameters() { return parameters_; }
  // The numbers from `begin` on, for AdamW. The caller fills in the rest of the item.
  AdamWItem Item(int64_t begin = 0);
  // Rounds the masters to the rows. It is called after every change of the masters.
  void Round();

  // As in TrainedNumbers, with pointers into the device's memory.
  const void* const* row_pointers() const { return row_pointers_; }
  const char* copy() const { return copy_; }

 private:
  void PlaceRows();
  int64_t bytes() const { return host_.parameters().size_bytes(); }

  TrainedNumbers& host_;
  Stream& stream_;
  int64_t version_ = 0;    // the version of the host's numbers that these come from
  bool is_ahead_ = false;  // these are newer than the host's
  float *parameters_, *gradients_, *first_moments_, *second_moments_;
  const char* copy_;
  const void* const* row_pointers_;
  Buffer best_;                           // a copy of parameters_, from the first KeepBest on
  Buffer own_[4];                         // on a GPU, the memory of the four arrays above
  Buffer own_copy_, own_rows_, rounded_;  // and of the rows; one RoundedRow each
};

}  // namespace graft
