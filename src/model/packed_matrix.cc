#include "model/packed_matrix.h"

#include <algorithm>

namespace graft {
namespace {

// What a thread works on at once stays in its caches.
constexpr int64_t kBlockRows = 64;
constexpr int64_t kBlockInputs = 512;

// Blocks of one thread, which become numbers of T.
template <typename T>
class BlockWorker {
 public:
  explicit BlockWorker(const PackedMatrix& matrix)
      : matrix_(matrix),
        form_(matrix.form()),
        num_codes_(int64_t{1} << form_.bits),
        codes_(static_cast<size_t>(kBlockRows * kBlockInputs)),
        scales_(static_cast<size_t>(kBlockRows * form_.groups)),
        zeros_(scales_.size(), 0),
        numbers_(static_cast<size_t>(num_codes_)) {}

  // At most kBlockRows rows.
  void Run(const IndexRange& rows, T* out) {
    matrix_.Scales(rows, scales_.data());
    if (form_.code_book.empty()) matrix_.Zeros(rows, zeros_.data());
    for (int64_t begin = 0; begin < form_.k; begin += kBlockInputs) {
      const IndexRange inputs{begin, std::min(begin + kBlockInputs, form_.k)};
      matrix_.Codes(rows, inputs, codes_.data());
      for (int64_t row = 0; row < rows.size(); ++row) {
        FillRow(row, inputs, out + (rows.begin + row) * form_.k + begin);
      }
    }
  }

 private:
  void FillRow(int64_t row, const IndexRange& inputs, T* out) {
    const uint8_t* const codes = codes_.data() + row * inputs.size();
    int64_t i = 0;
    while (i < inputs.size()) {
      const int64_t input = inputs.begin + i;
      int64_t group = input / form_.group_size();
      int64_t end = std::min((group + 1) * form_.group_size() - inputs.begin, inputs.size());
      if (!form_.group_of.empty()) {
        group = form_.group_of[static_cast<size_t>(input)];
        end = i + 1;
      }
      FillRun(row * form_.groups + group, codes + i, end - i, out + i);
      i = end;
    }
  }

  // n numbers of one group. Each code's number is made once, where there are more of them.
  void FillRun(int64_t group, const uint8_t* codes, int64_t n, T* out) {
    const auto place = static_cast<size_t>(group);
    const float scale = scales_[place];
    const int32_t zero = zeros_[place];
    if (n < num_codes_) {
      for (int64_t i = 0; i < n; ++i) out[i] = FromFloat<T>(ValueOf(codes[i], zero) * scale);
      return;
    }
    for (int32_t code = 0; code < num_codes_; ++code) {
      numbers_[static_cast<size_t>(code)] = FromFloat<T>(ValueOf(code, zero) * scale);
    }
    const T* const numbers = numbers_.data();
    for (int64_t i = 0; i < n; ++i) out[i] = numbers[codes[i]];
  }

  float ValueOf(int32_t code, int32_t zero) const {
    if (form_.code_book.empty()) return static_cast<float>(code - zero);
    return form_.code_book[static_cast<size_t>(code)];
  }

  const PackedMatrix& matrix_;
  const PackedForm& form_;
  const int64_t num_codes_;
  std::vector<uint8_t> codes_;
  std::vector<float> scales_;
  std::vector<uint8_t> zeros_;
  std::vector<T> numbers_;  // of each code of a group
};

}  // namespace

void Dequantise(const PackedMatrix& matrix, void* out, ThreadPool& threads) {
  DispatchDType(matrix.form().dtype, [&]<typename T>() {
    threads.ParallelFor(matrix.form().n, kBlockRows, [&](int64_t begin, int64_t end) {
      BlockWorker<T> worker(matrix);
      for (int64_t row = begin; row < end; row += kBlockRows) {
        worker.Run({row, std::min(row + kBlockRows, end)}, static_cast<T*>(out));
      }
    });
  });
}

}  // namespace graft
