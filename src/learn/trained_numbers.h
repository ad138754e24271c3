// TrainedNumbers: an adapter's LoRA or virtual tokens while they learn. The masters, their
// gradients and moments are fp32. Kernels compute with a copy in the served dtype, rounded as a
// loader rounds a file, so that training computes what serving will. All is in the host's memory; a
// GPU that trains has its own (DeviceMasters). One thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/round_rows/round_rows.h"
#include "tensor/buffer.h"
#include "tensor/dtype.h"

namespace graft {

// How many numbers there are, and the memory that they take.
struct TrainedSize {
  int64_t parameters = 0;
  int64_t rows = 0;  // of the copy
  int64_t copy_bytes = 0;

  void AddRows(int64_t count, int64_t n, DType dtype);
  // A parameter has a gradient and two moments.
  int64_t bytes() const {
    constexpr int64_t kRow = sizeof(RoundedRow) + sizeof(void*);
    return parameters * 4 * int64_t{sizeof(float)} + rows * kRow + copy_bytes;
  }
};

class TrainedNumbers {
 public:
  virtual ~TrainedNumbers() = default;
  TrainedNumbers(const TrainedNumbers&) = delete;
  TrainedNumbers& operator=(const TrainedNumbers&) = delete;

  // All masters and, in the same order, their gradients and moments.
  std::span<float> parameters() { return parameters_; }
  std::span<float> gradients() { return gradients_; }
  std::span<float> first_moments() { return first_moments_; }
  std::span<float> second_moments() { return second_moments_; }

  // Rounds the masters to the copy. Call it after every change of parameters(). version() counts
  // the calls and so tells another device when its numbers are out of date.
  virtual void Refresh();
  int64_t version() const { return version_; }

  DType dtype() const { return dtype_; }  // of the copy
  // The rows of the copy, with the masters that they are rounded from or as pointers alone.
  std::span<const RoundedRow> rows() const { return rows_; }
  const void* const* row_pointers() const { return row_pointers_.data(); }
  const Buffer& copy() const { return copy_; }

 protected:
  TrainedNumbers(const TrainedSize& size, DType dtype);
  // Adds the copy's next row: n masters from `begin` on.
  void AddRow(int64_t begin, int64_t n);

 private:
  const DType dtype_;
  int64_t version_ = 0;
  std::vector<float> parameters_, gradients_, first_moments_, second_moments_;
  Buffer copy_;
  int64_t copied_bytes_ = 0;  // of rows so far
  std::vector<RoundedRow> rows_;
  std::vector<const void*> row_pointers_;
};

}  // namespace graft
