// Device bench of attention's backward: times causal attention of whole sequences in bf16, with and
// without a window, over head sizes, and prints what the aims are stated in: a window's time over
// that of full attention, and a head size's FLOP/s over those of heads of 128. A FLOP is counted as
// papers do: five products over the pairs of queries and keys that are seen, whatever a kernel
// computes again. Arguments: parts of case names; none: all cases.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/attention_backward/attention_backward.h"
#include "kernels/common/cuda_bench.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "tensor/buffer.h"
#include "tensor/cuda_check.h"
#include "tensor/cuda_memory.h"

namespace graft {
namespace {

constexpr int kCalls = 8;  // of a graph

struct Case {
  std::string name;
  int num_heads;
  int num_kv_heads;
  int head_dim;
  int num_sequences = 1;
  int num_rows = 8192;  // of a sequence
  int window = 0;
  float score_cap = 0.0f;
  // The name of an earlier case that this one's time and FLOP/s are compared with.
  std::string beside = {};
};

std::vector<Case> Cases() {
  const std::string full = "gqa4 of 128, 8192";
  return {
      {full, 32, 8, 128},
      {"gqa4 of 128, 8192, window 1024", 32, 8, 128, 1, 8192, 1024, 0.0f, full},
      {"gqa4 of 128, 8192, window 4096", 32, 8, 128, 1, 8192, 4096, 0.0f, full},
      {"gqa4 of 128, 8192, window 8192", 32, 8, 128, 1, 8192, 8192, 0.0f, full},
      {"gqa4 of 128, 8192, cap 50", 32, 8, 128, 1, 8192, 0, 50.0f, full},
      {"gqa4 of 64, 8192", 32, 8, 64, 1, 8192, 0, 0.0f, full},
      {"gqa4 of 96, 8192", 32, 8, 96, 1, 8192, 0, 0.0f, full},
      {"gqa4 of 256, 8192", 32, 8, 256, 1, 8192, 0, 0.0f, full},
      {"gqa4 of 256, 8192, window 1024", 32, 8, 256, 1, 8192, 1024, 0.0f, "gqa4 of 256, 8192"},
      {"gqa4 of 256, 8192, window 4096, cap 50", 32, 8, 256, 1, 8192, 4096, 50.0f, full},
      {"gqa4 of 64, 8 x 1024", 32, 8, 64, 8, 1024},
      {"gqa4 of 128, 8 x 1024", 32, 8, 128, 8, 1024},
      {"gqa4 of 256, 8 x 1024", 32, 8, 256, 8, 1024, 0, 0.0f, "gqa4 of 128, 8 x 1024"},
      {"gqa4 of 80, 8 x 1024", 32, 8, 80, 8, 1024, 0, 0.0f, "gqa4 of 128, 8 x 1024"},
      {"gqa4 of 100 (plain), 8 x 256", 32, 8, 100, 8, 256},
  };
}

template <typename T>
__global__ void Fill(T* out, int64_t n, uint64_t seed, float scale) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) {
    uint64_t bits = (seed * 0x100000000ull + static_cast<uint64_t>(i) + 1) * 0x9e3779b97f4a7c15ull;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ull;
    bits ^= bits >> 31;
    out[i] = NarrowElement<T>((static_cast<float>(bits & 0xffff) / 32768.0f - 1.0f) * scale);
  }
}

struct Measured {
  double us = 0.0;
  double tera_flops = 0.0;  // a second
};

class Bench {
 public:
  Bench(const Case& c, Stream& stream) : case_(c), stream_(stream) {
    std::vector<int32_t> row_begin;
    for (int i = 0; i <= c.num_sequences; ++i) row_begin.push_back(i * c.num_rows);
    const int64_t rows = row_begin.back();
    const int64_t out_n = rows * c.num_heads * c.head_dim;
    args_.row_begin = ToDevice(row_begin);
    args_.num_sequences = c.num_sequences;
    args_.num_heads = c.num_heads;
    args_.num_kv_heads = c.num_kv_heads;
    args_.head_dim = c.head_dim;
    args_.scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim));
    args_.score_cap = c.score_cap;
    args_.window = c.window;
    args_.dtype = args_.d_dtype = DType::kBF16;
    args_.qkv_stride = int64_t{c.num_heads + 2 * c.num_kv_heads} * c.head_dim;
    args_.qkv = Random(rows * args_.qkv_stride, 1, 1.5f);
    args_.d_out = Random(out_n, 2, 1.0f);
    args_.d_qkv = Allocate(rows * args_.qkv_stride * 2);
    args_.scratch = static_cast<float*>(
        Allocate(4 * AttentionBackwardGpuFloats(static_cast<int32_t>(rows), c.num_heads, c.head_dim,
                                                DType::kBF16)));
    args_.num_rows = static_cast<int32_t>(rows);
    args_.sequence_rows_max = c.num_rows;
    // Not what attention makes of them, which takes the same time.
    args_.out = Random(out_n, 3, 0.1f);
  }

  Measured Run() {
    const double us = cuda_bench::MicrosecondsPerLaunch(
        stream_, kCalls, [&](int) { AttentionBackward(args_, stream_); });
    double pairs = 0.0;  // of a sequence
    for (int row = 0; row < case_.num_rows; ++row) {
      pairs += case_.window > 0 ? std::min(row + 1, case_.window) : row + 1;
    }
    const double flops = 10.0 * pairs * case_.num_sequences * case_.num_heads * case_.head_dim;
    return {us, flops / us * 1e-6};
  }

 private:
  void* Allocate(int64_t bytes) {
    buffers_.emplace_back(bytes, stream_.device);
    return buffers_.back().data();
  }
  void* Random(int64_t n, uint64_t seed, float scale) {
    auto* const data = static_cast<Bfloat16*>(Allocate(n * 2));
    Fill<<<1024, 256>>>(data, n, seed, scale);
    CUDA_CHECK(cudaDeviceSynchronize());
    return data;
  }
  template <typename T>
  T* ToDevice(const std::vector<T>& values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
    void* target = Allocate(bytes);
    CUDA_CHECK(cudaMemcpy(target, values.data(), static_cast<size_t>(bytes), cudaMemcpyDefault));
    return static_cast<T*>(target);
  }

  const Case case_;
  Stream& stream_;
  std::vector<Buffer> buffers_;
  AttentionBackwardArgs args_;
};

}  // namespace
}  // namespace graft

int main(int argc, char** argv) {
  using graft::Case;
  using graft::Measured;
  graft::ThreadPool threads(1);
  graft::OwnedStream stream({graft::DeviceKind::kCuda, 0}, &threads);
  std::vector<std::pair<std::string, Measured>> done;
  for (const Case& c : graft::Cases()) {
    bool is_wanted = argc == 1;
    for (int i = 1; i < argc; ++i) is_wanted |= std::strstr(c.name.c_str(), argv[i]) != nullptr;
    if (!is_wanted) continue;
    const Measured measured = graft::Bench(c, stream.get()).Run();
    std::printf("%-40s %10.1f us %7.1f TFLOP/s", c.name.c_str(), measured.us, measured.tera_flops);
    for (const auto& [name, other] : done) {
      if (name != c.beside) continue;
      std::printf("  %.3f of the time and %.3f of the FLOP/s of %s", measured.us / other.us,
                  measured.tera_flops / other.tera_flops, name.c_str());
    }
    std::printf("\n");
    std::fflush(stdout);
    done.emplace_back(c.name, measured);
  }
  return 0;
}
