#include "model/tensor_source.h"

#include <atomic>
#include <bit>
#include <cstring>

#include "model/tensor_rows.h"

namespace graft {
namespace {

// Elements per task when a tensor is scanned.
constexpr int64_t kScanGrain = int64_t{1} << 16;

// An exponent of all ones is NaN or Inf, in each of the three formats.
template <typename Bits>
bool HasAllOnesExponent(const char* data, int64_t begin, int64_t end, Bits exponent) {
  bool found = false;
  for (int64_t i = begin; i < end; ++i) {
    Bits bits;
    std::memcpy(&bits, data + i * static_cast<int64_t>(sizeof(Bits)), sizeof(Bits));
    found |= (bits & exponent) == exponent;
  }
  return found;
}

bool AllFinite(const TensorView& tensor, Stream& stream) {
  std::atomic<bool> found{false};
  const char* data = static_cast<const char*>(tensor.data);
  const auto scan = [&](int64_t begin, int64_t end) {
    bool here = false;
    switch (tensor.dtype) {
      case DType::kF32:
        here = HasAllOnesExponent<uint32_t>(data, begin, end, 0x7f800000u);
        break;
      case DType::kBF16:
        here = HasAllOnesExponent<uint16_t>(data, begin, end, 0x7f80u);
        break;
      case DType::kF16:
        here = HasAllOnesExponent<uint16_t>(data, begin, end, 0x7c00u);
        break;
    }
    if (here) found.store(true, std::memory_order_relaxed);
  };
  stream.cpu_threads->ParallelFor(tensor.num_elements(), kScanGrain, scan);
  return !found.load();
}

}  // namespace

Result<TensorView> FileSource::Get(const std::string& of_family,
                                   const std::vector<int64_t>& shape) {
  const std::string name = StoredName(of_family);
  ASSIGN_OR_RETURN(TensorView tensor, files_.Tensor(name));
  if (tensor.shape != shape) {
    return InvalidArgumentError("tensor " + name + " has shape " + SizesText(tensor.shape) +
                                ", config.json asks for " + SizesText(shape));
  }
  Use(name);
  // Kernels read whole elements; a file may put them at odd addresses.
  if (std::bit_cast<uintptr_t>(tensor.data) % static_cast<uint64_t>(DTypeBytes(tensor.dtype))) {
    void* aligned = Allocate(tensor.bytes());
    std::memcpy(aligned, tensor.data, static_cast<size_t>(tensor.bytes()));
    tensor.data = aligned;
  }
  return tensor;
}

Status FileSource::Check(const std::string& name, const TensorView& used) {
  if (AllFinite(used, stream_)) return OkStatus();
  return DataLossError("tensor " + StoredName(name) + " holds NaN or Inf; the file is damaged");
}

}  // namespace graft
