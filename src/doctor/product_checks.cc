// Checks of the dense products and of LoRA's: few rows, as decode has them, and many, as prompts.
#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "doctor/op_check.h"
#include "doctor/op_operands.h"
#include "kernels/gemm/gemm.h"
#include "kernels/lora/lora.h"

namespace graft {
namespace {

// A sum with the sum of its terms' magnitudes.
struct DoubleSum {
  double value = 0.0;
  double magnitude = 0.0;

  void Add(double term) {
    value += term;
    magnitude += std::fabs(term);
  }
};

DoubleSum Dot(const float* a, const float* b, int64_t n) {
  DoubleSum sum;
  for (int64_t i = 0; i < n; ++i) sum.Add(double{a[i]} * b[i]);
  return sum;
}

// y += x W^T of m rows.
void CompareProduct(int64_t m, DType dtype, Stream& stream, Comparison* found) {
  constexpr int64_t kN = 200, kK = 264;
  const DType x_dtype = ActivationsBeside(dtype, stream);
  const std::vector<float> x = DrawNumbers(m * kK, 7, x_dtype), w = DrawNumbers(kN * kK, 8, dtype);
  const std::vector<float> before = DrawNumbers(m * kN, 9, DType::kF32);
  const Buffer device_x = NumbersOnDevice(x, x_dtype, stream);
  Buffer y = NumbersOnDevice(before, DType::kF32, stream);
  const TensorView view{w.data(), DType::kF32, {kN, kK}};
  const GemmWeight weight = GemmWeight::Pack({&view, 1}, dtype, stream);
  Gemm({.x = device_x.data(),
        .x_stride = kK,
        .m = m,
        .weight = &weight,
        .y = y.as<float>(),
        .y_stride = kN,
        .epilogue = {.accumulate = true},
        .x_is_fp32 = stream.device.is_cpu()},
       stream);
  const std::vector<float> actual = NumbersFrom(y, DType::kF32, m * kN, stream);
  for (int64_t i = 0; i < m * kN; ++i) {
    DoubleSum sum = Dot(x.data() + i / kN * kK, w.data() + i % kN * kK, kK);
    sum.Add(before[i]);
    found->Expect("of " + std::to_string(m) + " rows element", i, actual[i], sum.value,
                  sum.magnitude);
  }
}

// Two adapters of unlike ranks, and rows between theirs that have none.
constexpr int32_t kAdapterRanks[] = {16, 5};
constexpr int32_t kLargestRank = 16;
constexpr float kAdapterScale = 0.5f;
constexpr int64_t kLoraK = 136, kLoraN = 96;

struct AdapterNumbers {
  std::vector<float> a;  // [rank, kLoraK]
  std::vector<float> b;  // [rank, kLoraN]
};

// Both adapters' rows where the device reads them, and the tables that point there.
struct DeviceAdapters {
  DeviceAdapters(const std::vector<AdapterNumbers>& adapters, DType dtype, const Stream& stream) {
    std::vector<const void*> pointers;
    for (const AdapterNumbers& adapter : adapters) {
      for (const auto& [numbers, n] : {std::pair(&adapter.a, kLoraK), {&adapter.b, kLoraN}}) {
        numbers_.push_back(NumbersOnDevice(*numbers, dtype, stream));
        const auto rank = static_cast<int64_t>(numbers->size()) / n;
        for (int64_t j = 0; j < rank; ++j) {
          pointers.push_back(numbers_.back().as<char>() + j * n * DTypeBytes(dtype));
        }
      }
    }
    pointers_ = OnDevice(pointers, stream);
    const auto* rows = pointers_.as<const void*>();
    std::vector<LoraMatrix> matrices;
    for (const int32_t rank : kAdapterRanks) {
      matrices.push_back(
          {.a_rows = rows, .b_rows = rows + rank, .rank = rank, .scale = kAdapterScale});
      rows += 2 * rank;
    }
    matrices_ = OnDevice(matrices, stream);
  }
  const LoraMatrix* matrices() const { return matrices_.as<LoraMatrix>(); }

 private:
  std::vector<Buffer> numbers_;
  Buffer pointers_;
  Buffer matrices_;
};

}  // namespace

Comparison CheckGemm(DType dtype, Stream& stream) {
  // Sums are kept in fp32. Beside bf16 weights the CPU rounds x to bf16 with half of what is lost.
  const bool rounds_x = stream.device.is_cpu() && dtype == DType::kBF16;
  Comparison found(rounds_x ? 1.0 / 256 : 1e-5);
  for (const int64_t m : {1, 3, 40, 300}) CompareProduct(m, dtype, stream, &found);
  return found;
}

Comparison CheckLora(DType dtype, Stream& stream) {
  constexpr int32_t kRows = 70;
  const std::vector<LoraSegment> segments = {{0, 1, 1}, {3, 40, 0}, {40, 69, 1}};
  const DType x_dtype = ActivationsBeside(dtype, stream);
  const std::vector<float> x = DrawNumbers(kRows * kLoraK, 10, x_dtype);
  const std::vector<float> before = DrawNumbers(kRows * kLoraN, 11, DType::kF32);
  std::vector<AdapterNumbers> adapters;
  for (const int32_t rank : kAdapterRanks) {
    adapters.push_back({DrawNumbers(rank * kLoraK, 12 + static_cast<uint64_t>(rank), dtype),
                        DrawNumbers(rank * kLoraN, 13 + static_cast<uint64_t>(rank), dtype)});
  }
  const DeviceAdapters tables(adapters, dtype, stream);
  const Buffer device_segments = OnDevice(segments, stream);
  const Buffer device_x = NumbersOnDevice(x, x_dtype, stream);
  Buffer y = NumbersOnDevice(before, DType::kF32, stream);
  Buffer h(LoraScratchFloats(stream.device, kRows, kLargestRank) * 4, stream.device);
  Lora({.dtype = dtype,
        .segments = device_segments.as<LoraSegment>(),
        .num_segments = static_cast<int32_t>(segments.size()),
        .matrices = tables.matrices(),
        .matrices_stride = 1,
        .x = device_x.data(),
        .x_stride = kLoraK,
        .k = kLoraK,
        .h = h.as<float>(),
        .h_stride = kLargestRank,
        .num_rows = kRows,
        .y = y.as<float>(),
        .y_stride = kLoraN,
        .slice_n = {kLoraN},
        .x_is_fp32 = stream.device.is_cpu()},
       stream);
  const std::vector<float> actual = NumbersFrom(y, DType::kF32, kRows * kLoraN, stream);
  Comparison found(1e-4);  // h is rounded, too, to twice bf16's digits where tensor cores take it
  std::vector<DoubleSum> expected(before.size());
  for (size_t i = 0; i < before.size(); ++i) expected[i].Add(before[i]);
  for (const LoraSegment& segment : segments) {
    const AdapterNumbers& adapter = adapters[segment.adapter_slot];
    for (int32_t row = segment.row_begin; row < segment.row_end; ++row) {
      for (int32_t j = 0; j < kAdapterRanks[segment.adapter_slot]; ++j) {
        const DoubleSum h_of = Dot(x.data() + row * kLoraK, adapter.a.data() + j * kLoraK, kLoraK);
        for (int64_t column = 0; column < kLoraN; ++column) {
          DoubleSum& sum = expected[row * kLoraN + column];
          const double b = kAdapterScale * double{adapter.b[j * kLoraN + column]};
          sum.value += b * h_of.value;
          sum.magnitude += std::fabs(b) * h_of.magnitude;
        }
      }
    }
  }
  for (int64_t i = 0; i < kRows * kLoraN; ++i) {
    found.Expect("element", i, actual[i], expected[i].value, expected[i].magnitude);
  }
  return found;
}

}  // namespace graft
