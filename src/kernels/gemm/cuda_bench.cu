// Gemm on a GPU: the projections of Llama-2 7B, a step's GEMMs in one graph as decoding runs them,
// prefill, and how fast weights come from the host. Arguments: nothing for all of it, or
// "tiles" for every tile of Hopper's kernel too.
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/common/cuda_bench.cuh"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/gemm_cuda.h"
#include "kernels/gemm/gemm_layout.h"

namespace graft {
namespace {

constexpr int kLayers = 32;
constexpr int64_t kRowsMax = 2048;
constexpr double kFlops = 790e12;  // measured, H200

struct Shape {
  const char* name;
  int64_t n;
  int64_t k;
};
constexpr Shape kShapes[] = {
    {"qkv", 12288, 4096}, {"o", 4096, 4096}, {"gate_up", 22016, 4096}, {"down", 4096, 11008}};
constexpr Shape kHead = {"lm_head", 32000, 4096};

GemmWeight MakeWeight(const Shape& shape, uint64_t seed, Stream& stream) {
  const GemmWeight::RandomPart part{shape.n, seed};
  return GemmWeight::Random({&part, 1}, shape.k, 0.02f, DType::kBF16, stream);
}

struct Model {
  explicit Model(Stream& stream) {
    for (int layer = 0; layer < kLayers; ++layer) {
      for (const Shape& shape : kShapes) {
        weights[&shape - kShapes].push_back(
            MakeWeight(shape, static_cast<uint64_t>(layer * 8 + (&shape - kShapes)), stream));
      }
    }
    head = MakeWeight(kHead, 999, stream);
    x = Buffer(kRowsMax * 11008 * 2, stream.device);
    y = Buffer(kRowsMax * 32000 * 4, stream.device);
    FillRandomRows(5, 1.0f, DType::kBF16, kRowsMax, 11008, 11008, x.data(), stream);
    Synchronize(stream);
  }

  GemmArgs Args(const GemmWeight& weight, int64_t m) {
    return {.x = x.data(),
            .x_stride = weight.k(),
            .m = m,
            .weight = &weight,
            .y = y.as<float>(),
            .y_stride = weight.n()};
  }

  std::vector<GemmWeight> weights[4];
  GemmWeight head;
  Buffer x, y;
};

GemmCudaArgs ForKernel(const GemmArgs& args) {
  return {.gemm = args,
          .w = args.weight->state()->panels.data(),
          .w_stride = GemmCudaStride(args.weight->k()),
          .n = args.weight->n(),
          .k = args.weight->k(),
          .dtype = args.weight->dtype()};
}

__global__ void ReferenceKernel(const uint16_t* x, const uint16_t* w, int64_t n, int64_t k,
                                const float* y, float* error) {
  const int64_t column = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t row = blockIdx.y;
  if (column >= n) return;
  double sum = 0.0, magnitude = 0.0;
  for (int64_t i = 0; i < k; ++i) {
    const double term = static_cast<double>(__uint_as_float(x[row * k + i] << 16)) *
                        static_cast<double>(__uint_as_float(w[column * k + i] << 16));
    sum += term;
    magnitude += fabs(term);
  }
  const double relative = fabs(static_cast<double>(y[row * n + column]) - sum) / magnitude;
  // Not a number is an error too. Positive floats compare as integers do.
  const float bound = relative < 1e30 ? static_cast<float>(relative) : 1e30f;
  atomicMax(reinterpret_cast<int*>(error), __float_as_int(bound));
}

void Check(Model& model, const GemmWeight& weight, int64_t m, Stream& stream) {
  Buffer error(4, stream.device);
  CUDA_CHECK(cudaMemset(model.y.data(), 0xff, static_cast<size_t>(m * weight.n() * 4)));
  CUDA_CHECK(cudaDeviceSynchronize());
  Gemm(model.Args(weight, m), stream);
  const dim3 grid(static_cast<unsigned>((weight.n() + 127) / 128), static_cast<unsigned>(m));
  ReferenceKernel<<<grid, 128, 0, CudaStreamOf(stream)>>>(
      model.x.as<uint16_t>(), weight.state()->panels.as<uint16_t>(), weight.n(), weight.k(),
      model.y.as<float>(), error.as<float>());
  CUDA_CHECK(cudaGetLastError());
  Synchronize(stream);
  float worst = 0.0f;
  CUDA_CHECK(cudaMemcpy(&worst, error.data(), 4, cudaMemcpyDeviceToHost));
  std::printf("check n %6lld k %5lld m %4lld: worst error %.1e of the terms' magnitudes%s\n",
              static_cast<long long>(weight.n()), static_cast<long long>(weight.k()),
              static_cast<long long>(m), static_cast<double>(worst),
              worst < 1e-5f ? "" : "  WRONG");
}

std::string TileText(const GemmTile& tile) {
  return std::to_string(tile.groups * 64) + " x " + std::to_string(tile.columns) +
         (tile.blocks > 1 ? " in pairs" : "");
}

// One shape over the layers' weights.
void BenchShape(Model& model, const Shape& shape, const std::vector<GemmWeight>& weights, int64_t m,
                bool all_tiles, Stream& stream) {
  const auto num_weights = static_cast<int>(weights.size());
  const double bytes = static_cast<double>(shape.n * shape.k) * 2.0;
  const double flops = 2.0 * static_cast<double>(m * shape.n * shape.k);
  const double floor_us = std::max(bytes / cuda_bench::kBytesPerSecond, flops / kFlops) * 1e6;
  const auto report = [&](const GemmTile& tile) {
    const double us =
        cuda_bench::MicrosecondsPerLaunch(stream, std::max(num_weights, 4), [&](int i) {
          GemmHopper(ForKernel(model.Args(weights[static_cast<size_t>(i % num_weights)], m)), tile,
                     stream);
        });
    std::printf("%-8s m %4lld %8.2f us %5.2f TB/s %4.0f TFLOP/s %4.0f%% of the floor, tile %s\n",
                shape.name, static_cast<long long>(m), us, bytes / us * 1e-6, flops / us * 1e-6,
                100.0 * floor_us / us, TileText(tile).c_str());
  };
  if (all_tiles) {
    for (const GemmTile& tile : HopperGemmTiles()) report(tile);
  } else {
    report(ChooseHopperGemmTile(m, shape.n, shape.k, stream.device));
  }
}

// All of a step's GEMMs, as decoding runs them.
void BenchStep(Model& model, int64_t m, Stream& stream) {
  double bytes = static_cast<double>(model.head.bytes());
  for (const auto& weights : model.weights) {
    for (const GemmWeight& weight : weights) bytes += static_cast<double>(weight.bytes());
  }
  const double us = cuda_bench::MicrosecondsPerLaunch(stream, 1, [&](int) {
    for (size_t layer = 0; layer < kLayers; ++layer) {
      for (auto& weights : model.weights) Gemm(model.Args(weights[layer], m), stream);
    }
    Gemm(model.Args(model.head, m), stream);
  });
  std::printf("step     m %4lld %8.0f us %5.2f TB/s, %3.0f%% of the floor\n",
              static_cast<long long>(m), us, bytes / us * 1e-6,
              100.0 * bytes / cuda_bench::kBytesPerSecond * 1e6 / us);
}

void BenchUpload(Stream& stream) {
  constexpr int64_t kN = 22016, kK = 4096;
  std::vector<uint16_t> source(static_cast<size_t>(kN * kK), uint16_t{0x3f80});
  std::vector<float> wide(static_cast<size_t>(kN * kK), 1.0f);
  const TensorView views[] = {{source.data(), DType::kBF16, {kN, kK}},
                              {wide.data(), DType::kF32, {kN, kK}}};
  for (const TensorView& view : views) {
    double best = 1e9;
    for (int i = 0; i < 4; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      const GemmWeight weight = GemmWeight::Pack({&view, 1}, DType::kBF16, stream);
      best = std::min(
          best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    std::printf("upload from %s: %.1f GB/s of bf16\n", std::string(DTypeName(view.dtype)).c_str(),
                static_cast<double>(kN * kK * 2) / best * 1e-9);
  }
}

int Main(bool all_tiles) {
  if (NumCudaDevices() == 0) {
    std::puts("no GPU");
    return 1;
  }
  ThreadPool threads(16);
  OwnedStream owned({DeviceKind::kCuda, 0}, &threads);
  Stream& stream = owned.get();
  BenchUpload(stream);
  Model model(stream);
  for (const int64_t m : {1, 33, 100, 500}) {
    for (const auto& weights : model.weights) Check(model, weights[0], m, stream);
  }
  for (const int64_t m : {1, 8, 16, 32, 64, 128}) BenchStep(model, m, stream);
  for (const int64_t m : {1, 32, 64, 128, 256, 512, 1024, 2048}) {
    for (const Shape& shape : kShapes) {
      BenchShape(model, shape, model.weights[&shape - kShapes], m, all_tiles, stream);
    }
  }
  return 0;
}

}  // namespace
}  // namespace graft

int main(int argc, char** argv) {
  return graft::Main(argc > 1 && std::strcmp(argv[1], "tiles") == 0);
}
