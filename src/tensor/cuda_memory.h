// What the host does with a GPU besides launching kernels: streams, events, copies, page-locked
// memory. Everything also works on the CPU, where a copy is a memcpy, so callers need not tell the
// two apart. A lack of memory is OutOfMemory. Any other CUDA error ends the process, because
// recovery is by a restart. Any thread, one stream at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "tensor/buffer.h"
#include "tensor/device.h"
#include "tensor/stream.h"

namespace graft {

// Owns a stream of its device (nothing on the CPU). Destroying it waits for its work.
class OwnedStream {
 public:
  // Where streams compete for the device, one that `yields` comes last.
  OwnedStream(const Device& device, ThreadPool* cpu_threads, bool yields = false);
  ~OwnedStream();
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;

  Stream& get() { return stream_; }

 private:
  Stream stream_;
};

// StreamEvent: a point in a stream's work that others ask about or wait for. It can be recorded
// again. On the CPU a recorded event has always happened, because work is done when its call
// returns. An event that was never recorded counts as happened. Any thread may ask.
class StreamEvent {
 public:
  // `timed`: for NsSince, at the price of a clock read by the device.
  explicit StreamEvent(const Device& device, bool timed = false);
  ~StreamEvent();
  StreamEvent(StreamEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  StreamEvent& operator=(StreamEvent&&) = delete;

  // After all that `stream` was given so far.
  void Record(const Stream& stream);
  bool HasHappened() const;
  // What `stream` is given from now on runs after it; the caller does not wait.
  void HoldUp(const Stream& stream) const;
  // The caller waits.
  void Wait() const;
  // Nanoseconds by the device's clock since `earlier` happened, as this one has: both timed,
  // recorded and of one device, and waited for since they were recorded last. 0 on the CPU.
  int64_t NsSince(const StreamEvent& earlier) const;

 private:
  void* event_ = nullptr;  // cudaEvent_t; null on the CPU
};

// Launches and captures go to the calling thread's device: each thread that does so says which one
// it works for. Nothing on the CPU.
void UseDevice(const Device& device);

// Waits until everything on the stream is done.
void Synchronize(const Stream& stream);

// In order on the stream. Host memory that is not page-locked makes the caller wait for a copy.
void CopyToDevice(void* target, const void* source, int64_t bytes, const Stream& stream);
void CopyFromDevice(void* target, const void* source, int64_t bytes, const Stream& stream);
void CopyOnDevice(void* target, const void* source, int64_t bytes, const Stream& stream);
void ZeroOnDevice(void* target, int64_t bytes, const Stream& stream);

// A buffer of the host, moved into the stream's device when this returns; the same one on the CPU.
Buffer MoveToDevice(Buffer host, const Stream& stream);

// Zeroed host memory, page-locked and visible to every GPU at the same address for a device that is
// one; plain memory for the CPU, since locking wakes a GPU. Aligned to 4096.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  // OutOfMemory where the host has not that many bytes left, or locks no more.
  PinnedBuffer(int64_t bytes, const Device& device);
  // For whatever GPU this machine has.
  explicit PinnedBuffer(int64_t bytes);

  template <typename T>
  T* as() const {
    return static_cast<T*>(data_.get());
  }
  int64_t bytes() const { return bytes_; }

 private:
  PinnedBuffer(int64_t bytes, bool pinned);
  struct Free {
    bool pinned;
    int64_t bytes;
    void operator()(void* data) const;
  };
  std::unique_ptr<void, Free> data_{nullptr, Free{false, 0}};
  int64_t bytes_ = 0;
};

// Makes memory that was allocated elsewhere page-locked and visible to every GPU at the same
// address; does nothing where there is no GPU. Both ends on borders of 4096 bytes. OutOfMemory
// where the host locks no more. Pages that were never written are brought in, without a question
// whether the host has them: see HostClaim.
void LockPages(void* data, int64_t bytes);
void UnlockPages(void* data);

// Bytes of the device that no process has taken; for the CPU, AvailableHostBytes.
int64_t FreeMemoryBytes(const Device& device);
// All that a GPU has; 0 for the CPU.
int64_t TotalMemoryBytes(const Device& device);

// What Buffer calls for memory of a GPU: zeroed. Null where it has not that much left.
void* AllocateOnDevice(const Device& device, int64_t bytes);
void FreeOnDevice(const Device& device, void* data);

}  // namespace graft
