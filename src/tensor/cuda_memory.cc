#include "tensor/cuda_memory.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/out_of_memory.h"
#include "tensor/allocations.h"
#include "tensor/cuda_check.h"
#include "tensor/cuda_image.h"
#include "tensor/device_choice.h"
#include "tensor/device_traits.h"
#include "tensor/host_memory.h"

namespace graft {
namespace {

constexpr size_t kPinnedAlignment = 4096;

void Copy(void* target, const void* source, int64_t bytes, cudaMemcpyKind kind,
          const Stream& stream) {
  if (bytes == 0) return;
  if (stream.device.is_cpu()) {
    std::memcpy(target, source, static_cast<size_t>(bytes));
    return;
  }
  CUDA_CHECK(
      cudaMemcpyAsync(target, source, static_cast<size_t>(bytes), kind, CudaStreamOf(stream)));
}

struct DeviceMemory {
  int64_t free, total;  // bytes
};
DeviceMemory MemoryOf(const Device& device) {
  UseDevice(device);
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  return {static_cast<int64_t>(free_bytes), static_cast<int64_t>(total_bytes)};
}

}  // namespace

void UseDevice(const Device& device) {
  if (!device.is_cpu()) CUDA_CHECK(cudaSetDevice(device.index));
}

int NumCudaDevices() {
  static const int num_devices = [] {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
    cudaGetLastError();  // having no driver is no error of a later call
    return count;
  }();
  return num_devices;
}

std::vector<CudaCard> ListCudaCards() {
  std::vector<CudaCard> cards;
  for (int index = 0; index < NumCudaDevices(); ++index) {
    cudaDeviceProp properties;
    const cudaError_t error = cudaGetDeviceProperties(&properties, index);
    if (error != cudaSuccess) {  // a card that fell off the bus does not keep others from use
      cudaGetLastError();
      cards.push_back({.name = cudaGetErrorString(error)});
      continue;
    }
    cards.push_back(
        {.name = properties.name,
         .major = properties.major,
         .minor = properties.minor,
         .shared_bytes = static_cast<int64_t>(properties.sharedMemPerBlockOptin),
         .has_image = HasCodeFor(GRAFT_CUDA_ARCHITECTURES, properties.major, properties.minor)});
  }
  return cards;
}

Status CheckRunsCode(const Device& device) {
  if (device.is_cpu()) return OkStatus();
  const char* const family = std::getenv("GRAFT_GPU_FAMILY");
  if (family != nullptr) RETURN_IF_ERROR(CheckGpuFamily(family));
  const std::string why = WhyNoCudaImage(device.index);
  if (why.empty()) return OkStatus();
  return FailedPreconditionError(device.ToString() + " (" + DescribeDevice(device) + "): " + why +
                                 "; use --device cpu, or another GPU by --device cuda:N");
}

std::string DescribeDevice(const Device& device) {
  if (device.is_cpu()) return "CPU";
  cudaDeviceProp properties;
  CUDA_CHECK(cudaGetDeviceProperties(&properties, device.index));
  return std::string(properties.name) + ", compute capability " + std::to_string(properties.major) +
         "." + std::to_string(properties.minor) + ", " +
         std::to_string(properties.totalGlobalMem >> 30) + " GiB";
}

std::string CudaDriverVersion() {
  int version = 0;
  if (cudaDriverGetVersion(&version) != cudaSuccess || version == 0) return "";
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

OwnedStream::OwnedStream(const Device& device, ThreadPool* cpu_threads, bool yields)
    : stream_{.device = device, .cpu_threads = cpu_threads} {
  if (device.is_cpu()) return;
  UseDevice(device);
  cudaStream_t stream = nullptr;
  int last = 0, first = 0;
  CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&last, &first));
  CUDA_CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, yields ? last : first));
  stream_.cuda_stream = stream;
}

OwnedStream::~OwnedStream() {
  if (stream_.cuda_stream == nullptr) return;
  Synchronize(stream_);
  CUDA_CHECK(cudaStreamDestroy(CudaStreamOf(stream_)));
}

StreamEvent::StreamEvent(const Device& device, bool timed) {
  if (device.is_cpu()) return;
  UseDevice(device);
  cudaEvent_t event = nullptr;
  CUDA_CHECK(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming));
  event_ = event;
}

StreamEvent::~StreamEvent() {
  if (event_ != nullptr) CUDA_CHECK(cudaEventDestroy(static_cast<cudaEvent_t>(event_)));
}

void StreamEvent::Record(const Stream& stream) {
  if (event_ == nullptr) return;
  CUDA_CHECK(cudaEventRecord(static_cast<cudaEvent_t>(event_), CudaStreamOf(stream)));
}

bool StreamEvent::HasHappened() const {
  if (event_ == nullptr) return true;
  const cudaError_t error = cudaEventQuery(static_cast<cudaEvent_t>(event_));
  if (error == cudaErrorNotReady) return false;
  CUDA_CHECK(error);
  return true;
}

void StreamEvent::HoldUp(const Stream& stream) const {
  if (event_ == nullptr) return;
  CUDA_CHECK(cudaStreamWaitEvent(CudaStreamOf(stream), static_cast<cudaEvent_t>(event_), 0));
}

void StreamEvent::Wait() const {
  if (event_ != nullptr) CUDA_CHECK(cudaEventSynchronize(static_cast<cudaEvent_t>(event_)));
}

int64_t StreamEvent::NsSince(const StreamEvent& earlier) const {
  if (event_ == nullptr) return 0;
  float ms = 0.0f;
  CUDA_CHECK(cudaEventElapsedTime(&ms, static_cast<cudaEvent_t>(earlier.event_),
                                  static_cast<cudaEvent_t>(event_)));
  return std::llround(double{ms} * 1e6);
}

void Synchronize(const Stream& stream) {
  if (stream.device.is_cpu()) return;
  CUDA_CHECK(cudaStreamSynchronize(CudaStreamOf(stream)));
}

void CopyToDevice(void* target, const void* source, int64_t bytes, const Stream& stream) {
  Copy(target, source, bytes, cudaMemcpyHostToDevice, stream);
}

void CopyFromDevice(void* target, const void* source, int64_t bytes, const Stream& stream) {
  Copy(target, source, bytes, cudaMemcpyDeviceToHost, stream);
}

void CopyOnDevice(void* target, const void* source, int64_t bytes, const Stream& stream) {
  Copy(target, source, bytes, cudaMemcpyDeviceToDevice, stream);
}

void ZeroOnDevice(void* target, int64_t bytes, const Stream& stream) {
  if (bytes == 0) return;
  if (stream.device.is_cpu()) {
    std::memset(target, 0, static_cast<size_t>(bytes));
    return;
  }
  CUDA_CHECK(cudaMemsetAsync(target, 0, static_cast<size_t>(bytes), CudaStreamOf(stream)));
}

PinnedBuffer::PinnedBuffer(int64_t bytes) : PinnedBuffer(bytes, NumCudaDevices() > 0) {}

PinnedBuffer::PinnedBuffer(int64_t bytes, const Device& device)
    : PinnedBuffer(bytes, !device.is_cpu()) {}

PinnedBuffer::PinnedBuffer(int64_t bytes, bool pinned) : bytes_(bytes) {
  CHECK_GE(bytes, 0);
  if (bytes == 0) return;
  const size_t rounded =
      (static_cast<size_t>(bytes) + kPinnedAlignment - 1) / kPinnedAlignment * kPinnedAlignment;
  BookAllocation({}, bytes);
  void* data = nullptr;
  if (!pinned) {
    data = std::aligned_alloc(kPinnedAlignment, rounded);
  } else if (cudaHostAlloc(&data, rounded, cudaHostAllocPortable | cudaHostAllocMapped) !=
             cudaSuccess) {
    cudaGetLastError();
    data = nullptr;
  }
  if (data == nullptr) {
    BookFree({}, bytes);
    ThrowOutOfMemory("the host has no " + std::to_string(bytes) + " bytes left to lock");
  }
  std::memset(data, 0, rounded);
  data_ = std::unique_ptr<void, Free>(data, Free{pinned, bytes});
}

void PinnedBuffer::Free::operator()(void* data) const {
  BookFree({}, bytes);
  if (pinned) {
    CUDA_CHECK(cudaFreeHost(data));
  } else {
    std::free(data);
  }
}

void LockPages(void* data, int64_t bytes) {
  if (NumCudaDevices() == 0) return;
  const cudaError_t error = cudaHostRegister(data, static_cast<size_t>(bytes),
                                             cudaHostRegisterPortable | cudaHostRegisterMapped);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    ThrowOutOfMemory("the host has no " + std::to_string(bytes) + " bytes left to lock");
  }
  CUDA_CHECK(error);
  void* on_device = nullptr;
  CUDA_CHECK(cudaHostGetDevicePointer(&on_device, data, 0));
  CHECK(on_device == data) << "this GPU sees the host's memory at other addresses";
}

void UnlockPages(void* data) {
  if (NumCudaDevices() > 0) CUDA_CHECK(cudaHostUnregister(data));
}

int64_t FreeMemoryBytes(const Device& device) {
  return device.is_cpu() ? AvailableHostBytes() : MemoryOf(device).free;
}

int64_t TotalMemoryBytes(const Device& device) {
  return device.is_cpu() ? 0 : MemoryOf(device).total;
}

void* AllocateOnDevice(const Device& device, int64_t bytes) {
  UseDevice(device);
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, static_cast<size_t>(bytes));
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  CUDA_CHECK(error);
  // Our streams do not wait for the default one, where this runs.
  CUDA_CHECK(cudaMemset(data, 0, static_cast<size_t>(bytes)));
  CUDA_CHECK(cudaStreamSynchronize(nullptr));
  return data;
}

void FreeOnDevice(const Device& device, void* data) {
  UseDevice(device);
  CUDA_CHECK(cudaFree(data));
}

}  // namespace graft
