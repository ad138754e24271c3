#include "learn/trained_numbers.h"

#include "adapters/lora_weights.h"
#include "base/check.h"

namespace graft {

void TrainedSize::AddRows(int64_t count, int64_t n, DType dtype) {
  parameters += count * n;
  rows += count;
  copy_bytes += count * LoraRowBytes(n, dtype);
}

TrainedNumbers::TrainedNumbers(const TrainedSize& size, DType dtype)
    : dtype_(dtype), copy_(size.copy_bytes) {
  for (std::vector<float>* all : {&parameters_, &gradients_, &first_moments_, &second_moments_}) {
    all->resize(static_cast<size_t>(size.parameters));
  }
  rows_.reserve(static_cast<size_t>(size.rows));
  row_pointers_.reserve(static_cast<size_t>(size.rows));
}

void TrainedNumbers::AddRow(int64_t begin, int64_t n) {
  char* const out = copy_.as<char>() + copied_bytes_;
  copied_bytes_ += LoraRowBytes(n, dtype_);
  CHECK_LE(copied_bytes_, copy_.bytes());
  rows_.push_back({begin, n, out});
  row_pointers_.push_back(out);
}

void TrainedNumbers::Refresh() {
  ++version_;
  for (const RoundedRow& row : rows_) {
    ConvertElements(DType::kF32, parameters_.data() + row.begin, dtype_, row.out, row.n);
  }
}

}  // namespace graft
