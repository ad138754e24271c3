#include "learn/device_masters.h"

#include <cstddef>
#include <utility>

namespace graft {
namespace {

Buffer Floats(int64_t n, const Stream& stream) {
  return Buffer(n * int64_t{sizeof(float)}, stream.device);
}

}  // namespace

DeviceMasters::DeviceMasters(HostMasters host, DType dtype, Stream& stream)
    : host_(std::move(host)),
      stream_(stream),
      dtype_(dtype),
      num_parameters_(static_cast<int64_t>(host_.parameters.size())),
      parameters_(host_.parameters.data()),
      gradients_(host_.gradients.data()),
      first_moments_(host_.first_moments.data()),
      second_moments_(host_.second_moments.data()) {
  if (stream.device.is_cpu()) return;
  for (Buffer& buffer : own_) buffer = Floats(num_parameters_, stream);
  parameters_ = own_[0].as<float>();
  gradients_ = own_[1].as<float>();
  first_moments_ = own_[2].as<float>();
  second_moments_ = own_[3].as<float>();
}

int64_t DeviceMasters::BytesFor(int64_t num_parameters, int64_t num_rows) {
  constexpr int64_t kFloatsOfParameter = 4;  // itself, its gradient and two moments
  return num_parameters * kFloatsOfParameter * int64_t{sizeof(float)} +
         num_rows * static_cast<int64_t>(sizeof(RoundedRow));
}

void DeviceMasters::SetRows(const std::vector<RoundedRow>& rows) {
  num_rows_ = static_cast<int64_t>(rows.size());
  rounded_ = OnDevice(rows, stream_);
}

void DeviceMasters::Follow() {
  if (stream_.device.is_cpu() || host_.version() == version_) return;
  CopyToDevice(parameters_, host_.parameters.data(), bytes(), stream_);
  CopyToDevice(first_moments_, host_.first_moments.data(), bytes(), stream_);
  CopyToDevice(second_moments_, host_.second_moments.data(), bytes(), stream_);
  Round();
  Synchronize(stream_);
  version_ = host_.version();
  is_ahead_ = false;
}

void DeviceMasters::Fetch() {
  if (stream_.device.is_cpu() || !is_ahead_) return;
  CopyFromDevice(host_.parameters.data(), parameters_, bytes(), stream_);
  CopyFromDevice(host_.gradients.data(), gradients_, bytes(), stream_);
  CopyFromDevice(host_.first_moments.data(), first_moments_, bytes(), stream_);
  CopyFromDevice(host_.second_moments.data(), second_moments_, bytes(), stream_);
  Synchronize(stream_);
  is_ahead_ = false;
}

void DeviceMasters::KeepBest() {
  if (best_.bytes() == 0) best_ = Floats(num_parameters_, stream_);
  CopyOnDevice(best_.data(), parameters_, best_.bytes(), stream_);
}

void DeviceMasters::TakeBest() {
  CopyOnDevice(parameters_, best_.data(), best_.bytes(), stream_);
  Round();
}

void DeviceMasters::FetchBest(std::vector<float>* numbers) const {
  const auto begin = static_cast<std::ptrdiff_t>(numbers->size());
  numbers->resize(numbers->size() + static_cast<size_t>(num_parameters_));
  CopyFromDevice(numbers->data() + begin, best_.data(), best_.bytes(), stream_);
  Synchronize(stream_);
}

void DeviceMasters::BeginGradients() {
  ZeroOnDevice(gradients_, bytes(), stream_);
  is_ahead_ = true;
}

AdamWItem DeviceMasters::Item(int64_t begin) {
  return {.parameters = parameters_ + begin,
          .gradients = gradients_ + begin,
          .first_moments = first_moments_ + begin,
          .second_moments = second_moments_ + begin,
          .n = num_parameters_ - begin};
}

void DeviceMasters::Round() {
  if (stream_.device.is_cpu()) return host_.round();
  RoundRows(
      {.x = parameters_, .rows = rounded_.as<RoundedRow>(), .num_rows = num_rows_, .dtype = dtype_},
      stream_);
  is_ahead_ = true;
}

}  // namespace graft
