// What every op's test shares: deterministic inputs that start misaligned and end where their
// allocation ends (ASan sees reads past it), outputs between sentinels, comparison with a double
// reference under a tolerance scaled by the magnitude of what was summed, and a run over every
// instruction set with 1-3 threads and over the machine's first GPU. Where there is a GPU all
// operands are in page-locked memory, which it reads and writes at the host's addresses: one case
// table serves both twins. Without one its part is skipped, and ctest's log says so.
//
// Usage:
//   ForEachDevice([&](Stream& stream) {
//     Output<float> y(m * y_stride, /*misalign=*/1);
//     Op(args, stream);
//     Synchronize(stream);
//     EXPECT_TRUE(IsClose(y[i], reference, kF32Tolerance));
//     EXPECT_TRUE(y.GuardsIntact());
//     EXPECT_TRUE(y.IsUntouched(j));  // an element that the op must leave alone
//   });
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/thread_pool.h"
#include "kernels/common/cpu_isa.h"
#include "tensor/cuda_memory.h"
#include "tensor/dtype.h"
#include "tensor/stream.h"

namespace graft::testing {

// A read-only operand of n elements. `misalign` shifts its start by so many elements from a 64-byte
// border; its last element is the last of the allocation.
template <typename T>
class Input {
 public:
  explicit Input(int64_t n, int64_t misalign = 0) : begin_(misalign), n_(n) {
    const size_t bytes = static_cast<size_t>((misalign + n) * static_cast<int64_t>(sizeof(T)));
    if (NumCudaDevices() > 0) {
      pinned_ = PinnedBuffer(static_cast<int64_t>(bytes));
      return;
    }
    data_.reset(static_cast<T*>(::operator new (bytes, std::align_val_t{64})));
    std::memset(static_cast<void*>(data_.get()), 0, bytes);
  }
  // Standard normal values times `scale`, rounded to T.
  static Input Normal(int64_t n, uint64_t seed, int64_t misalign = 0, double scale = 1.0) {
    Input input(n, misalign);
    Random random(seed);
    for (int64_t i = 0; i < n; ++i) {
      input[i] = FromFloat<T>(static_cast<float>(random.Normal() * scale));
    }
    return input;
  }

  T* data() { return (data_ != nullptr ? data_.get() : pinned_.as<T>()) + begin_; }
  const T* data() const { return const_cast<Input*>(this)->data(); }
  T& operator[](int64_t i) { return data()[i]; }
  const T& operator[](int64_t i) const { return data()[i]; }
  double At(int64_t i) const { return static_cast<double>(ToFloat(data()[i])); }
  int64_t size() const { return n_; }

 private:
  struct Free {
    void operator()(T* data) const { ::operator delete (data, std::align_val_t{64}); }
  };
  std::unique_ptr<T, Free> data_;  // exact, so that ASan sees its end; or
  PinnedBuffer pinned_;            // where there is a GPU
  int64_t begin_;
  int64_t n_;
};

// Row numbers, segments, tables: a vector that a GPU can read too.
template <typename T>
class Shared {
 public:
  Shared(std::initializer_list<T> values) : Shared(std::vector<T>(values)) {}
  explicit Shared(const std::vector<T>& values)
      : bytes_(static_cast<int64_t>(values.size() * sizeof(T))), size_(values.size()) {
    std::copy(values.begin(), values.end(), data());
  }

  T* data() { return bytes_.as<T>(); }
  const T* data() const { return bytes_.as<T>(); }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  size_t size() const { return size_; }

 private:
  PinnedBuffer bytes_;
  size_t size_;
};

// A written operand of n elements between two guards, all bytes a sentinel at first.
template <typename T>
class Output {
 public:
  explicit Output(int64_t n, int64_t misalign = 0)
      : begin_(kGuardElements + misalign), n_(n), bytes_(static_cast<int64_t>(TotalBytes())) {
    std::memset(bytes_.as<char>(), kSentinel, TotalBytes());
  }
  // Starts from the given values instead of the sentinel: for ops that add to their output.
  Output(const Input<T>& initial, int64_t misalign) : Output(initial.size(), misalign) {
    std::memcpy(static_cast<void*>(data()), initial.data(), static_cast<size_t>(n_) * sizeof(T));
  }

  T* data() { return reinterpret_cast<T*>(Aligned()) + begin_; }
  const T* data() const { return const_cast<Output*>(this)->data(); }
  T& operator[](int64_t i) { return data()[i]; }
  const T& operator[](int64_t i) const { return data()[i]; }
  double At(int64_t i) const { return static_cast<double>(ToFloat(data()[i])); }
  int64_t size() const { return n_; }

  // Nothing was written before the first or after the last element.
  ::testing::AssertionResult GuardsIntact() const {
    const unsigned char* begin = reinterpret_cast<const unsigned char*>(data());
    const unsigned char* end = reinterpret_cast<const unsigned char*>(data() + n_);
    const unsigned char* const all = bytes_.as<unsigned char>();
    for (const unsigned char* p = all; p < all + TotalBytes(); ++p) {
      if (p >= begin && p < end) continue;
      if (*p == kSentinel) continue;
      return ::testing::AssertionFailure()
             << "byte " << (p < begin ? p - begin : p - end) << " from the output's "
             << (p < begin ? "start" : "end") << " was overwritten";
    }
    return ::testing::AssertionSuccess();
  }
  // Whether element i still holds the sentinel, as gaps between rows and rows without work must.
  bool HoldsSentinel(int64_t i) const {
    const unsigned char* p = reinterpret_cast<const unsigned char*>(data() + i);
    return std::all_of(p, p + sizeof(T), [](unsigned char byte) { return byte == kSentinel; });
  }
  ::testing::AssertionResult IsUntouched(int64_t i) const {
    if (HoldsSentinel(i)) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "element " << i << " was overwritten";
  }

 private:
  static constexpr int64_t kGuardElements = 64;
  static constexpr unsigned char kSentinel = 0xa5;

  size_t TotalBytes() const {
    return static_cast<size_t>(begin_ + n_ + kGuardElements) * sizeof(T) + 64;
  }
  unsigned char* Aligned() {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.as<unsigned char>());
    return bytes_.as<unsigned char>() + ((address + 63) / 64 * 64 - address);
  }

  int64_t begin_;
  int64_t n_;
  PinnedBuffer bytes_;
};

// A sum in double together with the sum of its terms' magnitudes, which bounds the rounding error
// of any order of summation.
struct Reference {
  double value = 0.0;
  double magnitude = 0.0;

  void Add(double term) {
    value += term;
    magnitude += std::fabs(term);
  }
};

// Relative to a Reference's magnitude. fp32 arithmetic over a few thousand terms; and one rounding
// of the result to bf16 or fp16 on top.
inline constexpr double kF32Tolerance = 2e-6;
inline constexpr double kBF16Tolerance = 1.0 / 256;
inline constexpr double kF16Tolerance = 1.0 / 2048;

inline double ToleranceOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return kF32Tolerance;
    case DType::kBF16:
      return kBF16Tolerance;
    case DType::kF16:
      return kF16Tolerance;
  }
  return 0.0;
}

inline ::testing::AssertionResult IsClose(double actual, const Reference& expected,
                                          double tolerance) {
  const double bound = tolerance * expected.magnitude + 1e-30;
  if (std::fabs(actual - expected.value) <= bound) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << actual << " instead of " << expected.value << ", further than " << bound;
}

// The derivative of function() by *x, of a smooth function in double: some ten digits.
template <typename Function>
double NumericDerivative(double* x, const Function& function) {
  const double at = *x;
  const double step = 1e-5 * (1.0 + std::fabs(at));
  *x = at + step;
  const double above = function();
  *x = at - step;
  const double below = function();
  *x = at;
  return (above - below) / (2.0 * step);
}

// The same bits, so that NaN equals itself and -0 does not equal 0.
template <typename T>
bool BitEqual(const T* a, const T* b, int64_t n) {
  return std::memcmp(a, b, static_cast<size_t>(n) * sizeof(T)) == 0;
}

// Calls function(stream) for every instruction set this machine runs, with 1 to 3 threads.
template <typename Function>
void ForEachCpu(const Function& function) {
  static ThreadPool* const pools[] = {new ThreadPool(1), new ThreadPool(2), new ThreadPool(3)};
  for (const CpuIsa isa : {CpuIsa::kPortable, CpuIsa::kAvx2, CpuIsa::kAvx512}) {
    if (isa > BestCpuIsa()) continue;
    const ScopedCpuIsa scope(isa);
    for (ThreadPool* pool : pools) {
      SCOPED_TRACE(std::string(CpuIsaName(isa)) + ", " + std::to_string(pool->num_threads()) +
                   " threads");
      Stream stream{.device = {}, .cpu_threads = pool};
      function(stream);
      if (::testing::Test::HasFailure()) return;  // one broken case says enough
    }
  }
}

// Calls function(stream) with a stream of the first GPU, or says that there is none.
template <typename Function>
void ForFirstGpu(const Function& function) {
  if (NumCudaDevices() == 0) {
    static const bool said = [] {
      std::puts(kHasCuda ? "[ SKIPPED  ] the CUDA twins: this machine shows no GPU"
                         : "[ SKIPPED  ] the CUDA twins: built without the CUDA backend");
      return true;
    }();
    static_cast<void>(said);
    return;
  }
  static ThreadPool* const threads = new ThreadPool(2);
  static OwnedStream* const stream = new OwnedStream({DeviceKind::kCuda, 0}, threads);
  SCOPED_TRACE("cuda:0");
  function(stream->get());
  Synchronize(stream->get());
}

// Every instruction set, then the GPU; GRAFT_TEST_DEVICES=gpu leaves the CPU out (under tools that
// watch the GPU alone).
template <typename Function>
void ForEachDevice(const Function& function) {
  const char* const devices = std::getenv("GRAFT_TEST_DEVICES");
  if (devices == nullptr || std::string(devices) != "gpu") ForEachCpu(function);
  if (!::testing::Test::HasFailure()) ForFirstGpu(function);
}

}  // namespace graft::testing
