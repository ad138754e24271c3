#include "model/packed_matrix.h"

#include <algorithm>

namespace graft {
namespace {

// What a thread works on at once stays in its caches.
constexpr int64_t kBlockRows = 64;
constexpr int64_t kBlockInputs = 512;

// Blocks of one thread.
class BlockWorker {
 public:
  explicit BlockWorker(const PackedMatrix& matrix)
      : matrix_(matrix),
        form_(matrix.form()),
        codes_(static_cast<size_t>(kBlockRows * kBlockInputs)),
        numbers_(static_cast<size_t>(kBlockInputs)),
        scales_(static_cast<size_t>(kBlockRows * form_.groups)),
        zeros_(scales_.size(), 0) {}

  // At most kBlockRows rows.
  void Run(const IndexRange& rows, char* out) {
    matrix_.Scales(rows, scales_.data());
    if (form_.code_book.empty()) matrix_.Zeros(rows, zeros_.data());
    const int64_t element = DTypeBytes(form_.dtype);
    for (int64_t begin = 0; begin < form_.k; begin += kBlockInputs) {
      const IndexRange inputs{begin, std::min(begin + kBlockInputs, form_.k)};
      matrix_.Codes(rows, inputs, codes_.data());
      for (int64_t row = 0; row < rows.size(); ++row) {
        FillRow(row, inputs);
        ConvertElements(DType::kF32, numbers_.data(), form_.dtype,
                        out + ((rows.begin + row) * form_.k + begin) * element, inputs.size());
      }
    }
  }

 private:
  void FillRow(int64_t row, const IndexRange& inputs) {
    const uint8_t* const codes = codes_.data() + row * inputs.size();
    const float* const scales = scales_.data() + row * form_.groups;
    const uint8_t* const zeros = zeros_.data() + row * form_.groups;
    if (!form_.group_of.empty()) {
      for (int64_t i = 0; i < inputs.size(); ++i) {
        const int32_t group = form_.group_of[static_cast<size_t>(inputs.begin + i)];
        Fill(codes + i, 1, scales[group], zeros[group], numbers_.data() + i);
      }
      return;
    }
    int64_t i = 0;
    while (i < inputs.size()) {
      const int64_t group = (inputs.begin + i) / form_.group_size();
      const int64_t end = std::min((group + 1) * form_.group_size() - inputs.begin, inputs.size());
      Fill(codes + i, end - i, scales[group], zeros[group], numbers_.data() + i);
      i = end;
    }
  }

  // n numbers of one group.
  void Fill(const uint8_t* codes, int64_t n, float scale, uint8_t zero, float* out) const {
    if (!form_.code_book.empty()) {
      for (int64_t i = 0; i < n; ++i) out[i] = form_.code_book[codes[i]] * scale;
      return;
    }
    for (int64_t i = 0; i < n; ++i) {
      out[i] = static_cast<float>(int32_t{codes[i]} - int32_t{zero}) * scale;
    }
  }

  const PackedMatrix& matrix_;
  const PackedForm& form_;
  std::vector<uint8_t> codes_;
  std::vector<float> numbers_;
  std::vector<float> scales_;
  std::vector<uint8_t> zeros_;
};

}  // namespace

void Dequantise(const PackedMatrix& matrix, void* out, ThreadPool& threads) {
  threads.ParallelFor(matrix.form().n, kBlockRows, [&](int64_t begin, int64_t end) {
    BlockWorker worker(matrix);
    for (int64_t row = begin; row < end; row += kBlockRows) {
      worker.Run({row, std::min(row + kBlockRows, end)}, static_cast<char*>(out));
    }
  });
}

}  // namespace graft
