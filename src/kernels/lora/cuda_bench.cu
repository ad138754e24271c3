// LoRA on a GPU as a model's layers call it: y += x A B in bf16, in a CUDA graph. Every layer has
// operands of its own, more than the L2 cache holds. Each case is first checked against sums in
// double. The columns: the least number of bytes over the card's copy bandwidth; all of LoRA where
// the kernel before lets it begin early, as this program's own kernels do ("chained"), and where it
// begins after that kernel's end ("apart"); the shrink alone, in the same two ways; two kernels
// that stand in for a norm, without and with the shrink between them. The difference of the last
// two is how long a norm's successor waits for the shrink.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/common/cuda_bench.cuh"
#include "kernels/common/cuda_launch.cuh"
#include "kernels/lora/lora_launch.cuh"
#include "tensor/buffer.h"
#include "tensor/cuda_check.h"
#include "tensor/cuda_memory.h"

namespace graft {
namespace {

using lora::LaunchOptions;
using lora::Part;

constexpr double kBytesPerUs = 4.2e6;  // copy bandwidth of an H200
constexpr int64_t kRotatedBytes = int64_t{192} << 20;
constexpr int64_t kLaunchesMin = 64;  // in a graph, so that the graph's own launch weighs little

struct Shape {
  std::string name;
  std::vector<int32_t> segment_rows;
  std::vector<int32_t> ranks;  // the rank of each segment's adapter
  int64_t k = 4096;
  std::vector<int64_t> n = {4096};

  int32_t num_rows() const {
    int32_t rows = 0;
    for (const int32_t count : segment_rows) rows += count;
    return rows;
  }
  int64_t n_total() const {
    int64_t total = 0;
    for (const int64_t columns : n) total += columns;
    return total;
  }
  int64_t weight_bytes() const {
    int64_t bytes = 0;
    for (const int32_t rank : ranks) {
      bytes += 2 * rank * (k * static_cast<int64_t>(n.size()) + n_total());
    }
    return bytes;
  }
  int64_t bytes() const { return weight_bytes() + num_rows() * (2 * k + 8 * n_total()); }
};

__device__ uint32_t Mix(uint64_t i) {
  i = (i ^ (i >> 31)) * 0x9E3779B97F4A7C15ull;
  i = (i ^ (i >> 29)) * 0xBF58476D1CE4E5B9ull;
  return static_cast<uint32_t>(i >> 32);
}
__device__ float Random(uint64_t i) { return static_cast<float>(Mix(i)) * 0x1p-31f - 1.0f; }

__global__ void FillBf16(Bfloat16* p, int64_t n, uint64_t seed) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) {
    p[i].bits = __bfloat16_as_ushort(__float2bfloat16_rn(Random(i + seed)));
  }
}
__global__ void FillF32(float* p, int64_t n, uint64_t seed) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) {
    p[i] = Random(i + seed);
  }
}

__device__ double Widen(const void* p, int64_t i) {
  return __uint_as_float(uint32_t{static_cast<const Bfloat16*>(p)[i].bits} << 16);
}

// h[slice][row][rank], and the sum of the magnitudes of its terms. One block per row, slice and
// rank.
__global__ void ReferenceShrink(LoraArgs args, int32_t segment_idx, double* h) {
  const LoraSegment segment = args.segments[segment_idx];
  const LoraMatrix matrix = args.matrices[segment.adapter_slot * args.matrices_stride + blockIdx.y];
  if (static_cast<int>(blockIdx.x) >= matrix.rank) return;
  __shared__ double partial[256];
  for (int row = segment.row_begin; row < segment.row_end; ++row) {
    double sum = 0.0;
    for (int64_t i = threadIdx.x; i < args.k; i += blockDim.x) {
      sum += Widen(args.x, row * args.x_stride + i) * Widen(matrix.a_rows[blockIdx.x], i);
    }
    partial[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int i = 1; i < 256; ++i) sum += partial[i];
      h[(int64_t{blockIdx.y} * args.num_rows + row) * args.h_stride + blockIdx.x] = sum;
    }
    __syncthreads();
  }
}

// The largest of |y - expected| / (sum of the magnitudes of the terms).
__global__ void ReferenceExpand(LoraArgs args, int32_t segment_idx, const double* h,
                                const float* y_before, unsigned* worst) {
  const LoraSegment segment = args.segments[segment_idx];
  const LoraMatrix matrix = args.matrices[segment.adapter_slot * args.matrices_stride + blockIdx.y];
  const int64_t column = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (column >= args.slice_n[blockIdx.y]) return;
  for (int row = segment.row_begin; row < segment.row_end; ++row) {
    const int64_t at = row * args.y_stride + args.slice_begin[blockIdx.y] + column;
    double sum = y_before[at];
    double magnitude = fabs(sum);
    for (int j = 0; j < matrix.rank; ++j) {
      const double term = matrix.scale *
                          h[(int64_t{blockIdx.y} * args.num_rows + row) * args.h_stride + j] *
                          Widen(matrix.b_rows[j], column);
      sum += term;
      magnitude += fabs(term);
    }
    const double error = fabs(static_cast<double>(args.y[at]) - sum) / magnitude;
    // A comparison with NaN is false, so NaN becomes a large error.
    atomicMax(worst, __float_as_uint(error < 1e30 ? static_cast<float>(error) : 1e30f));
  }
}

// Layers of one shape on the device: as many as it takes for their rotation to exceed the cache.
class Layers {
 public:
  Layers(const Shape& shape, const Device& device, Stream& stream)
      : shape_(shape),
        count_(std::clamp<int64_t>(kRotatedBytes / shape.bytes(), 4, 512)),
        weights_(count_ * shape.weight_bytes(), device),
        x_(count_ * shape.num_rows() * shape.k * 2, device),
        y_(count_ * shape.num_rows() * shape.n_total() * 4, device),
        segments_(static_cast<int64_t>(shape.ranks.size() * sizeof(LoraSegment)), device),
        matrices_(count_ * num_matrices() * static_cast<int64_t>(sizeof(LoraMatrix)), device),
        rank_max_(*std::max_element(shape.ranks.begin(), shape.ranks.end())),
        h_(LoraScratchFloats(device, shape.num_rows() * int64_t(shape.n.size()), rank_max_) * 4,
           device) {
    int64_t num_pointers = 0;
    for (const int32_t rank : shape.ranks) num_pointers += 2 * rank * int64_t(shape.n.size());
    pointers_ = Buffer(count_ * num_pointers * 8, device);
    CUDA_CHECK(cudaDeviceSynchronize());  // another stream zeroes the buffers
    PlaceTables(num_pointers, stream);
    Fill(stream);
  }

  int64_t count() const { return count_; }
  int64_t num_matrices() const {
    return static_cast<int64_t>(shape_.ranks.size() * shape_.n.size());
  }

  LoraArgs Args(int64_t layer) {
    LoraArgs args{.dtype = DType::kBF16,
                  .segments = segments_.as<LoraSegment>(),
                  .num_segments = static_cast<int32_t>(shape_.ranks.size()),
                  .matrices = matrices_.as<LoraMatrix>() + layer * num_matrices(),
                  .matrices_stride = static_cast<int64_t>(shape_.n.size()),
                  .num_slices = static_cast<int32_t>(shape_.n.size()),
                  .x = x_.as<Bfloat16>() + layer * shape_.num_rows() * shape_.k,
                  .x_stride = shape_.k,
                  .k = shape_.k,
                  .h = h_.as<float>(),
                  .h_stride = rank_max_,
                  .num_rows = shape_.num_rows(),
                  .y = y_.as<float>() + layer * shape_.num_rows() * shape_.n_total(),
                  .y_stride = shape_.n_total()};
    int64_t column = 0;
    for (size_t s = 0; s < shape_.n.size(); ++s) {
      args.slice_begin[s] = column;
      args.slice_n[s] = shape_.n[s];
      column += shape_.n[s];
    }
    return args;
  }

 private:
  void PlaceTables(int64_t num_pointers, Stream& stream) {
    std::vector<LoraSegment> segments;
    int32_t row = 0;
    for (size_t i = 0; i < shape_.segment_rows.size(); ++i) {
      segments.push_back({row, row + shape_.segment_rows[i], static_cast<int32_t>(i)});
      row += shape_.segment_rows[i];
    }
    std::vector<LoraMatrix> matrices;
    std::vector<const void*> pointers;
    const auto* weights = weights_.as<Bfloat16>();
    const void* const* table = pointers_.as<const void*>();
    for (int64_t layer = 0; layer < count_; ++layer) {
      for (const int32_t rank : shape_.ranks) {
        for (const int64_t n : shape_.n) {
          LoraMatrix& matrix = matrices.emplace_back();
          matrix.rank = rank;
          matrix.scale = 0.5f;
          matrix.a_rows = table + pointers.size();
          for (int32_t j = 0; j < rank; ++j, weights += shape_.k) pointers.push_back(weights);
          matrix.b_rows = table + pointers.size();
          for (int32_t j = 0; j < rank; ++j, weights += n) pointers.push_back(weights);
        }
      }
    }
    CHECK_EQ(static_cast<int64_t>(pointers.size()), count_ * num_pointers);
    CopyToDevice(segments_.data(), segments.data(), segments_.bytes(), stream);
    CopyToDevice(matrices_.data(), matrices.data(), matrices_.bytes(), stream);
    CopyToDevice(pointers_.data(), pointers.data(), pointers_.bytes(), stream);
  }

  void Fill(Stream& stream) {
    const cudaStream_t s = CudaStreamOf(stream);
    FillBf16<<<1024, 256, 0, s>>>(weights_.as<Bfloat16>(), weights_.bytes() / 2, 1);
    FillBf16<<<1024, 256, 0, s>>>(x_.as<Bfloat16>(), x_.bytes() / 2, 1ull << 40);
    FillF32<<<1024, 256, 0, s>>>(y_.as<float>(), y_.bytes() / 4, 1ull << 41);
    CUDA_CHECK(cudaGetLastError());
    Synchronize(stream);
  }

  const Shape& shape_;
  const int64_t count_;
  Buffer weights_, x_, y_, segments_, matrices_;
  const int64_t rank_max_;
  Buffer h_;
  Buffer pointers_;
};

using Apply = std::function<void(const LoraArgs&, Stream&)>;

float WorstError(Layers& layers, const Apply& apply, const Device& device, Stream& stream) {
  const LoraArgs args = layers.Args(0);
  const int64_t y_bytes = args.num_rows * args.y_stride * 4;
  Buffer y_before(y_bytes, device);
  Buffer h(args.num_slices * args.num_rows * args.h_stride * 8, device);
  Buffer worst(4, device);
  CUDA_CHECK(cudaDeviceSynchronize());
  CopyOnDevice(y_before.data(), args.y, y_bytes, stream);
  apply(args, stream);
  const auto slices = static_cast<unsigned>(args.num_slices);
  for (int32_t i = 0; i < args.num_segments; ++i) {
    ReferenceShrink<<<dim3(static_cast<unsigned>(args.h_stride), slices), 256, 0,
                      CudaStreamOf(stream)>>>(args, i, h.as<double>());
    const int64_t n = *std::max_element(args.slice_n, args.slice_n + args.num_slices);
    ReferenceExpand<<<dim3(static_cast<unsigned>((n + 255) / 256), slices), 256, 0,
                      CudaStreamOf(stream)>>>(args, i, h.as<double>(), y_before.as<float>(),
                                              worst.as<unsigned>());
  }
  CUDA_CHECK(cudaGetLastError());
  CopyOnDevice(args.y, y_before.data(), y_bytes, stream);
  float result = 0.0f;
  CopyFromDevice(&result, worst.data(), 4, stream);
  Synchronize(stream);
  return result;
}

// Median microseconds for one layer.
double Time(Layers& layers, const Apply& apply, Stream& stream) {
  const int64_t launches = std::max(layers.count(), kLaunchesMin);
  return cuda_bench::MicrosecondsPerLaunch(stream, static_cast<int>(launches), [&](int i) {
    apply(layers.Args(i % layers.count()), stream);
  });
}

// How many rows each adapter has under Punica's popularity laws. "skewed": each adapter has two
// thirds of the rows of the one before it.
std::vector<int32_t> RowsUnder(const std::string& law, int32_t rows) {
  if (law == "distinct") return std::vector<int32_t>(rows, 1);
  std::vector<int32_t> result;
  if (law == "identical") {
    for (int32_t row = 0; row < rows; row += 64) result.push_back(std::min(64, rows - row));
    return result;
  }
  int32_t left = rows;
  const auto groups = static_cast<int32_t>(std::ceil(std::sqrt(rows)));
  for (int32_t i = 0; i < groups && left > 0; ++i) {
    int32_t take = (rows * (i + 1)) / groups - (rows * i) / groups;
    if (law == "skewed") take = std::max(1, static_cast<int32_t>(std::lround(left / 3.0)));
    if (i == groups - 1) take = left;
    result.push_back(take);
    left -= take;
  }
  return result;
}

std::vector<Shape> Shapes() {
  std::vector<Shape> shapes;
  const auto add = [&](const std::string& name, const std::vector<int32_t>& rows, int32_t rank,
                       int64_t k, const std::vector<int64_t>& n) {
    shapes.push_back({name, rows, std::vector<int32_t>(rows.size(), rank), k, n});
  };
  for (const int32_t rank : {16, 64}) {
    const std::string prefix = "r" + std::to_string(rank) + " ";
    add(prefix + "1", {1}, rank, 4096, {4096});
    for (const int32_t rows : {8, 32, 64, 128}) {
      for (const char* law : {"distinct", "uniform", "skewed", "identical"}) {
        add(prefix + std::to_string(rows) + " " + law, RowsUnder(law, rows), rank, 4096, {4096});
      }
    }
  }
  Shape mixed{"mixed ranks, 64 distinct", RowsUnder("distinct", 64), {}};
  for (int i = 0; i < 64; ++i) mixed.ranks.push_back(8 << i % 5);
  shapes.push_back(mixed);
  const std::vector<int32_t> distinct = RowsUnder("distinct", 32);
  add("qkv r16 32 distinct", distinct, 16, 4096, {4096, 4096, 4096});
  add("gate-up r16 32 distinct", distinct, 16, 4096, {11008, 11008});
  add("down r16 32 distinct", distinct, 16, 11008, {4096});
  const std::vector<int32_t> prefill(32, 64);  // four adapters of 512 rows in pieces of 64
  add("o r16 prefill 2048", prefill, 16, 4096, {4096});
  add("qkv r16 prefill 2048", prefill, 16, 4096, {4096, 4096, 4096});
  add("gate-up r16 prefill 2048", prefill, 16, 4096, {11008, 11008});
  add("down r16 prefill 2048", prefill, 16, 11008, {4096});
  return shapes;
}

__global__ void Nothing() {}
void Barrier(Stream& stream) {
  Nothing<<<1, 32, 0, CudaStreamOf(stream)>>>();
  CUDA_CHECK(cudaGetLastError());
}

// A small kernel that takes some microseconds and lets the next one begin at once, as a norm does.
__global__ void Norm() {
  WaitForPrevious();
  LetNextStart();
  const int64_t begin = clock64();
  while (clock64() - begin < 8000) {
  }
}
void BeginNorm(Stream& stream) { LaunchKernel(Norm, dim3(1), dim3(32), 0, CudaStreamOf(stream)); }

struct Variant {
  const char* name;
  Apply apply;
};

std::vector<Variant> Variants(bool all) {
  const auto shrink = [](LaunchOptions options) {
    return [options](const LoraArgs& args, Stream& stream) {
      lora::LaunchLora(Part::kShrink, args, options, stream);
    };
  };
  const auto expand = [](LaunchOptions options) {
    return [options](const LoraArgs& args, Stream& stream) {
      lora::LaunchLora(Part::kExpand, args, options, stream);
    };
  };
  const auto both = [](LaunchOptions shrink_options, LaunchOptions expand_options) {
    return [=](const LoraArgs& args, Stream& stream) {
      lora::LaunchLora(Part::kShrink, args, shrink_options, stream);
      lora::LaunchLora(Part::kExpand, args, expand_options, stream);
    };
  };
  std::vector<Variant> variants = {
      {"chained", [](const LoraArgs& args, Stream& stream) { Lora(args, stream); }},
      {"apart", both({.overlap = false}, {})},
      {"shrink", shrink({.overlap = false})},
      {"shr.chn", shrink({})},
      {"norm",
       [](const LoraArgs&, Stream& stream) {
         BeginNorm(stream);
         BeginNorm(stream);
       }},
      {"nrm.shr",
       [](const LoraArgs& args, Stream& stream) {
         BeginNorm(stream);
         LoraShrink(args, stream);
         BeginNorm(stream);
       }},
  };
  if (!all) return variants;
  const std::vector<Variant> more = {
      {"expand", expand({.overlap = false})},
      {"exp.chn", expand({})},
      {"nothing", [](const LoraArgs&, Stream& stream) { Barrier(stream); }},
      {"shr.d1", shrink({.overlap = false, .depth = 1})},
      {"shr.d2", shrink({.overlap = false, .depth = 2})},
      {"shr.d4", shrink({.overlap = false, .depth = 4})},
      {"shr.w", shrink({.overlap = false, .wide = 1})},
      {"shr.n", shrink({.overlap = false, .wide = 0})},
      {"exp.d1", expand({.overlap = false, .depth = 1})},
      {"exp.d2", expand({.overlap = false, .depth = 2})},
      {"exp.d4", expand({.overlap = false, .depth = 4})},
      {"exp.L2", expand({.overlap = false, .add_in_l2 = 1})},
      {"exp.add", expand({.overlap = false, .add_in_l2 = 0})},
  };
  variants.insert(variants.end(), more.begin(), more.end());
  return variants;
}

int Run(int argc, char** argv) {
  const bool all = argc > 1 && std::strcmp(argv[1], "all") == 0;
  const char* filter = argc > 2 ? argv[2] : "";
  if (NumCudaDevices() == 0) {
    std::puts("this machine shows no GPU");
    return 0;
  }
  ThreadPool threads(1);
  const Device device{DeviceKind::kCuda, 0};
  OwnedStream owned(device, &threads);
  Stream& stream = owned.get();
  const std::vector<Variant> variants = Variants(all);
  std::printf("%-26s %7s %6s", "microseconds", "error", "floor");
  for (const Variant& variant : variants) std::printf(" %7s", variant.name);
  std::printf("  GB/s share (apart)\n");
  bool right = true;
  for (const Shape& shape : Shapes()) {
    if (shape.name.find(filter) == std::string::npos) continue;
    Layers layers(shape, device, stream);
    float error = 0.0f;
    for (int i = 0; i < 2; ++i) {
      error = std::max(error, WorstError(layers, variants[i].apply, device, stream));
    }
    right = right && error < 1e-5f;
    const double floor = static_cast<double>(shape.bytes()) / kBytesPerUs;
    std::printf("%-26s %7.1e %6.2f", shape.name.c_str(), error, floor);
    double apart = 0.0;
    for (const Variant& variant : variants) {
      const double us = Time(layers, variant.apply, stream);
      if (std::strcmp(variant.name, "apart") == 0) apart = us;
      std::printf(" %7.2f", us);
    }
    std::printf("  %4.0f %3.0f%%\n", static_cast<double>(shape.bytes()) / apart / 1e3,
                100.0 * floor / apart);
    std::fflush(stdout);
  }
  return right ? 0 : 1;
}

}  // namespace
}  // namespace graft

int main(int argc, char** argv) { return graft::Run(argc, argv); }
