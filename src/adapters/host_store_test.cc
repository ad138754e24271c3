#include "adapters/host_store.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "adapters/adapter_test_util.h"
#include "base/random.h"
#include "tensor/allocations.h"
#include "tensor/device.h"
#include "tensor/host_memory.h"

namespace graft {
namespace {

// Adapters of a few hundred KiB, several of which fit a store of 3 MiB.
ModelConfig SmallModel() {
  ModelConfig config = testing::OddModel();
  config.hidden_size = 100;
  config.intermediate_size = 250;
  return config;
}

class HostStoreTest : public ::testing::Test {
 protected:
  LoraWeights MakeWeights(int32_t rank, uint64_t seed) {
    const std::string extra = R"("target_modules": "all-linear", "r": )" + std::to_string(rank);
    const PeftConfig peft = testing::Peft(extra);
    return *LoraWeights::Load(testing::FileOf(testing::LoraTestTensors(peft, model_, "F32", seed)),
                              peft, model_, DType::kF32);
  }
  HostStore::Held Put(const std::string& hash, int32_t rank = 16, uint64_t seed = 1) {
    LoraWeights weights = MakeWeights(rank, seed);
    HostAdapter adapter = DescribeHostAdapter(weights, model_, hash, "base");
    return store_.Put(std::move(adapter), std::move(weights));
  }
  void TearDown() override { EXPECT_EQ(store_.CheckIntegrity().ToString(), "OK"); }

  const ModelConfig model_ = SmallModel();
  Metrics metrics_;
  HostStore store_{int64_t{3} << 20, metrics_};
};

// The adapter is served all the same, from the memory that it was read into.
TEST_F(HostStoreTest, WhereMemoryRunsOutNothingIsKept) {
  LoraWeights weights = MakeWeights(16, 1);
  HostAdapter adapter = DescribeHostAdapter(weights, model_, "a", "base");
  {
    const AllocationLimit limit({}, 1 << 20);
    const HostStore::Held held = store_.Put(std::move(adapter), std::move(weights));
    ASSERT_TRUE(held);
    EXPECT_FALSE(held.is_in_store());
    EXPECT_EQ(held->facts.hash, "a");
  }
  EXPECT_FALSE(store_.Has("a"));
  EXPECT_EQ(store_.slab_bytes(), 0);
  EXPECT_EQ(store_.CheckIntegrity().ToString(), "OK");
  EXPECT_TRUE(Put("a"));
  EXPECT_TRUE(store_.Has("a"));
}

// What is locked is brought in at once, and the system would kill the process: it is not begun,
// whether the memory is the store's own or shared.
TEST_F(HostStoreTest, NothingIsLockedWhereTheHostIsShortOfIt) {
  const Device gpu{DeviceKind::kCuda, 0};
  for (const bool is_shared : {false, true}) {
    const int64_t bytes_max = int64_t{3} << 20;
    HostStore store(
        bytes_max, metrics_, gpu,
        is_shared ? *SharedMemory::Create(HostStore::SharedBytes(bytes_max)) : SharedMemory());
    const auto put = [&] {
      LoraWeights weights = MakeWeights(16, 1);
      HostAdapter adapter = DescribeHostAdapter(weights, model_, "a", "base");
      return store.Put(std::move(adapter), std::move(weights)).is_in_store();
    };
    {
      const AvailableLimit limit(1 << 20);
      EXPECT_FALSE(put());
      EXPECT_EQ(store.slab_bytes(), 0);
      EXPECT_EQ(store.bytes(), 0);
      // Plain memory is taken as it is used.
      EXPECT_TRUE(Put("plain").is_in_store());
    }
    EXPECT_EQ(store.CheckIntegrity().ToString(), "OK");
    EXPECT_TRUE(NumCudaDevices() == 0 || put());
  }
}

// All bytes of a held adapter, row after row.
std::string Bytes(const HostAdapter& adapter) {
  std::string bytes;
  for (const HostAdapter::Stretch& stretch : adapter.stretches) {
    EXPECT_EQ(stretch.source_begin, static_cast<int64_t>(bytes.size()));
    bytes.append(stretch.data, static_cast<size_t>(stretch.bytes));
  }
  return bytes;
}

TEST_F(HostStoreTest, KeepsWhatWasPut) {
  const LoraWeights weights = MakeWeights(16, 7);
  const std::string expected(weights.buffer().as<char>(),
                             static_cast<size_t>(weights.buffer().bytes()));
  EXPECT_FALSE(store_.Find("a"));
  Put("a", 16, 7);
  EXPECT_TRUE(store_.Has("a"));
  const HostStore::Held held = store_.Find("a");
  ASSERT_TRUE(held);
  EXPECT_EQ(Bytes(*held), expected);
  EXPECT_EQ(held->facts.rank_max, 16);
  // A second adapter with the same hash gives way to the first.
  EXPECT_EQ(&*Put("a", 16, 8), &*held);
  EXPECT_EQ(store_.num_adapters(), 1);
}

TEST_F(HostStoreTest, SharedMemoryHoldsTheRows) {
  const int64_t bytes_max = int64_t{3} << 20;
  HostStore store(bytes_max, metrics_, Device{},
                  *SharedMemory::Create(HostStore::SharedBytes(bytes_max)));
  const SharedMemory elsewhere = *SharedMemory::Map(dup(store.shared().descriptor()));
  LoraWeights weights = MakeWeights(16, 7);
  const std::string expected(weights.buffer().as<char>(),
                             static_cast<size_t>(weights.buffer().bytes()));
  HostAdapter adapter = DescribeHostAdapter(weights, model_, "a", "base");
  const HostStore::Held held = store.Put(std::move(adapter), std::move(weights));
  std::string bytes;
  for (const HostAdapter::Stretch& stretch : held->stretches) {
    const int64_t place = stretch.data - store.shared().data();
    ASSERT_TRUE(place >= 0 && place + stretch.bytes <= elsewhere.bytes());
    bytes.append(elsewhere.data() + place, static_cast<size_t>(stretch.bytes));
  }
  EXPECT_EQ(bytes, expected);
}

// A Put that needs room in the store, as ranks do, waits for the adapters that hold all of it.
TEST_F(HostStoreTest, WaitsForRoomWhereItIsAsked) {
  std::vector<HostStore::Held> held;
  for (int i = 0; held.empty() || held.back().is_in_store(); ++i) {
    held.push_back(Put("held " + std::to_string(i), 64));
  }
  held.pop_back();
  const auto put = [&](int64_t wait_ns) {
    LoraWeights weights = MakeWeights(64, 9);
    HostAdapter adapter = DescribeHostAdapter(weights, model_, "late", "base");
    return store_.Put(std::move(adapter), std::move(weights), {.wait_ns = wait_ns}).is_in_store();
  };
  EXPECT_FALSE(put(0));
  EXPECT_FALSE(put(20'000'000));
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    held.clear();
  });
  EXPECT_TRUE(put(int64_t{60} * 1'000'000'000));
  other.join();
  EXPECT_EQ(store_.CheckIntegrity().message(), "");
}

TEST_F(HostStoreTest, EvictsWhatIsCheapestToLose) {
  ASSERT_LT(Put("large", 64)->weight_bytes, int64_t{2} << 20);
  for (const char* hash : {"small", "popular"}) Put(hash, 16);
  for (int i = 0; i < 10; ++i) store_.Find("popular");
  Put("next", 16);
  Put("one more", 64);
  EXPECT_FALSE(store_.Has("small")) << "fewest bytes times uses";
  EXPECT_TRUE(store_.Has("popular"));
  EXPECT_TRUE(store_.Has("large"));
  EXPECT_LE(store_.bytes(), int64_t{3} << 20);
}

TEST_F(HostStoreTest, WhatIsHeldOrPinnedStays) {
  store_.SetPriority("pinned", HostStore::kPinned);
  store_.SetPriority("cherished", 1);
  Put("pinned", 16);
  const HostStore::Held held = Put("held", 16);
  const std::string bytes = Bytes(*held);
  Put("cherished", 16);
  for (int i = 0; i < 20; ++i) Put("other " + std::to_string(i), 32, static_cast<uint64_t>(i));
  for (const char* hash : {"pinned", "held", "cherished"}) EXPECT_TRUE(store_.Has(hash)) << hash;
  EXPECT_EQ(Bytes(*held), bytes);
  EXPECT_LT(store_.num_adapters(), 10);
  // With a higher priority it may replace an adapter of high priority.
  store_.SetPriority("urgent", 2);
  store_.SetPriority("urgent too", 2);
  for (const char* hash : {"urgent", "urgent too"}) Put(hash, 64);
  EXPECT_FALSE(store_.Has("cherished"));
  EXPECT_TRUE(store_.Has("pinned"));
}

// Finds what a store should evict, by the rule as it is written, looking at everything.
class EvictionRule {
 public:
  void Use(const std::string& hash) { uses_[hash].push_back(++num_uses_); }
  void Forget(const std::string& hash) { uses_.erase(hash); }
  void SetPriority(const std::string& hash, int32_t priority) { priorities_[hash] = priority; }
  void SetBytes(const std::string& hash, int64_t bytes) { bytes_[hash] = bytes; }
  std::set<std::string> Hashes() const {
    std::set<std::string> hashes;
    for (const auto& [hash, uses] : uses_) hashes.insert(hash);
    return hashes;
  }
  // The adapters that must go for `newcomer`, among those that are not held.
  std::set<std::string> Victims(const std::string& newcomer, const std::string& held,
                                size_t count) {
    std::vector<std::tuple<int32_t, double, std::string>> costs;
    for (const auto& [hash, uses] : uses_) {
      const int32_t priority = priorities_[hash];
      if (hash == held || priority > priorities_[newcomer] || priority == HostStore::kPinned) {
        continue;
      }
      double sum = 0;
      for (const int64_t use : uses) {
        sum += std::exp2(static_cast<double>(use - num_uses_) / 1024.0);
      }
      costs.emplace_back(priority, static_cast<double>(bytes_[hash]) * sum, hash);
    }
    std::sort(costs.begin(), costs.end());
    std::set<std::string> victims;
    for (size_t i = 0; i < std::min(count, costs.size()); ++i)
      victims.insert(std::get<2>(costs[i]));
    return victims;
  }

 private:
  int64_t num_uses_ = 0;
  std::map<std::string, std::vector<int64_t>> uses_;
  std::map<std::string, int32_t> priorities_;
  std::map<std::string, int64_t> bytes_;
};

TEST_F(HostStoreTest, EvictsByTheRuleWhateverHappens) {
  EvictionRule rule;
  Random random(5);
  size_t num_evicted = 0;
  HostStore::Held held;
  for (int i = 0; i < 600; ++i) {
    const auto number = static_cast<int32_t>(random.Below(24));
    const std::string hash = std::to_string(number);
    if (random.Below(6) == 0) {
      const int32_t priority = number == 7 ? HostStore::kPinned : number % 3;
      store_.SetPriority(hash, priority);
      rule.SetPriority(hash, priority);
      continue;
    }
    if (HostStore::Held found = store_.Find(hash)) {
      rule.Use(hash);
      if (random.Below(4) == 0) held = std::move(found);
      continue;
    }
    const std::set<std::string> before = rule.Hashes();
    rule.SetBytes(hash, Put(hash, 4 + 4 * (number % 7))->weight_bytes);
    std::set<std::string> gone;
    for (const std::string& other : before) {
      if (!store_.Has(other)) gone.insert(other);
    }
    EXPECT_EQ(gone, rule.Victims(hash, held ? held->facts.hash : "", gone.size())) << "use " << i;
    EXPECT_TRUE(gone.empty() || store_.Has(hash)) << "in vain, use " << i;
    for (const std::string& other : gone) rule.Forget(other);
    num_evicted += gone.size();
    if (store_.Has(hash)) rule.Use(hash);
    ASSERT_EQ(store_.CheckIntegrity().ToString(), "OK");
  }
  EXPECT_GT(num_evicted, 30u);
}

// After two thousand half-lives a use is worth less than a double can express.
TEST_F(HostStoreTest, WhatWasUsedLongAgoIsStillWeighed) {
  HostStore store(int64_t{5} << 20, metrics_);
  const auto put = [&](const std::string& hash, int32_t rank) {
    LoraWeights weights = MakeWeights(rank, 1);
    HostAdapter adapter = DescribeHostAdapter(weights, model_, hash, "base");
    store.Put(std::move(adapter), std::move(weights));
  };
  for (const char* hash : {"large 1", "large 2", "large 3", "popular"}) put(hash, 48);
  for (const char* hash : {"small 1", "small 2"}) put(hash, 24);
  ASSERT_EQ(store.bytes(), int64_t{5} << 20) << "the small ones share a page";
  for (int use = 0; use < 2000 * 1024; ++use) store.Find("popular");
  put("next", 48);
  for (const char* hash : {"large 1", "large 2", "large 3"}) EXPECT_TRUE(store.Has(hash)) << hash;
  for (const char* hash : {"small 1", "small 2"}) EXPECT_FALSE(store.Has(hash)) << hash;
}

TEST_F(HostStoreTest, WhatFindsNoRoomBelongsToItsHolder) {
  const HostStore::Held large = Put("too large", 256);
  ASSERT_TRUE(large);
  EXPECT_FALSE(store_.Has("too large"));
  EXPECT_EQ(static_cast<int64_t>(Bytes(*large).size()), large->weight_bytes);
  HostStore none(0, metrics_);
  LoraWeights weights = MakeWeights(4, 1);
  HostAdapter adapter = DescribeHostAdapter(weights, model_, "a", "");
  EXPECT_TRUE(none.Put(std::move(adapter), std::move(weights)));
  EXPECT_EQ(none.num_adapters(), 0);
}

TEST_F(HostStoreTest, TakesNoMoreMemoryThanItsLimit) {
  Put("a");
  EXPECT_EQ(store_.slab_bytes(), int64_t{3} << 20);
}

TEST_F(HostStoreTest, NothingIsEvictedInVain) {
  prometheus::Gauge& adapters = metrics_.Gauge("graft_host_adapters", "");
  const HostStore::Held held = Put("held", 64);
  Put("other", 16);
  store_.SetPriority("cherished", 1);
  Put("cherished", 4);
  EXPECT_EQ(adapters.Value(), 3);
  EXPECT_FALSE(Put("too large beside it", 96).is_in_store());
  EXPECT_TRUE(store_.Has("other"));
  EXPECT_TRUE(store_.Has("cherished"));
  EXPECT_EQ(adapters.Value(), 3);
}

// A Put that waits holds up no other: it may wait as long as the adapters that hold its room run.
TEST_F(HostStoreTest, WhatFitsIsPutWhileAnotherWaitsForRoom) {
  HostStore::Held held = Put("held", 64);
  std::atomic<bool> is_done = false;
  std::thread waiting([&] {
    LoraWeights weights = MakeWeights(96, 2);
    HostAdapter adapter = DescribeHostAdapter(weights, model_, "large", "base");
    const int64_t wait_ns = int64_t{60} * 1'000'000'000;
    EXPECT_TRUE(
        store_.Put(std::move(adapter), std::move(weights), {.wait_ns = wait_ns}).is_in_store());
    is_done = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // that it most likely waits
  EXPECT_TRUE(Put("small", 16).is_in_store());
  EXPECT_EQ(store_.slab_bytes(), int64_t{3} << 20);
  EXPECT_FALSE(is_done);
  held.Release();
  waiting.join();
}

TEST_F(HostStoreTest, ThreadsPutFindAndLetGo) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 30; ++round) {
        const int seed = (i + round) % 7;
        const std::string hash = std::to_string(seed);
        HostStore::Held held = store_.Find(hash);
        if (!held) held = Put(hash, 8 + 8 * (seed % 3), static_cast<uint64_t>(seed));
        EXPECT_EQ(held->facts.hash, hash);
        EXPECT_EQ(held->facts.rank_max, 8 + 8 * (seed % 3));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// While its bytes are copied nothing finds it, and what may not be found leaves no trace.
TEST_F(HostStoreTest, NothingFindsWhatMayNotBeFoundYet) {
  WorkCrew crew(4);
  for (const bool may : {false, true}) {
    LoraWeights lora = MakeWeights(16, 1);
    HostAdapter adapter = DescribeHostAdapter(lora, model_, "a", "base");
    AdapterWeights weights = std::move(lora);
    const HostStore::Held held =
        store_.Put(std::move(adapter), std::move(weights), {.crew = &crew, .may_be_found = [&] {
                                                              EXPECT_FALSE(store_.Has("a"));
                                                              EXPECT_FALSE(store_.Find("a"));
                                                              return may;
                                                            }});
    EXPECT_EQ(static_cast<bool>(held), may);
    EXPECT_EQ(store_.Has("a"), may);
    EXPECT_EQ(store_.bytes() > 0, may);
    EXPECT_EQ(store_.CheckIntegrity().ToString(), "OK");
  }
  // The same for one that finds no room.
  LoraWeights lora = MakeWeights(256, 1);
  HostAdapter adapter = DescribeHostAdapter(lora, model_, "large", "base");
  AdapterWeights weights = std::move(lora);
  EXPECT_FALSE(
      store_.Put(std::move(adapter), std::move(weights), {.may_be_found = [] { return false; }}));
}

TEST_F(HostStoreTest, ACrewCopiesTheSame) {
  WorkCrew crew(4);
  const std::string expected = Bytes(*Put("alone", 16, 7));
  LoraWeights lora = MakeWeights(16, 7);
  HostAdapter adapter = DescribeHostAdapter(lora, model_, "helped", "base");
  AdapterWeights weights = std::move(lora);
  const HostStore::Held held = store_.Put(std::move(adapter), std::move(weights), {.crew = &crew});
  EXPECT_EQ(Bytes(*held), expected);
}

TEST_F(HostStoreTest, WhatEvictsNothingFindsFreeRoomAlone) {
  ASSERT_TRUE(Put("a", 64).is_in_store());
  LoraWeights lora = MakeWeights(96, 1);
  HostAdapter adapter = DescribeHostAdapter(lora, model_, "b", "base");
  AdapterWeights weights = std::move(lora);
  EXPECT_FALSE(store_.Put(std::move(adapter), std::move(weights), {.evicts = false}).is_in_store());
  EXPECT_TRUE(store_.Has("a"));
  EXPECT_TRUE(Put("b", 96).is_in_store());
  EXPECT_FALSE(store_.Has("a")) << "it was in the way";
}

}  // namespace
}  // namespace graft
