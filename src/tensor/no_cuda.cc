// The CPU's half of cuda_memory.h, cuda_graph.h and stream_timer.h, for binaries without the
// backend.

#include <cstdlib>
#include <cstring>
#include <string>

#include "base/clock.h"
#include "base/out_of_memory.h"
#include "tensor/allocations.h"
#include "tensor/cuda_graph.h"
#include "tensor/cuda_memory.h"
#include "tensor/device_choice.h"
#include "tensor/device_traits.h"
#include "tensor/host_memory.h"
#include "tensor/nccl.h"
#include "tensor/peer_memory.h"
#include "tensor/stream_timer.h"

namespace graft {
namespace {

constexpr size_t kPinnedAlignment = 4096;

void Copy(void* target, const void* source, int64_t bytes) {
  if (bytes > 0) std::memcpy(target, source, static_cast<size_t>(bytes));
}

}  // namespace

int NumCudaDevices() { return 0; }

const DeviceTraits& TraitsOf(const Device& device) {
  static constexpr DeviceTraits kCpu;
  CHECK(device.is_cpu()) << "built without " << device.ToString();
  return kCpu;
}

std::vector<CudaCard> ListCudaCards() { return {}; }
Status CheckRunsCode(const Device&) { return OkStatus(); }

std::string DescribeDevice(const Device& device) {
  CHECK(device.is_cpu());
  return "CPU";
}

std::string CudaDriverVersion() { return ""; }

OwnedStream::OwnedStream(const Device& device, ThreadPool* cpu_threads, bool)
    : stream_{.device = device, .cpu_threads = cpu_threads} {
  CHECK(device.is_cpu()) << "built without " << device.ToString();
}
OwnedStream::~OwnedStream() = default;

StreamEvent::StreamEvent(const Device& device, bool) {
  CHECK(device.is_cpu()) << "built without " << device.ToString();
}
StreamEvent::~StreamEvent() = default;
void StreamEvent::Record(const Stream&) {}
bool StreamEvent::HasHappened() const { return true; }
void StreamEvent::HoldUp(const Stream&) const {}
void StreamEvent::Wait() const {}
int64_t StreamEvent::NsSince(const StreamEvent&) const { return 0; }

void UseDevice(const Device&) {}
void Synchronize(const Stream&) {}

void CopyToDevice(void* target, const void* source, int64_t bytes, const Stream&) {
  Copy(target, source, bytes);
}
void CopyFromDevice(void* target, const void* source, int64_t bytes, const Stream&) {
  Copy(target, source, bytes);
}
void CopyOnDevice(void* target, const void* source, int64_t bytes, const Stream&) {
  Copy(target, source, bytes);
}
void ZeroOnDevice(void* target, int64_t bytes, const Stream&) {
  if (bytes > 0) std::memset(target, 0, static_cast<size_t>(bytes));
}

PinnedBuffer::PinnedBuffer(int64_t bytes) : PinnedBuffer(bytes, false) {}
PinnedBuffer::PinnedBuffer(int64_t bytes, const Device&) : PinnedBuffer(bytes, false) {}

PinnedBuffer::PinnedBuffer(int64_t bytes, bool /*pinned*/) : bytes_(bytes) {
  CHECK_GE(bytes, 0);
  if (bytes == 0) return;
  const size_t rounded =
      (static_cast<size_t>(bytes) + kPinnedAlignment - 1) / kPinnedAlignment * kPinnedAlignment;
  BookAllocation({}, bytes);
  void* data = std::aligned_alloc(kPinnedAlignment, rounded);
  if (data == nullptr) {
    BookFree({}, bytes);
    ThrowOutOfMemory("the host has no " + std::to_string(bytes) + " bytes left");
  }
  std::memset(data, 0, rounded);
  data_ = std::unique_ptr<void, Free>(data, Free{false, bytes});
}

void PinnedBuffer::Free::operator()(void* data) const {
  BookFree({}, bytes);
  std::free(data);
}

void LockPages(void*, int64_t) {}
void UnlockPages(void*) {}

int64_t FreeMemoryBytes(const Device&) { return AvailableHostBytes(); }
int64_t TotalMemoryBytes(const Device&) { return 0; }

void* AllocateOnDevice(const Device& device, int64_t) {
  CHECK(false) << "built without " << device.ToString();
  return nullptr;
}
void FreeOnDevice(const Device&, void*) {}

StreamTimer::~StreamTimer() = default;
int64_t StreamTimer::Mark() { return SteadyClock::Get().NowNs(); }
void StreamTimer::Collect() {
  for (const Span& span : spans_) *span.total_ns += span.end - span.begin;
  spans_.clear();
}

Result<PeerMemory> PeerMemory::Share(Communicator&, const Device& device, int64_t) {
  return UnimplementedError("built without " + device.ToString());
}
PeerMemory::~PeerMemory() = default;

struct Nccl::Library {};
Result<std::unique_ptr<Nccl>> Nccl::Join(Communicator&, const Device& device) {
  return UnimplementedError("built without " + device.ToString());
}
Nccl::~Nccl() { CHECK(library_ == nullptr && group_ == nullptr) << "nobody joined"; }
void Nccl::AllGather(const float*, float*, int64_t, const Stream&) {}
void Nccl::AllReduce(const float*, float*, int64_t, const Stream&) {}

struct CapturedGraph::Executable {};
CapturedGraph::CapturedGraph(Stream& stream, const std::function<void()>&) {
  CHECK(false) << "built without " << stream.device.ToString();
}
CapturedGraph::~CapturedGraph() = default;
void CapturedGraph::Launch(Stream&) {}

}  // namespace graft
