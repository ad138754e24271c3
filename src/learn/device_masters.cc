#include "learn/device_masters.h"

#include <cstddef>
#include <iterator>

namespace graft {

DeviceMasters::DeviceMasters(TrainedNumbers& host, Stream& stream)
    : host_(host),
      stream_(stream),
      parameters_(host.parameters().data()),
      gradients_(host.gradients().data()),
      first_moments_(host.first_moments().data()),
      second_moments_(host.second_moments().data()),
      copy_(host.copy().as<char>()),
      row_pointers_(host.row_pointers()) {
  if (stream.device.is_cpu()) return;
  for (Buffer& buffer : own_) buffer = Buffer(bytes(), stream.device);
  parameters_ = own_[0].as<float>();
  gradients_ = own_[1].as<float>();
  first_moments_ = own_[2].as<float>();
  second_moments_ = own_[3].as<float>();
  PlaceRows();
}

void DeviceMasters::PlaceRows() {
  own_copy_ = Buffer(host_.copy().bytes(), stream_.device);
  std::vector<RoundedRow> rows(host_.rows().begin(), host_.rows().end());
  std::vector<const void*> pointers;
  for (RoundedRow& row : rows) {
    row.out = own_copy_.as<char>() + (static_cast<const char*>(row.out) - copy_);
    pointers.push_back(row.out);
  }
  rounded_ = OnDevice(rows, stream_);
  own_rows_ = OnDevice(pointers, stream_);
  copy_ = own_copy_.as<char>();
  row_pointers_ = own_rows_.as<const void*>();
}

void DeviceMasters::Follow() {
  if (stream_.device.is_cpu() || host_.version() == version_) return;
  CopyToDevice(parameters_, host_.parameters().data(), bytes(), stream_);
  CopyToDevice(first_moments_, host_.first_moments().data(), bytes(), stream_);
  CopyToDevice(second_moments_, host_.second_moments().data(), bytes(), stream_);
  Round();
  Synchronize(stream_);
  version_ = host_.version();
  is_ahead_ = false;
}

void DeviceMasters::Fetch() {
  if (stream_.device.is_cpu() || !is_ahead_) return;
  CopyFromDevice(host_.parameters().data(), parameters_, bytes(), stream_);
  CopyFromDevice(host_.gradients().data(), gradients_, bytes(), stream_);
  CopyFromDevice(host_.first_moments().data(), first_moments_, bytes(), stream_);
  CopyFromDevice(host_.second_moments().data(), second_moments_, bytes(), stream_);
  Synchronize(stream_);
  is_ahead_ = false;
}

void DeviceMasters::KeepBest() {
  if (best_.bytes() == 0) best_ = Buffer(bytes(), stream_.device);
  CopyOnDevice(best_.data(), parameters_, best_.bytes(), stream_);
}

void DeviceMasters::TakeBest() {
  CopyOnDevice(parameters_, best_.data(), best_.bytes(), stream_);
  Round();
}

void DeviceMasters::FetchBest(std::vector<float>* numbers) const {
  const auto begin = static_cast<std::ptrdiff_t>(numbers->size());
  numbers->resize(numbers->size() + host_.parameters().size());
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
          .n = std::ssize(host_.parameters()) - begin};
}

void DeviceMasters::Round() {
  if (stream_.device.is_cpu()) return host_.Refresh();
  RoundRows({.x = parameters_,
             .rows = rounded_.as<RoundedRow>(),
             .num_rows = std::ssize(host_.rows()),
             .dtype = host_.dtype()},
            stream_);
  is_ahead_ = true;
}

}  // namespace graft
