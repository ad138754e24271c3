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
constexpr int64_t kLoraRows = 70, kLoraK = 136, kLoraN = 96;
constexpr int32_t kSlices = 2;
constexpr int64_t kSliceN = kLoraN / kSlices;

struct AdapterNumbers {
  std::vector<float> a;  // [rank, kLoraK]
  std::vector<float> b;  // [rank, kLoraN]
};

// Both adapters' rows where the device reads them, and the tables that point there. An adapter's
// slices of y, which are its halves, share A.
struct DeviceAdapters {
  DeviceAdapters(const std::vector<AdapterNumbers>& adapters, DType dtype, const Stream& stream) {
    std::vector<const void*> pointers;
    const auto add_rows = [&](const Buffer& numbers, int32_t rank, int64_t n, int64_t column) {
      for (int32_t j = 0; j < rank; ++j) {
        pointers.push_back(numbers.as<char>() + (j * n + column) * DTypeBytes(dtype));
      }
    };
    for (size_t i = 0; i < adapters.size(); ++i) {
      const int32_t rank = kAdapterRanks[i];
      numbers_.push_back(NumbersOnDevice(adapters[i].a, dtype, stream));
      add_rows(numbers_.back(), rank, kLoraK, 0);
      numbers_.push_back(NumbersOnDevice(adapters[i].b, dtype, stream));
      for (int32_t slice = 0; slice < kSlices; ++slice) {
        add_rows(numbers_.back(), rank, kLoraN, slice * kSliceN);
      }
    }
    pointers_ = OnDevice(pointers, stream);
    const auto* rows = pointers_.as<const void*>();
    std::vector<LoraMatrix> matrices;
    for (const int32_t rank : kAdapterRanks) {
      for (int32_t slice = 0; slice < kSlices; ++slice) {
        matrices.push_back({.a_rows = rows,
                            .b_rows = rows + (1 + slice) * rank,
                            .rank = rank,
                            .scale = kAdapterScale});
      }
      rows += (1 + kSlices) * rank;
    }
    matrices_ = OnDevice(matrices, stream);
  }
  const LoraMatrix* matrices() const { return matrices_.as<LoraMatrix>(); }

 private:
  std::vector<Buffer> numbers_;
  Buffer pointers_;
  Buffer matrices_;
};

// x, two adapters and segments of theirs on the device, and what comes of them in doubles.
class LoraCase {
 public:
  LoraCase(DType dtype, Stream& stream)
      : dtype_(dtype),
        stream_(stream),
        x_dtype_(ActivationsBeside(dtype, stream)),
        x_(DrawNumbers(kLoraRows * kLoraK, 10, x_dtype_)),
        before_(DrawNumbers(kLoraRows * kLoraN, 11, DType::kF32)),
        adapters_(DrawAdapters(dtype)),
        tables_(adapters_, dtype, stream),
        device_segments_(OnDevice(segments_, stream)),
        device_x_(NumbersOnDevice(x_, x_dtype_, stream)),
        h_(LoraScratchFloats(stream.device, kSlices * kLoraRows, kLargestRank) * 4, stream.device) {
  }

  const std::vector<float>& before() const { return before_; }
  LoraArgs Args(float* y) {
    return {.dtype = dtype_,
            .segments = device_segments_.as<LoraSegment>(),
            .num_segments = static_cast<int32_t>(segments_.size()),
            .matrices = tables_.matrices(),
            .matrices_stride = kSlices,
            .num_slices = kSlices,
            .x = device_x_.data(),
            .x_stride = kLoraK,
            .k = kLoraK,
            .h = h_.as<float>(),
            .h_stride = kLargestRank,
            .num_rows = kLoraRows,
            .y = y,
            .y_stride = kLoraN,
            .slice_begin = {0, kSliceN},
            .slice_n = {kSliceN, kSliceN},
            .x_is_fp32 = stream_.device.is_cpu()};
  }

  // What y should be. k = 1: `start` is what y was, [kLoraRows, kLoraN]. Else: W, [kLoraN, k].
  std::vector<DoubleSum> Sums(const std::vector<float>& start, int64_t k) const {
    std::vector<DoubleSum> sums(static_cast<size_t>(kLoraRows * kLoraN));
    for (int64_t i = 0; i < kLoraRows * kLoraN; ++i) {
      if (k == 1) {
        sums[i].Add(start[i]);
      } else {
        sums[i] = Dot(x_.data() + i / kLoraN * k, start.data() + i % kLoraN * k, k);
      }
    }
    for (const LoraSegment& segment : segments_) {
      for (int32_t row = segment.row_begin; row < segment.row_end; ++row) {
        AddLora(row, segment.adapter_slot, sums.data() + row * kLoraN);
      }
    }
    return sums;
  }

  void CompareSums(const Buffer& y, const std::vector<DoubleSum>& sums, Comparison* found) const {
    const std::vector<float> actual = NumbersFrom(y, DType::kF32, kLoraRows * kLoraN, stream_);
    for (int64_t i = 0; i < kLoraRows * kLoraN; ++i) {
      found->Expect("element", i, actual[i], sums[i].value, sums[i].magnitude);
    }
  }

 private:
  static std::vector<AdapterNumbers> DrawAdapters(DType dtype) {
    std::vector<AdapterNumbers> adapters;
    for (const int32_t rank : kAdapterRanks) {
      adapters.push_back({DrawNumbers(rank * kLoraK, 12 + static_cast<uint64_t>(rank), dtype),
                          DrawNumbers(rank * kLoraN, 13 + static_cast<uint64_t>(rank), dtype)});
    }
    return adapters;
  }

  void AddLora(int32_t row, int32_t slot, DoubleSum* sums) const {
    const AdapterNumbers& adapter = adapters_[slot];
    for (int32_t j = 0; j < kAdapterRanks[slot]; ++j) {
      const DoubleSum h = Dot(x_.data() + row * kLoraK, adapter.a.data() + j * kLoraK, kLoraK);
      for (int64_t column = 0; column < kLoraN; ++column) {
        const double b = kAdapterScale * double{adapter.b[j * kLoraN + column]};
        sums[column].value += b * h.value;
        sums[column].magnitude += std::fabs(b) * h.magnitude;
      }
    }
  }

  const std::vector<LoraSegment> segments_ = {{0, 1, 1}, {3, 40, 0}, {40, 69, 1}};
  const DType dtype_;
  Stream& stream_;
  const DType x_dtype_;
  const std::vector<float> x_, before_;
  const std::vector<AdapterNumbers> adapters_;
  const DeviceAdapters tables_;
  const Buffer device_segments_, device_x_;
  Buffer h_;
};

// silu(gate) * up of y's halves, which may be as far off as their sums are.
void CompareActivated(const std::vector<float>& actual, const std::vector<DoubleSum>& sums,
                      Comparison* found) {
  constexpr int64_t kHalf = kLoraN / 2;
  constexpr double kSlopeMax = 1.2;  // of silu
  for (int64_t i = 0; i < kLoraRows * kHalf; ++i) {
    const DoubleSum& gate = sums[i / kHalf * kLoraN + i % kHalf];
    const DoubleSum& up = sums[i / kHalf * kLoraN + kHalf + i % kHalf];
    const double silu = gate.value / (1.0 + std::exp(-gate.value));
    found->Expect(
        "activated", i, actual[i], silu * up.value,
        kSlopeMax * gate.magnitude * std::fabs(up.value) + std::fabs(silu) * up.magnitude);
  }
}

// Beside bf16 weights the CPU rounds x to bf16 with half of what is lost.
bool RoundsX(DType dtype, const Stream& stream) {
  return stream.device.is_cpu() && dtype == DType::kBF16;
}
constexpr double kRoundedXTolerance = 1.0 / 256;
// h is rounded, too, to twice bf16's digits where tensor cores take it.
constexpr double kLoraTolerance = 1e-4;

}  // namespace

Comparison CheckGemm(DType dtype, Stream& stream) {
  // Sums are kept in fp32.
  Comparison found(RoundsX(dtype, stream) ? kRoundedXTolerance : 1e-5);
  for (const int64_t m : {1, 3, 40, 300}) CompareProduct(m, dtype, stream, &found);
  return found;
}

Comparison CheckLora(DType dtype, Stream& stream) {
  LoraCase lora(dtype, stream);
  Buffer y = NumbersOnDevice(lora.before(), DType::kF32, stream);
  Lora(lora.Args(y.as<float>()), stream);
  Comparison found(kLoraTolerance);
  lora.CompareSums(y, lora.Sums(lora.before(), 1), &found);
  return found;
}

// As prompts have it: inside the product where its kernel takes LoRA, else after it; and with
// SwiGLU of both.
Comparison CheckGemmWithLora(DType dtype, Stream& stream) {
  LoraCase lora(dtype, stream);
  const std::vector<float> w = DrawNumbers(kLoraN * kLoraK, 17, dtype);
  const TensorView view{w.data(), DType::kF32, {kLoraN, kLoraK}};
  const GemmWeight weight = GemmWeight::Pack({&view, 1}, dtype, stream);
  Buffer y(kLoraRows * kLoraN * 4, stream.device);
  const DType out_dtype = ActivationsBeside(dtype, stream);
  Buffer activated(kLoraRows * kLoraN / 2 * DTypeBytes(out_dtype), stream.device);
  const LoraArgs args = lora.Args(y.as<float>());
  GemmArgs gemm{.x = args.x,
                .x_stride = args.x_stride,
                .m = kLoraRows,
                .weight = &weight,
                .y = args.y,
                .y_stride = args.y_stride,
                .x_is_fp32 = args.x_is_fp32};
  gemm.epilogue.lora = &args;
  gemm.epilogue.lora_place =
      GemmTakesLora(dtype, dtype, stream.device) ? LoraPlace::kInside : LoraPlace::kAfter;
  LoraShrink(args, stream);
  Gemm(gemm, stream);
  std::vector<DoubleSum> sums = lora.Sums(w, kLoraK);
  Comparison found(RoundsX(dtype, stream) ? kRoundedXTolerance : kLoraTolerance);
  lora.CompareSums(y, sums, &found);
  if (!found.is_equal()) return found;
  gemm.epilogue.activated = activated.data();
  Gemm(gemm, stream);
  Comparison all(ToleranceOf(out_dtype == DType::kF32 ? dtype : out_dtype));
  CompareActivated(NumbersFrom(activated, out_dtype, kLoraRows * kLoraN / 2, stream), sums, &all);
  return all;
}

}  // namespace graft
