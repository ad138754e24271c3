#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <vector>

#include "tensor/buffer.h"
#include "tensor/cuda_graph.h"
#include "tensor/cuda_memory.h"
#include "tensor/host_memory.h"
#include "tensor/shared_memory.h"

namespace graft {
namespace {

class HostMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::temp_directory_path() / ("graft_memory_" + std::to_string(getpid()));
    Write("proc/meminfo", "MemTotal:  2000 kB\nMemFree:  10 kB\nMemAvailable:   1000 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }

  std::filesystem::path root_;
};

TEST_F(HostMemoryTest, CachesOfFilesAreAvailable) {
  EXPECT_EQ(AvailableHostBytes(root_), 1000 * 1024);
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(AvailableHostBytes(root_), 1000 * 1024);
  EXPECT_GT(AvailableHostBytes(), 0);
}

TEST_F(HostMemoryTest, CgroupsLimitIt) {
  Write("proc/self/cgroup", "0::/pod/container\n");
  const std::string pod = "sys/fs/cgroup/pod/";
  Write(pod + "memory.max", "900000\n");
  Write(pod + "memory.current", "500000\n");
  Write(pod + "memory.stat", "anon 100\nfile 300000\ninactive_file 200000\nactive_file 50000\n");
  EXPECT_EQ(AvailableHostBytes(root_), 900000 - 250000);
  Write(pod + "container/memory.max", "300000\n");
  Write(pod + "container/memory.current", "100000\n");
  EXPECT_EQ(AvailableHostBytes(root_), 200000);
  Write(pod + "container/memory.current", "400000\n");
  EXPECT_EQ(AvailableHostBytes(root_), 0);
}

TEST_F(HostMemoryTest, SoDoThoseOfVersion1) {
  Write("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/a path of the host\n0::/\n");
  const std::string own = "sys/fs/cgroup/memory/";
  Write(own + "memory.limit_in_bytes", "400000\n");
  Write(own + "memory.usage_in_bytes", "150000\n");
  Write(own + "memory.stat",
        "inactive_file 1\ntotal_inactive_file 40000\ntotal_active_file 10000\n");
  EXPECT_EQ(AvailableHostBytes(root_), 300000);
}

TEST(DTypeTest, EveryHalfSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Float16 half{static_cast<uint16_t>(bits)};
    const float wide = ToFloat(half);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(ToFloat(FromFloat<Float16>(wide))));
    } else {
      EXPECT_EQ(FromFloat<Float16>(wide).bits, half.bits);
    }
    const Bfloat16 brain{static_cast<uint16_t>(bits)};
    const float brain_wide = ToFloat(brain);
    if (!std::isnan(brain_wide)) {
      EXPECT_EQ(FromFloat<Bfloat16>(brain_wide).bits, brain.bits);
    }
  }
}

TEST(DTypeTest, NarrowsToNearestEven) {
  EXPECT_EQ(ToFloat(FromFloat<Bfloat16>(1.0f + 1.0f / 256)), 1.0f);  // tie, even below
  EXPECT_EQ(ToFloat(FromFloat<Bfloat16>(1.0f + 3.0f / 256)), 1.0f + 4.0f / 256);
  EXPECT_EQ(ToFloat(FromFloat<Float16>(1.0f + 1.0f / 2048)), 1.0f);
  EXPECT_EQ(ToFloat(FromFloat<Float16>(65519.0f)), 65504.0f);
  EXPECT_TRUE(std::isinf(ToFloat(FromFloat<Float16>(65520.0f))));
  EXPECT_EQ(ToFloat(FromFloat<Float16>(0x1p-25f)), 0.0f);
  EXPECT_EQ(ToFloat(FromFloat<Float16>(0x1.8p-24f)), 0x1p-23f);
  EXPECT_TRUE(std::isnan(ToFloat(FromFloat<Bfloat16>(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(DTypeTest, ConvertsMisalignedBytes) {
  alignas(8) char bytes[9] = {};
  const float value = 3.25f;
  std::memcpy(bytes + 1, &value, 4);
  Bfloat16 out{};
  ConvertElements(DType::kF32, bytes + 1, DType::kBF16, &out, 1);
  EXPECT_EQ(ToFloat(out), 3.25f);
}

TEST(BufferTest, IsZeroedAlignedAndMovable) {
  for (const int64_t bytes : {0, 1, 63, 64, 100000, 9 << 20}) {
    Buffer buffer(bytes);
    EXPECT_EQ(buffer.bytes(), bytes);
    if (bytes == 0) continue;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
    EXPECT_EQ(buffer.as<char>()[bytes - 1], 0);
    const void* data = buffer.data();
    Buffer moved = std::move(buffer);
    EXPECT_EQ(moved.data(), data);
  }
}

TEST(DeviceTest, ParsesAndRefuses) {
  EXPECT_TRUE(ParseDevice("cpu")->is_cpu());
  EXPECT_EQ(ParseDevice("auto")->is_cpu(), NumCudaDevices() == 0);
  for (const char* unknown : {"tpu", "", "cuda:", "cuda:x", "cuda:-1", "cuda:0x", "cuda1"}) {
    EXPECT_EQ(ParseDevice(unknown).status().code(), StatusCode::kInvalidArgument) << unknown;
  }
  const StatusCode absent = kHasCuda ? StatusCode::kNotFound : StatusCode::kUnimplemented;
  EXPECT_EQ(ParseDevice("cuda:63").status().code(), absent);
  EXPECT_EQ(ParseDevice("cuda").status().code(), NumCudaDevices() > 0 ? StatusCode::kOk : absent);
}

std::vector<Device> Devices() {
  std::vector<Device> devices = {Device{}};
  if (NumCudaDevices() > 0) devices.push_back({DeviceKind::kCuda, 0});
  return devices;
}

TEST(CudaMemoryTest, CopiesGoThereAndBack) {
  ThreadPool threads(1);
  for (const Device& device : Devices()) {
    OwnedStream stream(device, &threads);
    std::vector<int32_t> source(1000);
    std::iota(source.begin(), source.end(), 1);
    const auto bytes = static_cast<int64_t>(source.size() * sizeof(int32_t));
    Buffer there(bytes, device);
    Buffer beside(bytes, device);
    PinnedBuffer back(bytes);
    CopyFromDevice(back.as<int32_t>(), there.data(), bytes, stream.get());
    Synchronize(stream.get());
    EXPECT_EQ(back.as<int32_t>()[999], 0) << "buffers are zeroed";
    CopyToDevice(there.data(), source.data(), bytes, stream.get());
    CopyOnDevice(beside.data(), there.data(), bytes, stream.get());
    ZeroOnDevice(beside.data(), 4, stream.get());
    CopyFromDevice(back.as<int32_t>(), beside.data(), bytes, stream.get());
    Synchronize(stream.get());
    source[0] = 0;
    EXPECT_TRUE(std::equal(source.begin(), source.end(), back.as<int32_t>())) << device.ToString();
  }
}

TEST(CudaMemoryTest, MoveToDeviceKeepsTheBytes) {
  ThreadPool threads(1);
  for (const Device& device : Devices()) {
    OwnedStream stream(device, &threads);
    Buffer host(8);
    host.as<int64_t>()[0] = 77;
    const Buffer moved = MoveToDevice(std::move(host), stream.get());
    EXPECT_EQ(moved.device(), device);
    int64_t value = 0;
    CopyFromDevice(&value, moved.data(), 8, stream.get());
    Synchronize(stream.get());
    EXPECT_EQ(value, 77);
  }
}

TEST(CudaMemoryTest, PinnedMemoryIsZeroedAndAligned) {
  const PinnedBuffer empty;
  EXPECT_EQ(empty.bytes(), 0);
  const PinnedBuffer buffer(12345);
  EXPECT_EQ(buffer.bytes(), 12345);
  EXPECT_EQ(std::bit_cast<uintptr_t>(buffer.as<char>()) % 4096, 0U);
  EXPECT_TRUE(std::all_of(buffer.as<char>(), buffer.as<char>() + 12345,
                          [](char byte) { return byte == 0; }));
}

TEST(SharedMemoryTest, IsWhatAnotherMappingSees) {
  SharedMemory memory = *SharedMemory::Create(3 * 4096);
  EXPECT_EQ(memory.bytes(), 3 * 4096);
  EXPECT_TRUE(std::all_of(memory.data(), memory.data() + memory.bytes(),
                          [](char byte) { return byte == 0; }));
  memory.Lock(4096, 8192);
  const SharedMemory other = *SharedMemory::Map(dup(memory.descriptor()));
  EXPECT_EQ(other.bytes(), memory.bytes());
  EXPECT_NE(other.data(), memory.data());
  const SharedMemory moved = std::move(memory);
  moved.data()[5000] = 'x';
  EXPECT_EQ(other.data()[5000], 'x');
  EXPECT_FALSE(SharedMemory::Map(-1).ok());
}

TEST(SharedMemoryTest, ALockedStretchIsReadByTheDevice) {
  if (NumCudaDevices() == 0) GTEST_SKIP() << "this machine shows no GPU";
  ThreadPool threads(1);
  SharedMemory memory = *SharedMemory::Create(8192);
  memory.Lock(0, 8192);
  memory.data()[77] = 'x';
  Buffer target(8192, Device{DeviceKind::kCuda, 0});
  SharedMemory back = *SharedMemory::Create(8192);
  back.Lock(0, 8192);
  OwnedStream stream({DeviceKind::kCuda, 0}, &threads);
  CopyToDevice(target.data(), memory.data(), 8192, stream.get());
  CopyFromDevice(back.data(), target.data(), 8192, stream.get());
  Synchronize(stream.get());
  EXPECT_EQ(back.data()[77], 'x');
}

TEST(CapturedGraphTest, ReplaysWithWhatLiesAtTheAddresses) {
  if (NumCudaDevices() == 0) GTEST_SKIP() << "this machine shows no GPU";
  ThreadPool threads(1);
  OwnedStream stream({DeviceKind::kCuda, 0}, &threads);
  Buffer source(8, stream.get().device);
  Buffer target(8, stream.get().device);
  CapturedGraph graph(stream.get(),
                      [&] { CopyOnDevice(target.data(), source.data(), 8, stream.get()); });
  for (const int64_t value : {3, 4}) {
    CopyToDevice(source.data(), &value, 8, stream.get());
    graph.Launch(stream.get());
    int64_t copied = 0;
    CopyFromDevice(&copied, target.data(), 8, stream.get());
    Synchronize(stream.get());
    EXPECT_EQ(copied, value);
  }
}

}  // namespace
}  // namespace graft
