#include "learn/gpu_masters.h"

#include <cstddef>

#include "base/check.h"

namespace graft {
namespace {

Buffer Floats(int64_t n, const Stream& stream) {
  return Buffer(n * int64_t{sizeof(float)}, stream.device);
}

}  // namespace

GpuMasters::GpuMasters(int64_t num_parameters, DType dtype, Stream& stream)
    : stream_(stream),
      dtype_(dtype),
      num_parameters_(num_parameters),
      parameters_(Floats(num_parameters, stream)),
      gradients_(Floats(num_parameters, stream)),
      first_moments_(Floats(num_parameters, stream)),
      second_moments_(Floats(num_parameters, stream)) {}

int64_t GpuMasters::BytesFor(int64_t num_parameters, int64_t num_rows) {
  constexpr int64_t kFloatsOfParameter = 4;  // itself, its gradient and two moments
  return num_parameters * kFloatsOfParameter * int64_t{sizeof(float)} +
         num_rows * static_cast<int64_t>(sizeof(RoundedRow));
}

void GpuMasters::SetRows(const std::vector<RoundedRow>& rows) {
  num_rows_ = static_cast<int64_t>(rows.size());
  rounded_ = OnDevice(rows, stream_);
}

void GpuMasters::Follow(const HostMasters& host) {
  if (host.version == version_) return;
  CHECK_EQ(static_cast<int64_t>(host.parameters.size()), num_parameters_);
  const int64_t bytes = num_parameters_ * int64_t{sizeof(float)};
  CopyToDevice(parameters_.data(), host.parameters.data(), bytes, stream_);
  CopyToDevice(first_moments_.data(), host.first_moments.data(), bytes, stream_);
  CopyToDevice(second_moments_.data(), host.second_moments.data(), bytes, stream_);
  Round();
  Synchronize(stream_);
  version_ = host.version;
  is_ahead_ = false;
}

void GpuMasters::Fetch(const HostMasters& host) {
  if (!is_ahead_) return;
  const int64_t bytes = num_parameters_ * int64_t{sizeof(float)};
  CopyFromDevice(host.parameters.data(), parameters_.data(), bytes, stream_);
  CopyFromDevice(host.gradients.data(), gradients_.data(), bytes, stream_);
  CopyFromDevice(host.first_moments.data(), first_moments_.data(), bytes, stream_);
  CopyFromDevice(host.second_moments.data(), second_moments_.data(), bytes, stream_);
  Synchronize(stream_);
  is_ahead_ = false;
}

void GpuMasters::KeepBest() {
  if (best_.bytes() == 0) best_ = Floats(num_parameters_, stream_);
  CopyOnDevice(best_.data(), parameters_.data(), best_.bytes(), stream_);
}

void GpuMasters::TakeBest() {
  CopyOnDevice(parameters_.data(), best_.data(), best_.bytes(), stream_);
  Round();
}

void GpuMasters::FetchBest(std::vector<float>* numbers) const {
  const auto begin = static_cast<std::ptrdiff_t>(numbers->size());
  numbers->resize(numbers->size() + static_cast<size_t>(num_parameters_));
  CopyFromDevice(numbers->data() + begin, best_.data(), best_.bytes(), stream_);
  Synchronize(stream_);
}

void GpuMasters::BeginGradients() {
  ZeroOnDevice(gradients_.data(), gradients_.bytes(), stream_);
  is_ahead_ = true;
}

AdamWItem GpuMasters::Item(int64_t begin) {
  return {.parameters = parameters_.as<float>() + begin,
          .gradients = gradients_.as<float>() + begin,
          .first_moments = first_moments_.as<float>() + begin,
          .second_moments = second_moments_.as<float>() + begin,
          .n = num_parameters_ - begin};
}

void GpuMasters::Round() {
  RoundRows({.x = parameters_.as<float>(),
             .rows = rounded_.as<RoundedRow>(),
             .num_rows = num_rows_,
             .dtype = dtype_},
            stream_);
  is_ahead_ = true;
}

}  // namespace graft
