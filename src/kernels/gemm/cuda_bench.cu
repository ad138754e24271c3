// Gemm on a GPU: the projections of Llama-2 7B, all GEMMs of a decode step in one graph, prefill,
// LoRA beside the products, and the speed at which weights come from the host. Without arguments
// everything is measured. "lora" measures LoRA alone, "silu" gate_up and gated_activation alone,
// and "step" the GEMMs of a step alone. "tiles" also measures every tile of Hopper's kernel.
// "codes" measures products of codes beside bf16, with "tiles" in every way.
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "kernels/common/cuda_bench.cuh"
#include "kernels/gated_activation/gated_activation.h"
#include "kernels/gemm/cuda_bench_codes.cuh"
#include "kernels/gemm/cuda_bench_mma.cuh"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/gemm_cuda.h"
#include "kernels/gemm/gemm_layout.h"
#include "kernels/gemm/gemm_mma_tiles.h"
#include "kernels/lora/lora.h"

namespace graft {
namespace {

constexpr int kLayers = 32;
constexpr int64_t kRowsMax = 2048;
constexpr double kFlops = 790e12;  // measured on an H200

struct Shape {
  const char* name;
  int64_t n;
  int64_t k;
};
constexpr Shape kShapes[] = {
    {"qkv", 12288, 4096}, {"o", 4096, 4096}, {"gate_up", 22016, 4096}, {"down", 4096, 11008}};
constexpr Shape kHead = {"lm_head", 32000, 4096};
// Llama-3.1-8B's, for "middle8b".
constexpr Shape kGroupedShapes[] = {
    {"qkv", 6144, 4096}, {"o", 4096, 4096}, {"gate_up", 28672, 4096}, {"down", 4096, 14336}};
constexpr int64_t kInputMax = 14336;

GemmWeight MakeWeight(const Shape& shape, uint64_t seed, Stream& stream) {
  const DrawnRows part{shape.n, seed};
  return GemmWeight::Random({&part, 1}, shape.k, 0.02f, DType::kBF16, stream);
}

struct Model {
  Model(const Shape (&shapes)[4], Stream& stream) {
    for (int layer = 0; layer < kLayers; ++layer) {
      for (const Shape& shape : shapes) {
        weights[&shape - shapes].push_back(
            MakeWeight(shape, static_cast<uint64_t>(layer * 8 + (&shape - shapes)), stream));
      }
    }
    head = MakeWeight(kHead, 999, stream);
    x = Buffer(kRowsMax * kInputMax * 2, stream.device);
    y = Buffer(kRowsMax * 32000 * 4, stream.device);
    activated = Buffer(kRowsMax * kInputMax * 2, stream.device);
    FillRandomRows(5, 1.0f, DType::kBF16, kRowsMax, kInputMax, kInputMax, x.data(), stream);
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
  Buffer x, y, activated;
};

constexpr size_t kGateUp = 2;  // index in kShapes

void GatedActivationOf(Model& model, int64_t m, Stream& stream) {
  GatedActivation({.gate_up = model.y.as<float>(),
                   .out = model.activated.data(),
                   .out_dtype = DType::kBF16,
                   .num_tokens = m,
                   .n = kShapes[kGateUp].n / 2},
                  stream);
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
  // NaN counts as an error too. Positive floats compare as their bits do as integers.
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

// One shape over all layers' weights. For gate_up the row includes SwiGLU's activation, as a step
// has it.
void BenchShape(Model& model, const Shape& shape, size_t idx, int64_t m, bool all_tiles,
                Stream& stream) {
  const std::vector<GemmWeight>& weights = model.weights[idx];
  const auto num_weights = static_cast<int>(weights.size());
  const double bytes = static_cast<double>(shape.n * shape.k) * 2.0;
  const double flops = 2.0 * static_cast<double>(m * shape.n * shape.k);
  const double floor_us = std::max(bytes / cuda_bench::kBytesPerSecond, flops / kFlops) * 1e6;
  const bool activates = idx == kGateUp;
  const auto report = [&](const GemmTile& tile) {
    const double us =
        cuda_bench::MicrosecondsPerLaunch(stream, std::max(num_weights, 4), [&](int i) {
          GemmArgs args = model.Args(weights[static_cast<size_t>(i % num_weights)], m);
          if (activates) args.epilogue.activated = model.activated.data();
          GemmHopper(CudaArgsOf(args), tile, stream);
        });
    std::printf("%-8s m %4lld %8.2f us %5.2f TB/s %4.0f TFLOP/s %4.0f%% of the floor, tile %s\n",
                shape.name, static_cast<long long>(m), us, bytes / us * 1e-6, flops / us * 1e-6,
                100.0 * floor_us / us, tile.ToString().c_str());
  };
  if (all_tiles) {
    for (const GemmTile& tile : HopperGemmTiles(DType::kBF16)) {
      if (!activates || tile.activates(shape.n)) report(tile);
    }
  } else {
    report(ChooseHopperGemmTile(m, shape.n, shape.k, {.activates = activates}, stream.device));
  }
}

// All GEMMs of one decode step.
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

// The kernel of mma.sync with one tile, over all layers' weights of a shape, and what this card's
// own kernel takes. kChosen: the tile that it chooses.
constexpr size_t kChosen = ~size_t{0};
double BenchMma(Model& model, size_t idx, int64_t m, size_t tile, double peak, Stream& stream) {
  const Shape& shape = kGroupedShapes[idx];
  const auto time = [&](const auto& launch) {
    return cuda_bench::MicrosecondsPerLaunch(stream, kLayers, [&](int i) {
      GemmArgs args = model.Args(model.weights[idx][static_cast<size_t>(i)], m);
      if (idx == kGateUp) args.epilogue.activated = model.activated.data();
      launch(CudaArgsOf(args));
    });
  };
  if (tile == kChosen) {
    tile = mma::ChooseTile(m, shape.n, shape.k, false, TraitsOf(stream.device));
  }
  const double us = time([&](const GemmCudaArgs& args) { GemmMma(args, tile, stream); });
  const double own = time([&](const GemmCudaArgs& args) { GemmCuda(args, stream); });
  const double flops = 2.0 * static_cast<double>(m * shape.n * shape.k);
  std::printf(
      "mma %-8s m %4lld %8.2f us %5.0f GB/s %4.0f TFLOP/s %3.0f%% of mma.sync | Gemm %8.2f us, "
      "%.2f of it | %s\n",
      shape.name, static_cast<long long>(m), us, static_cast<double>(shape.n * shape.k) * 2e-3 / us,
      flops / us * 1e-6, flops / us * 1e8 / peak, own, own / us,
      mma::kTiles[tile].ToString().c_str());
  return us;
}

void BenchMmaAll(Model& model, bool all_tiles, std::vector<int64_t> rows, Stream& stream) {
  const double peak = mma_bench::Peak(stream);
  std::printf("mma.sync by registers: %.0f TFLOP/s\n", peak * 1e-12);
  if (rows.empty()) rows = {1, 8, 16, 32, 64, 128, 512, 2048};
  for (const int64_t m : rows) {
    double us = 0.0, flops = 0.0, bytes = 0.0;
    for (size_t i = 0; i < std::size(kGroupedShapes); ++i) {
      us += BenchMma(model, i, m, kChosen, peak, stream);
      const auto numbers = static_cast<double>(kGroupedShapes[i].n * kGroupedShapes[i].k);
      flops += 2.0 * static_cast<double>(m) * numbers;
      bytes += 2.0 * numbers;
      for (size_t tile = 0; all_tiles && tile < mma::kNumTiles; ++tile) {
        BenchMma(model, i, m, tile, peak, stream);
      }
    }
    std::printf("mma layer    m %4lld %8.2f us %5.0f GB/s %4.0f TFLOP/s %3.0f%% of mma.sync\n",
                static_cast<long long>(m), us, bytes * 1e-3 / us, flops / us * 1e-6,
                flops / us * 1e8 / peak);
  }
  std::printf("mma.sync by registers: %.0f TFLOP/s\n", mma_bench::Peak(stream) * 1e-12);
}

// Products of codes and of bf16, of Llama-3.1-8B's shapes, and a layer's sum of each.
void BenchCodes(bool all_ways, std::vector<int64_t> rows, Stream& stream) {
  if (rows.empty()) rows = {1, 8, 16, 32, 64, 128, 256, 512, 2048};
  const int64_t rows_max = *std::max_element(rows.begin(), rows.end());
  const Shape& widest = kGroupedShapes[kGateUp];
  Buffer x(rows_max * kInputMax * 2, stream.device), y(rows_max * widest.n * 4, stream.device);
  Buffer activated(rows_max * widest.n, stream.device);
  Buffer room(widest.n * widest.k * 2, stream.device);
  FillRandomRows(5, 1.0f, DType::kBF16, rows_max, kInputMax, kInputMax, x.data(), stream);
  std::vector<double> bf16_us(rows.size() * std::size(kGroupedShapes), 0.0);
  for (const codes_bench::Format& format : codes_bench::kFormats) {
    std::vector<double> layer_us(rows.size(), 0.0), layer_bf16_us(rows.size(), 0.0);
    for (size_t i = 0; i < std::size(kGroupedShapes); ++i) {
      const Shape& shape = kGroupedShapes[i];
      const auto weights = codes_bench::ColdWeights(shape.n, shape.k, format.format, stream);
      for (size_t r = 0; r < rows.size(); ++r) {
        double& bf16 = bf16_us[r * std::size(kGroupedShapes) + i];
        const double us =
            codes_bench::BenchShape(shape.name, format, shape.n, shape.k, rows[r], i == kGateUp,
                                    all_ways, bf16, weights, {x, y, activated, room}, stream);
        if (format.format.is_plain()) bf16 = us;
        layer_us[r] += us;
        layer_bf16_us[r] += bf16;
      }
    }
    for (size_t r = 0; r < rows.size(); ++r) {
      std::printf("codes %-10s layer    m %4lld %8.2f us, bf16 over it %5.2f\n", format.name,
                  static_cast<long long>(rows[r]), layer_us[r], layer_bf16_us[r] / layer_us[r]);
    }
  }
}

// Adapters of rank 16 for all layers' copies of one projection, and a batch's segments.
struct Adapters {
  Adapters(const Shape& of, const std::vector<int64_t>& slices, int num_slots,
           const std::vector<LoraSegment>& batch, Stream& stream)
      : shape(of), slice_n(slices), num_segments(static_cast<int32_t>(batch.size())) {
    const auto num_slices = static_cast<int64_t>(slices.size());
    const int64_t slot_elements = kRank * (num_slices * shape.k + shape.n);
    bytes = num_slots * slot_elements * 2;
    weights = Buffer(kLayers * bytes, stream.device);
    FillRandomRows(7, 0.02f, DType::kBF16, kLayers * num_slots, slot_elements, slot_elements,
                   weights.data(), stream);
    rows = Buffer(kLayers * num_slots * num_slices * 2 * kRank * 8, stream.device);
    std::vector<const void*> row_table;
    std::vector<LoraMatrix> matrix_table;
    auto* next = weights.as<uint16_t>();
    for (int64_t i = 0; i < int64_t{kLayers} * num_slots; ++i) {
      for (const int64_t n : slices) {
        const auto* const* table = rows.as<const void*>() + row_table.size();
        matrix_table.push_back(
            {.a_rows = table, .b_rows = table + kRank, .rank = kRank, .scale = 2.0f});
        for (int rank = 0; rank < kRank; ++rank, next += shape.k) row_table.push_back(next);
        for (int rank = 0; rank < kRank; ++rank, next += n) row_table.push_back(next);
      }
    }
    matrices =
        Buffer(static_cast<int64_t>(matrix_table.size() * sizeof(LoraMatrix)), stream.device);
    segments = Buffer(static_cast<int64_t>(batch.size() * sizeof(LoraSegment)), stream.device);
    h = Buffer(LoraScratchFloats(stream.device, num_slices * kRowsMax, kRank) * 4, stream.device);
    layer_matrices = num_slots * num_slices;
    CUDA_CHECK(
        cudaMemcpy(rows.data(), row_table.data(), row_table.size() * 8, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(matrices.data(), matrix_table.data(),
                          matrix_table.size() * sizeof(LoraMatrix), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(segments.data(), batch.data(), batch.size() * sizeof(LoraSegment),
                          cudaMemcpyHostToDevice));
  }

  LoraArgs Args(int layer, const GemmArgs& gemm) {
    LoraArgs args{.dtype = DType::kBF16,
                  .segments = segments.as<LoraSegment>(),
                  .num_segments = num_segments,
                  .matrices = matrices.as<LoraMatrix>() + layer * layer_matrices,
                  .matrices_stride = static_cast<int64_t>(slice_n.size()),
                  .num_slices = static_cast<int32_t>(slice_n.size()),
                  .x = gemm.x,
                  .x_stride = gemm.x_stride,
                  .k = shape.k,
                  .h = h.as<float>(),
                  .h_stride = kRank,
                  .num_rows = static_cast<int32_t>(gemm.m),
                  .y = gemm.y,
                  .y_stride = gemm.y_stride};
    int64_t column = 0;
    for (size_t i = 0; i < slice_n.size(); ++i) {
      args.slice_begin[i] = column;
      args.slice_n[i] = slice_n[i];
      column += slice_n[i];
    }
    return args;
  }

  static constexpr int32_t kRank = 16;
  Shape shape;
  std::vector<int64_t> slice_n;
  int32_t num_segments;
  int64_t layer_matrices = 0;
  int64_t bytes = 0;  // of one layer
  Buffer weights, rows, matrices, segments, h;
};

// A batch of m rows over num_slots adapters, in segments of rows_per_segment.
void BenchLora(Model& model, int64_t m, int num_slots, int rows_per_segment, Stream& stream) {
  std::vector<LoraSegment> batch;
  for (int32_t row = 0; row < m; row += rows_per_segment) {
    batch.push_back({row, row + rows_per_segment, static_cast<int32_t>(row * num_slots / m)});
  }
  const std::vector<int64_t> slices[] = {{4096, 4096, 4096}, {4096}, {11008, 11008}, {4096}};
  for (const Shape& shape : kShapes) {
    const auto idx = static_cast<size_t>(&shape - kShapes);
    Adapters adapters(shape, slices[idx], num_slots, batch, stream);
    Synchronize(stream);
    const auto time = [&](bool shrinks, bool multiplies, bool fused, bool expands) {
      return cuda_bench::MicrosecondsPerLaunch(stream, kLayers, [&](int layer) {
        GemmArgs gemm = model.Args(model.weights[idx][static_cast<size_t>(layer)], m);
        const LoraArgs lora = adapters.Args(layer, gemm);
        if (fused) gemm.epilogue = {.lora = &lora, .lora_place = LoraPlace::kInside};
        if (shrinks) LoraShrink(lora, stream);
        if (multiplies) Gemm(gemm, stream);
        if (expands) LoraExpand(lora, stream);
      });
    };
    const double plain = time(false, true, false, false);
    const double fused = time(true, true, true, false);
    const double bytes_us = static_cast<double>(adapters.bytes) / cuda_bench::kBytesPerSecond * 1e6;
    std::printf(
        "lora %-8s m %4lld, %2d adapters: plain %7.2f, fused %+6.2f (%4.1f%%; its bytes %5.2f), "
        "fused without shrink %+6.2f, shrink alone %5.2f, three kernels %+6.2f us\n",
        shape.name, static_cast<long long>(m), num_slots, plain, fused - plain,
        100.0 * (fused / plain - 1.0), bytes_us, time(false, true, true, false) - plain,
        time(true, false, false, false), time(true, true, false, true) - plain);
    if (idx != kGateUp) continue;
    const auto time_activated = [&](bool in_one) {
      return cuda_bench::MicrosecondsPerLaunch(stream, kLayers, [&](int layer) {
        GemmArgs gemm = model.Args(model.weights[idx][static_cast<size_t>(layer)], m);
        const LoraArgs lora = adapters.Args(layer, gemm);
        gemm.epilogue = {.lora = &lora, .lora_place = LoraPlace::kInside};
        if (in_one) gemm.epilogue.activated = model.activated.data();
        LoraShrink(lora, stream);
        Gemm(gemm, stream);
        if (!in_one) GatedActivationOf(model, m, stream);
      });
    };
    std::printf("  ... with shrink and gated_activation: apart %7.2f, in one %7.2f us\n",
                time_activated(false), time_activated(true));
  }
}

// gate_up and gated_activation: as two kernels, and fused into one.
void BenchActivated(Model& model, int64_t m, bool all_tiles, Stream& stream) {
  const auto& weights = model.weights[kGateUp];
  const auto time = [&](bool gated_activation, const GemmTile* fused) {
    return cuda_bench::MicrosecondsPerLaunch(stream, kLayers, [&](int layer) {
      GemmArgs gemm = model.Args(weights[static_cast<size_t>(layer)], m);
      if (fused != nullptr) {
        gemm.epilogue.activated = model.activated.data();
        GemmHopper(CudaArgsOf(gemm), *fused, stream);
      } else {
        Gemm(gemm, stream);
      }
      if (gated_activation) GatedActivationOf(model, m, stream);
    });
  };
  const double plain = time(false, nullptr);
  const double apart = time(true, nullptr);
  const auto report = [&](const GemmTile& tile) {
    std::printf(
        "gate_up m %4lld: alone %7.2f, then gated_activation %7.2f, in one %7.2f us, tile %s\n",
        static_cast<long long>(m), plain, apart, time(false, &tile), tile.ToString().c_str());
  };
  const Shape& shape = kShapes[kGateUp];
  report(ChooseHopperGemmTile(m, shape.n, shape.k, {.activates = true}, stream.device));
  if (!all_tiles) return;
  for (const GemmTile& tile : HopperGemmTiles(DType::kBF16)) {
    if (tile.activates(shape.n)) report(tile);
  }
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

// Each word selects a part: "tiles" times all tiles; "lora", "silu" and "step" time that part
// alone; "middle" times all tiles at the row counts of steps that contain a prompt.
// "middle8b" does the same for Llama-3.1-8B's shapes. Numbers among the words are the row counts.
template <typename Asks>
int Main(const Asks& asks, std::vector<int64_t> rows) {
  const bool all_tiles = asks("tiles");
  const bool lora_alone = asks("lora");
  const bool activated_alone = asks("silu");
  const bool step_alone = asks("step");
  const bool mma_alone = asks("mma");
  const bool middle_alone = asks("middle") || asks("middle8b");
  const bool grouped = asks("middle8b") || mma_alone;
  if (NumCudaDevices() == 0) {
    std::puts("no GPU");
    return 1;
  }
  ThreadPool threads(16);
  OwnedStream owned({DeviceKind::kCuda, 0}, &threads);
  Stream& stream = owned.get();
  if (!lora_alone && !activated_alone && !step_alone && !middle_alone && !mma_alone &&
      !asks("codes")) {
    BenchUpload(stream);
  }
  if (asks("codes")) {
    BenchCodes(all_tiles, std::move(rows), stream);
    return 0;
  }
  const auto& shapes = grouped ? kGroupedShapes : kShapes;
  Model model(shapes, stream);
  if (mma_alone) {
    BenchMmaAll(model, all_tiles, std::move(rows), stream);
    return 0;
  }
  if (step_alone) {
    for (const int64_t m : {1, 32, 64, 128, 2048}) BenchStep(model, m, stream);
    return 0;
  }
  if (middle_alone) {
    if (rows.empty()) {
      rows = {64, 96, 128, 159, 191, 223, 256, 287, 320, 352, 383, 415, 447, 511};
    }
    for (const int64_t m : rows) {
      for (size_t i = 0; i < std::size(shapes); ++i) {
        BenchShape(model, shapes[i], i, m, false, stream);
        BenchShape(model, shapes[i], i, m, true, stream);
      }
    }
    return 0;
  }
  if (!lora_alone) {
    for (const int64_t m : {1, 32, 64, 128, 512, 2048}) {
      BenchActivated(model, m, all_tiles, stream);
    }
  }
  if (activated_alone) return 0;
  BenchLora(model, 32, 32, 1, stream);
  BenchLora(model, 32, 1, 32, stream);
  BenchLora(model, 2048, 4, 64, stream);
  BenchLora(model, 2048, 64, 32, stream);
  if (lora_alone) return 0;
  for (const int64_t m : {1, 33, 100, 500}) {
    for (const auto& weights : model.weights) Check(model, weights[0], m, stream);
  }
  for (const int64_t m : {1, 8, 16, 32, 64, 128}) BenchStep(model, m, stream);
  for (const int64_t m : {1, 32, 64, 96, 128, 160, 224, 256, 287, 352, 415, 512, 1024, 2048}) {
    for (size_t i = 0; i < std::size(kShapes); ++i) {
      BenchShape(model, kShapes[i], i, m, all_tiles, stream);
    }
  }
  return 0;
}

}  // namespace
}  // namespace graft

int main(int argc, char** argv) {
  const auto asks = [&](const char* what) {
    return std::any_of(argv + 1, argv + argc, [&](const char* v) { return !std::strcmp(v, what); });
  };
  std::vector<int64_t> rows;
  for (int i = 1; i < argc; ++i) {
    if (const int64_t number = std::atoll(argv[i]); number > 0) rows.push_back(number);
  }
  return graft::Main(asks, std::move(rows));
}
