#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "base/out_of_memory.h"
#include "tensor/buffer.h"
#include "tensor/cuda_graph.h"
#include "tensor/cuda_memory.h"
#include "tensor/device_choice.h"
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

TEST_F(HostMemoryTest, ClaimsDoNotCountOnEachOthersBytes) {
  const int64_t mib = int64_t{1} << 20;
  const AvailableLimit limit(200 * mib);
  EXPECT_EQ(AvailableHostBytes(), 200 * mib);
  EXPECT_THROW(HostClaim(150 * mib), OutOfMemory) << "some is left for others";
  const auto first = std::make_unique<HostClaim>(100 * mib);
  EXPECT_THROW(HostClaim(50 * mib), OutOfMemory);
  const HostClaim small(10 * mib);
  EXPECT_THROW(HostClaim(100 * mib), OutOfMemory);
}

TEST_F(HostMemoryTest, AClaimEnds) {
  const AvailableLimit limit(int64_t{200} << 20);
  for (int i = 0; i < 10; ++i) HostClaim(int64_t{100} << 20);
}

TEST_F(HostMemoryTest, IsKnownWithoutProc) {
  std::filesystem::remove(root_ / "proc/meminfo");
  EXPECT_GT(AvailableHostBytes(root_), 0);
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
  EXPECT_EQ(ToFloat(FromFloat<Bfloat16>(1.0f + 1.0f / 256)), 1.0f);  // a tie: to the even one
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
  for (const char* text : {"auto", "cpu", "cuda:0", "cuda:3"}) {
    EXPECT_EQ(ParseDeviceChoice(text)->ToString(), text);
  }
  EXPECT_EQ(*ParseDeviceChoice("cuda"), *ParseDeviceChoice("cuda:0"));
  for (const char* unknown : {"tpu", "", "cuda:", "cuda:x", "cuda:-1", "cuda:0x", "cuda1"}) {
    EXPECT_EQ(ParseDeviceChoice(unknown).status().code(), StatusCode::kInvalidArgument) << unknown;
  }
}

// Cards as their drivers describe them: an H200, an RTX 4090, an RTX 2080 and a B200.
constexpr int64_t kHopperShared = 227 << 10, kAdaShared = 99 << 10, kTuringShared = 64 << 10;
const CudaCard kHopper = {"H200", 9, 0, kHopperShared, true};
const CudaCard kAda = {"RTX 4090", 8, 9, kAdaShared, true};
const CudaCard kTuring = {"RTX 2080", 7, 5, kTuringShared, true};
const CudaCard kWithoutImage = {"B200", 10, 0, kHopperShared, false};

TEST(DeviceTest, AutoTakesTheFirstCardThatKernelsRunOn) {
  const std::vector<CudaCard> cards = {kTuring, kAda, kHopper};
  const Result<ChosenDevice> chosen = ChooseDevice(DeviceChoice{}, cards);
  ASSERT_TRUE(chosen.ok());
  EXPECT_EQ(chosen->device.ToString(), "cuda:1");
  EXPECT_EQ(chosen->warning, "");
  EXPECT_TRUE(ChooseDevice({DeviceChoice::Kind::kCpu}, cards)->device.is_cpu());
  const Result<ChosenDevice> without = ChooseDevice(DeviceChoice{}, {});
  EXPECT_TRUE(without->device.is_cpu());
  EXPECT_EQ(without->warning, "");
}

TEST(DeviceTest, AutoFallsBackToTheCpuAndSaysWhichCardsAndWhy) {
  const std::vector<CudaCard> cards = {kTuring, kWithoutImage};
  const Result<ChosenDevice> chosen = ChooseDevice(DeviceChoice{}, cards);
  ASSERT_TRUE(chosen.ok());
  EXPECT_TRUE(chosen->device.is_cpu());
  EXPECT_EQ(chosen->warning,
            "computing on the CPU: cuda:0 (RTX 2080): compute capability 7.5 is older than 8.0 "
            "(Ampere), which kernels need; cuda:1 (B200): this binary has no code for compute "
            "capability 10.0");
}

TEST(DeviceTest, CardsBeforeAmpereAreRefusedByName) {
  for (const auto& [name, major, minor] :
       {std::tuple{"V100", 7, 0}, std::tuple{"T4", 7, 5}, std::tuple{"GTX 1080", 6, 1}}) {
    const CudaCard card = {name, major, minor, kHopperShared, true};
    EXPECT_EQ(WhyUnusable(card), "compute capability " + std::to_string(major) + "." +
                                     std::to_string(minor) +
                                     " is older than 8.0 (Ampere), which kernels need");
    const std::vector<CudaCard> cards = {card};
    EXPECT_TRUE(ChooseDevice(DeviceChoice{}, cards)->device.is_cpu());
  }
  const CudaCard narrow = {"a card", 8, 7, kTuringShared, true};
  EXPECT_EQ(WhyUnusable(narrow),
            "compute capability 8.7 has 64 KiB of shared memory for a thread block, kernels need "
            "99");
}

TEST(DeviceTest, TheDriverTakesTheLatestCodeOfTheCardsGeneration) {
  constexpr std::string_view kDist = "80-real,90a-real,100,120-real";
  EXPECT_EQ(ArchitectureFor(kDist, 8, 0), 80);
  EXPECT_EQ(ArchitectureFor(kDist, 8, 9), 80);
  EXPECT_EQ(ArchitectureFor(kDist, 9, 0), 90);
  EXPECT_EQ(ArchitectureFor(kDist, 10, 3), 100);
  EXPECT_EQ(ArchitectureFor(kDist, 11, 0), 100) << "compiled by the driver";
  EXPECT_EQ(ArchitectureFor(kDist, 12, 1), 120);
  EXPECT_EQ(ArchitectureFor(kDist, 7, 5), 0);
  EXPECT_EQ(ArchitectureFor("80-virtual,90-virtual", 9, 0), 90);
  EXPECT_EQ(ArchitectureFor("80,86-real", 8, 9), 86);
  EXPECT_EQ(ArchitectureFor("80-real,90-virtual", 8, 0), 80);
}

TEST(DeviceTest, CodeForACardIsToldByItsCapability) {
  EXPECT_TRUE(HasCodeFor("80-real,86-real,89-real,90a-real", 9, 0));
  EXPECT_TRUE(HasCodeFor("80-real,90a-real", 8, 6));
  EXPECT_FALSE(HasCodeFor("86-real", 8, 0)) << "an earlier member of the generation";
  EXPECT_FALSE(HasCodeFor("80-real,90a-real", 10, 0));
  EXPECT_FALSE(HasCodeFor("80-real", 7, 5));
  EXPECT_FALSE(HasCodeFor("90a-real", 8, 9));
  EXPECT_TRUE(HasCodeFor("80-virtual", 12, 0)) << "the driver compiles it";
  EXPECT_TRUE(HasCodeFor("80", 9, 0));
  EXPECT_FALSE(HasCodeFor("90a", 10, 0));
  EXPECT_TRUE(HasCodeFor("100f-real", 10, 3));
  EXPECT_FALSE(HasCodeFor("100f", 12, 0));
  EXPECT_TRUE(HasCodeFor("native", 8, 6));
}

TEST(DeviceTest, ACardThatTheDriverShowsNothingOfIsUnusable) {
  const std::vector<CudaCard> cards = {{.name = "unknown error"}, kHopper};
  EXPECT_FALSE(WhyUnusable(cards[0]).empty());
  EXPECT_EQ(ChooseDevice(DeviceChoice{}, cards)->device.index, 1);
}

TEST(DeviceTest, ACardAskedForIsRefusedWithTheReason) {
  const std::vector<CudaCard> cards = {kTuring, kHopper};
  const auto status = [&](int index) {
    return ChooseDevice({DeviceChoice::Kind::kCuda, index}, cards).status();
  };
  if (!kHasCuda) {
    EXPECT_EQ(status(0).code(), StatusCode::kInvalidArgument);
    return;
  }
  EXPECT_EQ(status(0).code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(status(0).message().find("RTX 2080"), std::string::npos) << status(0).message();
  EXPECT_TRUE(status(1).ok());
  EXPECT_EQ(status(2).code(), StatusCode::kNotFound);
}

TEST(DeviceTest, RanksTakeTheCardsFromTheFirstOneOn) {
  using Kind = DeviceChoice::Kind;
  const std::vector<CudaCard> cards = {kTuring, kHopper, kHopper};
  EXPECT_TRUE(ChooseRankDevice({Kind::kCpu}, 1, 2, cards)->device.is_cpu());
  EXPECT_TRUE(ChooseRankDevice({Kind::kAuto}, 1, 2, {})->device.is_cpu());
  if (!kHasCuda) return;
  EXPECT_EQ(ChooseRankDevice({Kind::kAuto}, 0, 2, cards)->device.ToString(), "cuda:1");
  const Status too_many = ChooseRankDevice({Kind::kAuto}, 0, 3, cards).status();
  EXPECT_EQ(too_many.message(),
            "--tensor-parallel 3 takes as many GPUs, from cuda:1 on, and this machine shows 3; ask "
            "for fewer ranks, or add --device cpu");
  EXPECT_EQ(ChooseRankDevice({Kind::kAuto}, 1, 2, cards)->device.ToString(), "cuda:2");
  EXPECT_EQ(ChooseRankDevice({Kind::kCuda, 1}, 1, 2, cards)->device.ToString(), "cuda:2");
  EXPECT_EQ(ChooseRankDevice({Kind::kCuda, 2}, 0, 2, cards).status().code(),
            StatusCode::kFailedPrecondition);
}

TEST(DeviceTest, TheCardsOfThisMachineAreAsManyAsItsDriverShows) {
  const std::vector<CudaCard> cards = ListCudaCards();
  EXPECT_EQ(static_cast<int>(cards.size()), NumCudaDevices());
  for (const CudaCard& card : cards) EXPECT_GT(card.shared_bytes, 0) << card.name;
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
