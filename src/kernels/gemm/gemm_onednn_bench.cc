// gemm_onednn_bench [fp32]: our GEMM beside oneDNN's matmul, in turns, on weights rotated past the
// cache, and whether oneDNN's rows keep their bits from batch to batch. The figures stand in
// docs/inside/kernels.md; they are why the product computes its GEMMs itself. A development
// program: the only file that includes oneDNN, and oneDNN's exceptions end it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <dnnl.hpp>
#include <exception>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "kernels/gemm/gemm.h"

namespace graft {
namespace {

constexpr int64_t kRotateBytes = int64_t{160} << 20;
constexpr int64_t kRows[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};

// oneDNN's side: one packed weight per copy, one primitive per m.
class OneDnn {
 public:
  OneDnn(int64_t n, int64_t k, DType dtype, const void* weight, int64_t copies)
      : n_(n), k_(k), type_(dtype == DType::kF32 ? Type::f32 : Type::bf16) {
    dnnl::memory source({{k, n}, type_, Tag::ba}, engine_, const_cast<void*>(weight));
    const auto packed = Describe(64).weights_desc();
    for (int64_t i = 0; i < copies; ++i) {
      weights_.emplace_back(packed, engine_);
      dnnl::reorder(source, weights_.back()).execute(stream_, source, weights_.back());
    }
    stream_.wait();
  }

  void Run(int64_t m, int64_t copy, const void* x, float* y) {
    auto found = primitives_.find(m);
    if (found == primitives_.end()) {
      const auto description = Describe(m);
      if (description.weights_desc() != weights_[0].get_desc()) std::puts("another layout!");
      found = primitives_.emplace(m, dnnl::matmul(description)).first;
    }
    dnnl::memory x_memory({{m, k_}, type_, Tag::ab}, engine_, const_cast<void*>(x));
    dnnl::memory y_memory({{m, n_}, Type::f32, Tag::ab}, engine_, y);
    found->second.execute(
        stream_,
        {{DNNL_ARG_SRC, x_memory}, {DNNL_ARG_WEIGHTS, weights_[copy]}, {DNNL_ARG_DST, y_memory}});
    stream_.wait();
  }

 private:
  using Type = dnnl::memory::data_type;
  using Tag = dnnl::memory::format_tag;

  dnnl::matmul::primitive_desc Describe(int64_t m) {
    const dnnl::memory::desc x({m, k_}, type_, Tag::ab), w({k_, n_}, type_, Tag::any),
        y({m, n_}, Type::f32, Tag::ab);
    return {{x, w, y}, engine_};
  }

  int64_t n_, k_;
  Type type_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::vector<dnnl::memory> weights_;
  std::map<int64_t, dnnl::matmul> primitives_;
};

double Median(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Times runs of one side after a pause: libgomp's threads spin for milliseconds after their last
// work, on the cores that our threads need (run by run in turns, ours took 7 ms each).
template <typename Function>
void TimeBlock(int64_t runs, std::vector<double>& us, const Function& function) {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto first = static_cast<int64_t>(us.size());
  function(first);  // wakes the threads; untimed
  for (int64_t run = 1; run <= runs; ++run) {
    const int64_t begin = SteadyClock::Get().NowNs();
    function(first + run);
    us.push_back(static_cast<double>(SteadyClock::Get().NowNs() - begin) * 1e-3);
  }
}

void Compare(int64_t n, int64_t k, DType dtype, Stream& stream) {
  const int64_t bytes = n * k * DTypeBytes(dtype);
  Buffer source(bytes), x(512 * k * DTypeBytes(dtype));
  Random random(1);
  for (Buffer* buffer : {&source, &x}) {
    for (int64_t i = 0; i < buffer->bytes() / DTypeBytes(dtype); ++i) {
      const float value = static_cast<float>(random.Uniform() - 0.5);
      if (dtype == DType::kF32) {
        buffer->as<float>()[i] = value;
      } else {
        buffer->as<Bfloat16>()[i] = FromFloat<Bfloat16>(value);
      }
    }
  }
  const int64_t copies = std::max<int64_t>(2, kRotateBytes / bytes);
  const TensorView view{source.data(), dtype, {n, k}};
  std::vector<GemmWeight> ours;
  for (int64_t i = 0; i < copies; ++i) ours.push_back(GemmWeight::Pack({&view, 1}, dtype, stream));
  OneDnn theirs(n, k, dtype, source.data(), copies);

  std::vector<float> y(512 * n), first_row(n);
  for (const int64_t m : kRows) {
    std::vector<double> our_us, their_us;
    for (int round = 0; round < 4; ++round) {
      TimeBlock(m > 64 ? 3 : 10, our_us, [&](int64_t run) {
        Gemm({.x = x.data(),
              .x_stride = k,
              .m = m,
              .weight = &ours[run % copies],
              .y = y.data(),
              .y_stride = n},
             stream);
      });
      TimeBlock(m > 64 ? 3 : 10, their_us,
                [&](int64_t run) { theirs.Run(m, run % copies, x.data(), y.data()); });
    }
    if (m == 1) std::copy_n(y.data(), n, first_row.data());
    int64_t different = 0;
    for (int64_t i = 0; i < n; ++i) {
      different += std::memcmp(&first_row[i], &y[i], sizeof(float)) != 0 ? 1 : 0;
    }
    const double us = Median(our_us), other_us = Median(their_us);
    const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n * k);
    std::printf(
        "%s k %5ld n %5ld m %3ld: ours %8.0f us %5.1f GB/s %5.0f GFLOP/s, oneDNN %8.0f us "
        "%5.1f GB/s %5.0f GFLOP/s, ratio %.2f; oneDNN's row 0 differs from m 1 in %.1f %%\n",
        std::string(DTypeName(dtype)).c_str(), static_cast<long>(k), static_cast<long>(n),
        static_cast<long>(m), us, static_cast<double>(bytes) / us * 1e-3, flops / us * 1e-3,
        other_us, static_cast<double>(bytes) / other_us * 1e-3, flops / other_us * 1e-3,
        other_us / us, 100.0 * static_cast<double>(different) / static_cast<double>(n));
  }
}

}  // namespace
}  // namespace graft

int main(int argc, char** argv) {
  using graft::DType;
  const DType dtype = argc > 1 && std::string(argv[1]) == "fp32" ? DType::kF32 : DType::kBF16;
  graft::ThreadPool threads(graft::NumCpus());
  graft::Stream stream{.device = {}, .cpu_threads = &threads};
  try {
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>{2048, 2048},
                               {2560, 2048},
                               {11264, 2048},
                               {2048, 5632},
                               {100, 333}}) {
      graft::Compare(n, k, dtype, stream);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "oneDNN: %s\n", error.what());
    return 1;
  }
  return 0;
}
