// Device bench of attention: checks against a naive kernel in double, then times 32 layers in a
// graph. Pages are dealt out at random. Given rows are so where the card (GRAFT_GPU_FAMILY) has a
// kernel for them. Arguments: parts of case names; none: all cases.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "base/shuffle.h"
#include "kernels/attention/attention.h"
#include "kernels/common/bench_data.h"
#include "kernels/common/cuda_bench.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "tensor/buffer.h"
#include "tensor/cuda_check.h"
#include "tensor/cuda_memory.h"

namespace graft {
namespace {

constexpr double kPeakBytesPerSecond = 4.2e12;
constexpr int kLayers = 32;
constexpr int kPageTokens = 16;

struct Sequences {
  int count;
  int num_rows;
  int kv_tokens;
  int kv_tokens_min = 0;  // see SequenceLengths
};

struct Case {
  const char* name;
  int num_heads;
  int num_kv_heads;
  int head_dim;
  DType dtype;
  int kv_tokens_bound;  // 0: what the sequences have
  std::vector<Sequences> sequences;
  int window = 0;
  bool is_given = false;  // all sequences
};

std::vector<Case> Cases() {
  const DType bf16 = DType::kBF16;
  return {
      {"decode mha 32 x 512", 32, 32, 128, bf16, 0, {{32, 1, 512}}},
      {"decode mha 32 x 40 to 1300", 32, 32, 128, bf16, 0, {{32, 1, 1300, 40}}},
      {"decode mha 32 x 40 to 700", 32, 32, 128, bf16, 0, {{32, 1, 700, 40}}},
      {"decode gqa4 32 x 40 to 4000", 32, 8, 128, bf16, 0, {{32, 1, 4000, 40}}},
      {"decode mha 32 x 512, bound 8192", 32, 32, 128, bf16, 8192, {{32, 1, 512}}},
      {"decode mha 32 x 512, of 128 sequences", 32, 32, 128, bf16, 0, {{32, 1, 512}, {96, 0, 0}}},
      {"decode gqa4 32 x 512", 32, 8, 128, bf16, 0, {{32, 1, 512}}},
      {"decode gqa4 2 x 512", 32, 8, 128, bf16, 0, {{2, 1, 512}}},
      {"decode gqa4 4 x 512", 32, 8, 128, bf16, 0, {{4, 1, 512}}},
      {"decode gqa4 8 x 512", 32, 8, 128, bf16, 0, {{8, 1, 512}}},
      {"decode gqa4 16 x 512", 32, 8, 128, bf16, 0, {{16, 1, 512}}},
      {"decode gqa4 64 x 512", 32, 8, 128, bf16, 0, {{64, 1, 512}}},
      {"decode gqa4 128 x 512", 32, 8, 128, bf16, 0, {{128, 1, 512}}},
      {"decode gqa8 32 x 512", 64, 8, 128, bf16, 0, {{32, 1, 512}}},
      {"decode gqa4 32 x 2048", 32, 8, 128, bf16, 0, {{32, 1, 2048}}},
      {"decode gqa4 16 x 300, 16 x 1500", 32, 8, 128, bf16, 0, {{16, 1, 300}, {16, 1, 1500}}},
      {"decode gqa4 fp16 32 x 2048", 32, 8, 128, DType::kF16, 0, {{32, 1, 2048}}},
      {"decode gqa8 of 64, 32 x 2048", 32, 4, 64, bf16, 0, {{32, 1, 2048}}},
      {"decode mha 1 x 4096", 32, 32, 128, bf16, 0, {{1, 1, 4096}}},
      {"decode gqa4 1 x 4096", 32, 8, 128, bf16, 0, {{1, 1, 4096}}},
      {"decode gqa4 1 x 512", 32, 8, 128, bf16, 0, {{1, 1, 512}}},
      {"decode gqa4 1 x 64", 32, 8, 128, bf16, 0, {{1, 1, 64}}},
      {"decode gqa4 1 x 256", 32, 8, 128, bf16, 0, {{1, 1, 256}}},
      {"decode gqa4 1 x 32768", 32, 8, 128, bf16, 0, {{1, 1, 32768}}},
      {"decode gqa4 8 x 4096 window 1024", 32, 8, 128, bf16, 0, {{8, 1, 4096}}, 1024},
      {"decode fp32 mha 4 x 512", 32, 32, 128, DType::kF32, 0, {{4, 1, 512}}},
      {"prefill mha 1 x 2048", 32, 32, 128, bf16, 0, {{1, 2048, 2048}}},
      {"prefill gqa4 1 x 2048", 32, 8, 128, bf16, 0, {{1, 2048, 2048}}},
      {"prefill gqa4 1 x 512", 32, 8, 128, bf16, 0, {{1, 512, 512}}},
      {"prefill gqa4 4 x 512", 32, 8, 128, bf16, 0, {{4, 512, 512}}},
      {"prefill gqa8 of 64, 1 x 2048", 32, 4, 64, bf16, 0, {{1, 2048, 2048}}},
      {"prefill mha 1 x 8192", 32, 32, 128, bf16, 0, {{1, 8192, 8192}}},
      {"prompt mha 1 x 2048", 32, 32, 128, bf16, 0, {{1, 2048, 2048}}, 0, true},
      {"prompt mha 1 x 8192", 32, 32, 128, bf16, 0, {{1, 8192, 8192}}, 0, true},
      {"prompt mha 1 x 32768", 32, 32, 128, bf16, 0, {{1, 32768, 32768}}, 0, true},
      {"prompt gqa4 1 x 2048", 32, 8, 128, bf16, 0, {{1, 2048, 2048}}, 0, true},
      {"prompt gqa4 1 x 8192", 32, 8, 128, bf16, 0, {{1, 8192, 8192}}, 0, true},
      {"prompt gqa4 1 x 32768", 32, 8, 128, bf16, 0, {{1, 32768, 32768}}, 0, true},
      {"prompt gqa4 fp16 1 x 2048", 32, 8, 128, DType::kF16, 0, {{1, 2048, 2048}}, 0, true},
      {"prompt gqa4 1 x 512", 32, 8, 128, bf16, 0, {{1, 512, 512}}, 0, true},
      {"prompt gqa4 4 x 512", 32, 8, 128, bf16, 0, {{4, 512, 512}}, 0, true},
      {"prompt gqa4 512 rows of 8192", 32, 8, 128, bf16, 0, {{1, 512, 8192}}, 0, true},
      {"prompt gqa4 20 rows of 8192", 32, 8, 128, bf16, 0, {{1, 20, 8192}}, 0, true},
      {"prompt gqa4 8192 window 1024", 32, 8, 128, bf16, 0, {{1, 8192, 8192}}, 1024, true},
      {"prompt gqa8 of 64, 1 x 2048", 32, 4, 64, bf16, 0, {{1, 2048, 2048}}, 0, true},
      {"prompt mha of 96, 1 x 2048", 32, 32, 96, bf16, 0, {{1, 2048, 2048}}, 0, true},
      {"prompt gqa2 of 256, 1 x 4096", 16, 8, 256, bf16, 0, {{1, 4096, 4096}}, 0, true},
      {"mixed gqa4 31 x 1024, 512 rows", 32, 8, 128, bf16, 0, {{31, 1, 1024}, {1, 512, 1024}}},
  };
}

__device__ float Noise(uint64_t i) {
  i = (i + 1) * 0x9e3779b97f4a7c15ull;
  i = (i ^ (i >> 30)) * 0xbf58476d1ce4e5b9ull;
  i = (i ^ (i >> 27)) * 0x94d049bb133111ebull;
  // About normal: the sum of four uniform numbers.
  float sum = 0.0f;
  for (int k = 0; k < 4; ++k) sum += static_cast<float>((i >> (16 * k)) & 0xffff) / 65536.0f;
  return (sum - 2.0f) * 1.7320508f;
}

template <typename T>
__global__ void Fill(T* out, int64_t n, uint64_t seed, float scale) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) {
    out[i] = NarrowElement<T>(Noise(seed * 0x100000000ull + static_cast<uint64_t>(i)) * scale);
  }
}

// A thread block per (row, head) of the rows picked; thread d is a dimension. errors: sums of
// squares of the difference and of the reference.
template <typename T>
__global__ void Check(AttentionArgs args, int row_step, double* errors) {
  __shared__ double sums[256];
  const int row = static_cast<int>(blockIdx.x) * row_step;
  const int head = static_cast<int>(blockIdx.y);
  if (row >= args.rows_max) return;
  int sequence = 0;
  while (args.row_begin[sequence + 1] <= row) ++sequence;
  const int position = args.kv_tokens[sequence] - (args.row_begin[sequence + 1] - row);
  const int first = args.window > 0 && position >= args.window ? position - args.window + 1 : 0;
  const int d = static_cast<int>(threadIdx.x);
  const int group = args.num_heads / args.layout.num_kv_heads;
  const T* pool = static_cast<const T*>(args.pool);
  const float* q = args.q + row * args.q_stride + head * args.layout.head_dim;
  double maximum = -INFINITY, weight = 0.0, sum = 0.0;
  for (int p = first; p <= position; ++p) {
    const int64_t offset =
        args.layout.KeyOffset(args.pages[args.page_begin[sequence] + p / args.layout.page_tokens],
                              args.layer, head / group, p % args.layout.page_tokens) +
        d;
    sums[d] = static_cast<double>(q[d]) * WidenElement(pool[offset]);
    __syncthreads();
    double score = 0.0;
    for (int i = 0; i < args.layout.head_dim; ++i) score += sums[i];
    __syncthreads();
    score *= args.scale;
    const double next = fmax(maximum, score);
    const double factor = exp(maximum - next), w = exp(score - next);
    sum = sum * factor + w * WidenElement(pool[offset + args.layout.KeyElements()]);
    weight = weight * factor + w;
    maximum = next;
  }
  const double expected = sum / weight;
  const double actual = static_cast<const float*>(
      args.out)[(int64_t{row} * args.num_heads + head) * args.layout.head_dim + d];
  atomicAdd(&errors[0], (actual - expected) * (actual - expected));
  atomicAdd(&errors[1], expected * expected);
  if (actual != actual) atomicAdd(&errors[0], 1e30);
}

class Bench {
 public:
  Bench(const Case& c, Stream& stream) : case_(c), stream_(stream) {
    std::vector<int32_t> row_begin{0}, page_begin{0}, kv_tokens;
    int rows_max = 0;
    Random random(1);
    for (const Sequences& s : c.sequences) {
      for (const int length : SequenceLengths(s.count, s.kv_tokens_min, s.kv_tokens, random)) {
        row_begin.push_back(row_begin.back() + s.num_rows);
        page_begin.push_back(page_begin.back() + (length + kPageTokens - 1) / kPageTokens);
        kv_tokens.push_back(length);
        bytes_ += 2.0 * length * c.num_kv_heads * c.head_dim * DTypeBytes(c.dtype);
        const double seen = length - 0.5 * (s.num_rows - 1);
        flops_ += 4.0 * s.num_rows * c.num_heads * c.head_dim * seen;
      }
      rows_max = std::max(rows_max, s.num_rows);
    }
    if (c.window > 0) bytes_ *= std::min(1.0, double(c.window) / kv_tokens[0]);
    std::vector<int32_t> pages(page_begin.back());
    std::iota(pages.begin(), pages.end(), 0);
    Shuffle(pages, random);
    args_.layout = {kLayers, c.num_kv_heads, c.head_dim, kPageTokens, c.dtype};
    args_.num_sequences = static_cast<int32_t>(kv_tokens.size());
    args_.num_heads = c.num_heads;
    args_.q_stride = int64_t{c.num_heads + 2 * c.num_kv_heads} * c.head_dim;
    args_.scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim));
    args_.window = c.window;
    const bool are_given = c.is_given && AttentionTellsGivenRows(args_.layout, stream.device);
    if (are_given) args_.num_given = static_cast<int32_t>(kv_tokens.size());
    args_.rows_max = row_begin.back();
    args_.sequence_rows_max = rows_max;
    args_.kv_tokens_max =
        std::max(c.kv_tokens_bound, *std::max_element(kv_tokens.begin(), kv_tokens.end()));
    args_.pages = ToDevice(pages);
    args_.page_begin = ToDevice(page_begin);
    args_.row_begin = ToDevice(row_begin);
    args_.kv_tokens = ToDevice(kv_tokens);
    std::vector<AttentionSplit> splits;
    if (!are_given) ListAttentionSplits(row_begin, page_begin, kv_tokens, c.window, splits);
    args_.num_splits = ToDevice(std::vector<int32_t>{static_cast<int32_t>(splits.size())});
    splits.resize(AttentionSplitsMax(args_.num_sequences, args_.kv_tokens_max));
    args_.splits = ToDevice(splits);
    const int64_t pool_elements = static_cast<int64_t>(pages.size()) * args_.layout.PageElements();
    args_.pool = Allocate(pool_elements * DTypeBytes(c.dtype));
    args_.q = static_cast<float*>(Allocate(args_.rows_max * args_.q_stride * 4));
    args_.out = Allocate(int64_t{args_.rows_max} * c.num_heads * c.head_dim * 4);
    args_.scratch = static_cast<float*>(Allocate(AttentionScratchBytes(
        args_.layout, c.num_heads, args_.num_sequences, args_.kv_tokens_max, stream.device)));
    DispatchDType(c.dtype, [&]<typename T>() {
      Fill<<<1024, 256>>>(static_cast<T*>(const_cast<void*>(args_.pool)), pool_elements, 1, 1.0f);
    });
    Fill<<<1024, 256>>>(const_cast<float*>(args_.q), args_.rows_max * args_.q_stride, 2, 1.5f);
    CUDA_CHECK(cudaDeviceSynchronize());
  }

  // ||out - reference|| / ||reference|| of the last layer, in fp32.
  double Error() {
    AttentionArgs args = args_;
    args.out_dtype = DType::kF32;
    args.layer = kLayers - 1;
    Attention(args, stream_);
    auto* errors = static_cast<double*>(Allocate(16));
    const int row_step = std::max(1, args.rows_max / 61);
    const dim3 grid(static_cast<unsigned>(CeilDiv(args.rows_max, row_step)),
                    static_cast<unsigned>(args.num_heads));
    Synchronize(stream_);
    DispatchDType(case_.dtype, [&]<typename T>() {
      Check<T><<<grid, args.layout.head_dim>>>(args, row_step, errors);
    });
    CUDA_CHECK(cudaDeviceSynchronize());
    double host[2];
    CUDA_CHECK(cudaMemcpy(host, errors, 16, cudaMemcpyDefault));
    return std::sqrt(host[0] / host[1]);
  }

  // Median microseconds of one layer.
  double Time() {
    AttentionArgs args = args_;
    args.out_dtype = case_.dtype;
    return cuda_bench::MicrosecondsPerLaunch(stream_, kLayers, [&](int layer) {
      args.layer = layer;
      Attention(args, stream_);
    });
  }

  void Print() {
    const double error = Error();
    const double us = Time();
    std::printf("%-40s error %.1e %9.2f us %6.2f TB/s %5.1f %% of floor %7.1f TFLOP/s\n",
                case_.name, error, us, bytes_ / us * 1e-6, bytes_ / kPeakBytesPerSecond * 1e8 / us,
                flops_ / us * 1e-6);
    std::fflush(stdout);
  }

 private:
  void* Allocate(int64_t bytes) {
    buffers_.emplace_back(bytes, stream_.device);
    return buffers_.back().data();
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
  AttentionArgs args_;
  double bytes_ = 0.0;
  double flops_ = 0.0;
};

}  // namespace
}  // namespace graft

int main(int argc, char** argv) {
  graft::ThreadPool threads(1);
  graft::OwnedStream stream({graft::DeviceKind::kCuda, 0}, &threads);
  for (const graft::Case& c : graft::Cases()) {
    bool is_wanted = argc == 1;
    for (int i = 1; i < argc; ++i) is_wanted |= std::strstr(c.name, argv[i]) != nullptr;
    if (is_wanted) graft::Bench(c, stream.get()).Print();
  }
  return 0;
}
