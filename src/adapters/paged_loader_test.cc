// From folders into pages: every row and every pointer, on the CPU and on a GPU.
#include "adapters/paged_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <semaphore>
#include <set>
#include <thread>

#include "adapters/adapter_test_util.h"
#include "model/test_session.h"

namespace graft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PagedLoaderTest : public ::testing::TestWithParam<DeviceKind> {
 protected:
  explicit PagedLoaderTest(const ModelConfig& model = testing::OddModel()) : model_(model) {}

  void SetUp() override {
    if (!device_.exists()) GTEST_SKIP() << "this machine shows no GPU";
    const Device device = device_.stream().device;
    // Pages of 1,920 bytes: no multiple of a row's alignment, with room for a few rows each.
    pool_ = std::make_unique<KvPool>(MakeKvLayout(model_, 8, DType::kF32), kPages, device);
    loras_ = std::make_unique<LoraStore>(model_, 4, device);
    loader_ = std::make_unique<PagedLoader>(model_, backend_, *pool_, *loras_, device, metrics_, 2);
    packer_ = std::make_unique<RowPacker>(pages_, PageUse::kAdapters, pool_->layout().PageBytes());
  }

  // One that copies one adapter at a time.
  void UseLoader(PeftBackend& backend, const FetchLimits& limits = {}) {
    loader_ = std::make_unique<PagedLoader>(model_, backend, *pool_, *loras_,
                                            device_.stream().device, metrics_, 1, limits);
  }
  std::string Folder(const std::string& name, const std::string& extra, uint64_t seed) {
    const std::string path = dir_.File(name);
    testing::WriteAdapter(path, testing::PeftJson(extra),
                          testing::SafetensorsBytes(
                              testing::LoraTestTensors(testing::Peft(extra), model_, "F32", seed)));
    return path;
  }
  LoadEvent Next() {
    loader_->WaitForEvent();
    std::vector<LoadEvent> events = loader_->TakeEvents();
    EXPECT_EQ(events.size(), 1u);
    return events.empty() ? LoadEvent{} : std::move(events[0]);
  }
  LoadEvent Fetch(int32_t content, const std::string& path, const std::string& hash = "") {
    loader_->Fetch({content, path, hash, "key " + path});
    return Next();
  }
  // The content of the next fetch that has ended, which went well. Others tell that they are slow.
  int32_t ExpectFetched() {
    while (ended_.empty()) {
      loader_->WaitForEvent();
      for (LoadEvent& event : loader_->TakeEvents()) {
        if (event.kind == LoadEvent::Kind::kFetched) ended_.push_back(std::move(event));
      }
    }
    const LoadEvent event = std::move(ended_.front());
    ended_.pop_front();
    EXPECT_EQ(event.status.ToString(), "OK");
    return event.content;
  }
  PackedRows Place(int32_t content, AdapterSlot slot, const std::string& path,
                   const AdapterFacts& facts) {
    PackedRows pages = *packer_->Pack(facts.rows);
    loader_->Copy({{content, path, facts.hash, facts.hash}, slot, pages.extents()});
    const LoadEvent event = Next();
    EXPECT_EQ(event.kind, LoadEvent::Kind::kCopied);
    EXPECT_EQ(event.status.ToString(), "OK");
    return pages;
  }
  template <typename T>
  std::vector<T> Download(const void* from, size_t count) {
    std::vector<T> values(count);
    CopyFromDevice(values.data(), from, static_cast<int64_t>(count * sizeof(T)), device_.stream());
    Synchronize(device_.stream());
    return values;
  }
  // What the kernels would find in the slot must be what the folder holds.
  void ExpectServes(AdapterSlot slot, const std::string& extra, uint64_t seed) {
    for (int32_t layer = 0; layer < model_.num_layers; ++layer) {
      ExpectServes(slot, extra, seed, layer);
    }
  }
  void ExpectServes(AdapterSlot slot, const std::string& extra, uint64_t seed, int32_t layer) {
    const PeftConfig peft = testing::Peft(extra);
    const LoraWeights expected =
        *LoraWeights::Load(testing::FileOf(testing::LoraTestTensors(peft, model_, "F32", seed)),
                           peft, model_, DType::kF32);
    const auto table = Download<LoraMatrix>(
        loras_->matrices(layer, LoraModule::kQ) + slot * loras_->matrices_stride(), kLoraModules);
    for (size_t i = 0; i < kLoraModules; ++i) {
      const LoraMatrix& want = expected.matrix(layer, static_cast<LoraModule>(i));
      ASSERT_EQ(table[i].rank, want.rank);
      if (want.rank == 0) continue;
      EXPECT_EQ(table[i].scale, want.scale);
      const LoraModuleShape shape = ShapeOfLoraModule(model_, static_cast<LoraModule>(i));
      ExpectRows(table[i].a_rows, want.a_rows, want.rank, shape.in);
      ExpectRows(table[i].b_rows, want.b_rows, want.rank, shape.out);
    }
  }
  void ExpectRows(const void* const* rows, const void* const* expected, int32_t rank, int64_t n) {
    const auto pointers = Download<const void*>(rows, static_cast<size_t>(rank));
    for (int32_t j = 0; j < rank; ++j) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(pointers[j]) % kRowAlignment, 0u);
      const auto row = Download<float>(pointers[j], static_cast<size_t>(n));
      EXPECT_EQ(std::memcmp(row.data(), expected[j], row.size() * sizeof(float)), 0) << "row " << j;
    }
  }

  static constexpr int32_t kPages = 120;
  testing::TestDevice device_{GetParam()};
  const ModelConfig model_;
  const testing::TempDir dir_;
  Metrics metrics_;
  HostStore store_{int64_t{4} << 20, metrics_};
  PeftBackend backend_{model_, TypesOf(DType::kF32), store_};
  std::unique_ptr<KvPool> pool_;
  std::unique_ptr<LoraStore> loras_;
  std::unique_ptr<PagedLoader> loader_;
  PagePool pages_{kPages};
  std::unique_ptr<RowPacker> packer_;
  std::deque<LoadEvent> ended_;
};

constexpr const char* kAll = R"("target_modules": "all-linear", "r": 6)";
constexpr const char* kMiddle =
    R"("target_modules": ["q_proj", "up_proj"], "r": 4, "layers_to_transform": [1])";
constexpr const char* kSome = R"("target_modules": ["k_proj", "down_proj"], "r": 13)";

TEST_P(PagedLoaderTest, FillsPagesWithRowsAndTables) {
  const std::string a = Folder("a", kAll, 1);
  const std::string b = Folder("b", kSome, 2);
  std::string told;
  loader_->SetOnRead(
      [&](const std::string& key, const AdapterFacts& facts) { told = key + "=" + facts.hash; });
  const LoadEvent first = Fetch(0, a);
  ASSERT_TRUE(first.status.ok()) << first.status.ToString();
  EXPECT_EQ(told, "key " + a + "=" + *backend_.Hash(a));
  ASSERT_TRUE(loader_->FindInHost(first.facts.hash).has_value());
  EXPECT_EQ(loader_->FindInHost(first.facts.hash)->bytes, first.facts.bytes);
  const PackedRows a_pages = Place(0, 2, a, first.facts);
  EXPECT_GT(a_pages.extents().size(), 10u);
  const LoadEvent second = Fetch(1, b, *backend_.Hash(b));
  PackedRows b_pages = Place(1, 0, b, second.facts);
  ExpectServes(2, kAll, 1);
  ExpectServes(0, kSome, 2);
  EXPECT_EQ(loras_->rank_of(2), 6);
  EXPECT_EQ(loras_->rank_of(0), 13);
  EXPECT_EQ(loras_->bytes(), first.facts.bytes + second.facts.bytes);
  // After the eviction it is loaded again from the host's memory, into other pages. The folder is
  // not needed.
  loader_->Free(2);
  EXPECT_EQ(loras_->num_loaded(), 1);
  std::filesystem::remove_all(a);
  PackedRows blocker = *packer_->Pack(std::vector<RowRun>{{64, 5}});
  const PackedRows again = Place(0, 3, a, first.facts);
  ExpectServes(3, kAll, 1);
  ExpectServes(0, kSome, 2);
}

TEST_P(PagedLoaderTest, LayersArriveOneByOne) {
  for (const char* extra : {kAll, kSome, kMiddle}) {
    SCOPED_TRACE(extra);
    std::counting_semaphore<> allowed(0);
    loader_->SetBeforeLayer([&](AdapterSlot, int32_t) { allowed.acquire(); });
    const std::string path = Folder(extra, extra, 1);
    const LoadEvent fetched = Fetch(0, path);
    const PackedRows pages = *packer_->Pack(fetched.facts.rows);
    EXPECT_TRUE(loader_->Copy({{0, path, fetched.facts.hash, ""}, 1, pages.extents()}));
    const PageArrival* const arrival = loader_->arrivals().Find(1);
    ASSERT_NE(arrival, nullptr);
    EXPECT_EQ(arrival->adapter().facts.hash, fetched.facts.hash);
    EXPECT_FALSE(arrival->HasArrived(0));
    for (int32_t layer = 0; layer < model_.num_layers; ++layer) {
      allowed.release();
      arrival->Await(layer, device_.stream());
      ExpectServes(1, extra, 1, layer);
      EXPECT_TRUE(arrival->HasArrived(layer));
      EXPECT_EQ(arrival->layers_queued(), layer + 1);
      const bool is_last = layer + 1 == model_.num_layers;
      EXPECT_FALSE(!is_last && arrival->HasArrived(layer + 1));
    }
    EXPECT_EQ(Next().kind, LoadEvent::Kind::kCopied);
    EXPECT_EQ(loader_->arrivals().Find(1), nullptr);
    ExpectServes(1, extra, 1);
    loader_->Free(1);
  }
}

TEST_P(PagedLoaderTest, TwoAtOnceTakeTurnsByLayers) {
  const char* const extras[] = {kAll, kSome, kMiddle};
  std::vector<AdapterSlot> turns;
  std::counting_semaphore<> begun(0);
  std::counting_semaphore<> allowed(0);
  loader_->SetBeforeLayer([&](AdapterSlot slot, int32_t) {
    turns.push_back(slot);
    begun.release();
    allowed.acquire();
  });
  std::vector<PackedRows> pages;
  for (int32_t i = 0; i < 3; ++i) {
    const std::string path = Folder(extras[i], extras[i], 1 + static_cast<uint64_t>(i));
    const LoadEvent fetched = Fetch(i, path);
    pages.push_back(*packer_->Pack(fetched.facts.rows));
    EXPECT_TRUE(loader_->Copy({{i, path, fetched.facts.hash, ""}, i, pages.back().extents()}));
    if (i == 0) begun.acquire();  // the first layer is copied alone
  }
  allowed.release(3 * model_.num_layers);
  std::vector<int32_t> order;
  while (order.size() < 3) {
    loader_->WaitForEvent();
    for (const LoadEvent& event : loader_->TakeEvents()) {
      EXPECT_GT(event.copy_ns, 0);
      order.push_back(event.content);
    }
  }
  EXPECT_EQ(order, (std::vector<int32_t>{0, 1, 2}));
  ASSERT_EQ(model_.num_layers, 3);
  EXPECT_EQ(turns, (std::vector<AdapterSlot>{0, 0, 1, 0, 1, 2, 1, 2, 2}));
  for (int32_t i = 0; i < 3; ++i) ExpectServes(i, extras[i], 1 + static_cast<uint64_t>(i));
}

TEST_P(PagedLoaderTest, WhatTheHostLostIsReadAgainForItsCopy) {
  const std::string path = Folder("a", kAll, 1);
  HostStore none(0, metrics_);
  PeftBackend backend(model_, TypesOf(DType::kF32), none);
  UseLoader(backend);
  const LoadEvent fetched = Fetch(0, path);
  EXPECT_FALSE(loader_->FindInHost(fetched.facts.hash).has_value());
  loader_->Drop(0);
  const PackedRows pages = *packer_->Pack(fetched.facts.rows);
  EXPECT_FALSE(loader_->Copy({{0, path, fetched.facts.hash, ""}, 2, pages.extents()}))
      << "it may still fail";
  const LoadEvent copied = Next();
  EXPECT_EQ(copied.kind, LoadEvent::Kind::kCopied);
  EXPECT_EQ(copied.status.ToString(), "OK");
  EXPECT_GT(copied.copy_ns, 0);
  EXPECT_EQ(loader_->arrivals().Find(2), nullptr);
  ExpectServes(2, kAll, 1);
  // The store has held it since its fetch, so the folder is not read.
  loader_->Free(2);
  Fetch(0, path);
  std::filesystem::remove_all(path);
  EXPECT_TRUE(loader_->Copy({{0, path, fetched.facts.hash, ""}, 1, pages.extents()}));
  EXPECT_EQ(Next().status.ToString(), "OK");
  ExpectServes(1, kAll, 1);
  loader_.reset();  // must go before its backend
}

TEST_P(PagedLoaderTest, FailuresSayWhy) {
  const std::string path = Folder("a", kAll, 1);
  EXPECT_THAT(Fetch(0, dir_.File("nowhere")).status.message(), HasSubstr("nowhere"));
  EXPECT_THAT(Fetch(0, path, std::string(64, '0')).status.message(), HasSubstr("has changed"));
  const std::string weights = path + "/adapter_model.safetensors";
  const LoadEvent good = Fetch(1, path);
  loader_->Drop(1);
  std::filesystem::resize_file(weights, 1000);
  EXPECT_TRUE(Fetch(1, path, good.facts.hash).status.ok()) << "it is in the host's memory";
  loader_->Drop(1);
  EXPECT_THAT(Fetch(2, path).status.message(), HasSubstr("adapter_model.safetensors"));
  const std::string broken = Folder("broken", kAll, 3);
  testing::WriteFile(broken + "/adapter_config.json", R"({"r": -1})");
  EXPECT_EQ(Fetch(2, broken).status.code(), StatusCode::kDataLoss) << "not the request's fault";
  // Neither the folder nor the host's store has it any more when it is copied.
  HostStore none(0, metrics_);
  PeftBackend backend(model_, TypesOf(DType::kF32), none);
  PagedLoader loader(model_, backend, *pool_, *loras_, device_.stream().device, metrics_, 1);
  const PackedRows pages = *packer_->Pack(good.facts.rows);
  EXPECT_FALSE(loader.Copy({{1, path, good.facts.hash, ""}, 0, pages.extents()}));
  loader.WaitForEvent();
  EXPECT_FALSE(loader.TakeEvents()[0].status.ok());
}

// A backend with one folder on storage that does not answer until it is told to.
class HangingBackend : public PeftBackend {
 public:
  using PeftBackend::PeftBackend;
  Result<HostStore::Held> Fetch(const std::string& path, const std::string& hash) override {
    const bool hangs = path.find("hangs") != std::string::npos;
    if (hangs) {
      ++num_hanging;
      answers.acquire();
    } else {
      ++num_good;
    }
    return PeftBackend::Fetch(path, hash);
  }
  std::atomic<int> num_hanging = 0;
  std::atomic<int> num_good = 0;  // of the others that were read
  std::counting_semaphore<> answers{0};
};

constexpr int64_t kLongNs = int64_t{1} << 60;

FetchLimits LimitsOf(int32_t threads, int32_t threads_more, int64_t slow_ns, int64_t give_up_ns) {
  return {.threads = threads,
          .threads_more = threads_more,
          .slow_ns = slow_ns,
          .give_up_ns = give_up_ns};
}

TEST_P(PagedLoaderTest, AFolderThatHangsHoldsUpNobodyElse) {
  const std::string hangs = Folder("hangs", kAll, 1);
  const std::string good = Folder("good", kSome, 2);
  HangingBackend backend(model_, TypesOf(DType::kF32), store_);
  // Once with a second thread from the start, and once with a thread that is added when the first
  // is slow.
  for (const FetchLimits& limits :
       {LimitsOf(2, 0, kLongNs, kLongNs), LimitsOf(1, 1, 1'000'000, kLongNs)}) {
    SCOPED_TRACE(limits.threads);
    UseLoader(backend, limits);
    loader_->Fetch({0, hangs, "", "hangs"});
    bool is_slow = false;
    for (int32_t content = 1; content < 5; ++content) {
      loader_->Fetch({content, good, "", "good"});
      for (bool is_fetched = false; !is_fetched;) {
        loader_->WaitForEvent();
        for (const LoadEvent& event : loader_->TakeEvents()) {
          EXPECT_EQ(event.status.ToString(), "OK");
          is_slow |= event.kind == LoadEvent::Kind::kSlow && event.content == 0;
          is_fetched |= event.kind == LoadEvent::Kind::kFetched && event.content == content;
        }
      }
      loader_->Drop(content);
    }
    EXPECT_EQ(is_slow, limits.threads == 1) << "nobody else would have been read";
    backend.answers.release();
    LoadEvent event = Next();
    while (event.kind != LoadEvent::Kind::kFetched) event = Next();
    EXPECT_EQ(event.content, 0);
    EXPECT_EQ(event.status.ToString(), "OK");
    loader_.reset();
  }
}

// However long it takes to read one holder's folders, another's are read beside them.
TEST_P(PagedLoaderTest, NobodysFetchesTakeAllThreads) {
  const std::string hangs = Folder("hangs", kAll, 1);
  const std::string good = Folder("good", kSome, 2);
  HangingBackend backend(model_, TypesOf(DType::kF32), store_);
  UseLoader(backend, LimitsOf(1, 1, kLongNs, kLongNs));
  const auto fetch = [&](int32_t content, const std::string& path, int32_t holder) {
    FetchOrder order = {content, path, "", path};
    order.holder = holder;
    loader_->Fetch(std::move(order));
  };
  fetch(0, hangs, 7);
  fetch(1, good, 7);  // waits for the one before it
  for (int32_t content = 2; content < 4; ++content) {
    fetch(content, good, 8);
    const LoadEvent event = Next();
    EXPECT_EQ(event.content, content);
    EXPECT_EQ(event.status.ToString(), "OK");
  }
  EXPECT_EQ(backend.num_hanging, 1);
  backend.answers.release();
  std::vector<int32_t> contents;  // of one turn, or of two
  while (contents.size() < 2) {
    loader_->WaitForEvent();
    for (const LoadEvent& event : loader_->TakeEvents()) contents.push_back(event.content);
  }
  EXPECT_THAT(contents, ElementsAre(0, 1));
  loader_.reset();
}

TEST_P(PagedLoaderTest, AFolderThatHangsForLongIsGivenUp) {
  const std::string hangs = Folder("hangs", kAll, 1);
  HangingBackend backend(model_, TypesOf(DType::kF32), store_);
  UseLoader(backend, LimitsOf(1, 0, kLongNs, 200'000'000));
  const auto fetch = [&](int32_t content, const std::string& path) {
    loader_->Fetch({content, path, "", path});
    LoadEvent event = Next();
    EXPECT_EQ(event.kind, LoadEvent::Kind::kFetched);
    EXPECT_EQ(event.content, content);
    return event.status;
  };
  const Status given_up = fetch(0, hangs);
  EXPECT_EQ(given_up.code(), StatusCode::kUnavailable);
  EXPECT_THAT(given_up.message(), HasSubstr("does not answer"));
  EXPECT_NE(metrics_.Render().find("graft_adapter_fetches_hanging 1"), std::string::npos);
  // No further thread is lost to that folder, and a fetch that finds no other thread is given up,
  // too.
  EXPECT_THAT(fetch(0, hangs).message(), HasSubstr("still cannot be read"));
  EXPECT_THAT(fetch(0, hangs).message(), HasSubstr("still cannot be read"));
  EXPECT_EQ(backend.num_hanging, 1);
  EXPECT_EQ(fetch(1, Folder("elsewhere", kSome, 2)).code(), StatusCode::kUnavailable);
  // Once the storage has answered, the folder is read like any other.
  backend.answers.release(1000);
  Status status = fetch(0, hangs);
  while (!status.ok()) {
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    status = fetch(0, hangs);
  }
  EXPECT_NE(metrics_.Render().find("graft_adapter_fetches_hanging 0"), std::string::npos);
  loader_.reset();
}

// Then its pages and slot are free. What the storage delivers later is written nowhere.
TEST_P(PagedLoaderTest, ACopyWhoseFolderHangsIsGivenUpForGood) {
  const std::string hangs = Folder("hangs", kAll, 1);
  HostStore none(0, metrics_);
  HangingBackend backend(model_, TypesOf(DType::kF32), none);
  UseLoader(backend, LimitsOf(1, 1, kLongNs, 200'000'000));
  const AdapterFacts facts = backend_.Read(hangs).value();
  const PackedRows pages = *packer_->Pack(facts.rows);
  EXPECT_FALSE(loader_->Copy({{0, hangs, facts.hash, ""}, 2, pages.extents()}));
  const LoadEvent event = Next();
  EXPECT_EQ(event.kind, LoadEvent::Kind::kCopied);
  EXPECT_EQ(event.status.code(), StatusCode::kUnavailable);
  backend.answers.release();
  loader_.reset();  // waits for the thread that hangs
  EXPECT_EQ(loras_->num_loaded(), 0);
}

// A backend with folders that are read for as long as the test likes, and take as much memory.
class SlowBackend : public PeftBackend {
 public:
  using PeftBackend::PeftBackend;
  Result<HostStore::Held> Fetch(const std::string& path, const std::string& hash) override {
    const int64_t bytes = BytesToFetch(path);
    Count(1, bytes);
    {
      const std::lock_guard lock(mutex_);
      names_.push_back(std::filesystem::path(path).filename());
    }
    begun.release();
    allowed.acquire();
    Count(-1, -bytes);
    return PeftBackend::Fetch(path, hash);
  }
  int64_t BytesToFetch(const std::string& path) const override {
    looked.release();
    return path.find("large") != std::string::npos ? 1000 : 100;
  }
  // The folders by name, in the order in which they were begun.
  std::vector<std::string> Names() {
    const std::lock_guard lock(mutex_);
    return names_;
  }
  mutable std::counting_semaphore<> looked{0};
  std::counting_semaphore<> begun{0};
  std::counting_semaphore<> allowed{0};
  int most_at_once = 0;
  int64_t most_bytes_of_several = 0;

 private:
  void Count(int reads, int64_t bytes) {
    const std::lock_guard lock(mutex_);
    num_reading_ += reads;
    bytes_ += bytes;
    most_at_once = std::max(most_at_once, num_reading_);
    if (num_reading_ > 1) most_bytes_of_several = std::max(most_bytes_of_several, bytes_);
  }
  std::mutex mutex_;
  std::vector<std::string> names_;
  int num_reading_ = 0;
  int64_t bytes_ = 0;
};

TEST_P(PagedLoaderTest, AsManyAreReadAtOnceAsThereAreThreads) {
  SlowBackend backend(model_, TypesOf(DType::kF32), store_);
  UseLoader(backend, {.threads = 5});
  for (int32_t i = 0; i < 8; ++i) {
    const std::string path = Folder("a" + std::to_string(i), kSome, static_cast<uint64_t>(i));
    loader_->Fetch({i, path, "", path});
  }
  for (int i = 0; i < 5; ++i) backend.begun.acquire();
  backend.allowed.release(8);
  for (int32_t i = 0; i < 8; ++i) ExpectFetched();
  EXPECT_EQ(backend.most_at_once, 5);
  loader_.reset();
}

// The memory that reading takes is bounded, and one that is larger than the bound is read alone.
TEST_P(PagedLoaderTest, ReadsWaitForEachOthersMemory) {
  SlowBackend backend(model_, TypesOf(DType::kF32), store_);
  UseLoader(backend, {.threads = 8, .bytes_max = 250});
  const std::vector<std::string> names = {"a", "b", "large", "c", "d", "e", "f", "g"};
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string path = Folder(names[i], kSome, i);
    loader_->Fetch({static_cast<int32_t>(i), path, "", path});
  }
  backend.begun.acquire();
  EXPECT_EQ(metrics_.Render().find("graft_adapter_fetch_bytes 0\n"), std::string::npos);
  backend.allowed.release(100);
  for (size_t i = 0; i < names.size(); ++i) ExpectFetched();
  EXPECT_LE(backend.most_at_once, 2);
  EXPECT_LE(backend.most_bytes_of_several, 250);
  for (int32_t i = 0; i < std::ssize(names); ++i) loader_->Drop(i);
  loader_.reset();
  EXPECT_NE(metrics_.Render().find("graft_adapter_fetch_bytes 0\n"), std::string::npos);
}

// One holder's large adapters do not keep another's out: holders take turns for memory, too.
TEST_P(PagedLoaderTest, HoldersTakeTurnsForMemory) {
  SlowBackend backend(model_, TypesOf(DType::kF32), store_);
  UseLoader(backend, {.threads = 8, .bytes_max = 1000});
  const auto fetch = [&](int32_t content, const std::string& name, int32_t holder) {
    const std::string path = Folder(name, kSome, 1);
    FetchOrder order = {content, path, "", path};
    order.holder = holder;
    loader_->Fetch(std::move(order));
  };
  for (int32_t i = 0; i < 8; ++i) fetch(i, "large " + std::to_string(i), 7);
  backend.begun.acquire();
  while (backend.looked.try_acquire()) {
  }
  fetch(8, "small", 8);
  backend.looked.acquire();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // that it most likely is in line
  backend.allowed.release(100);
  for (int i = 0; i < 9; ++i) ExpectFetched();
  loader_.reset();
  const std::vector<std::string> names = backend.Names();
  ASSERT_EQ(names.size(), 9u);
  EXPECT_NE(names.back(), "small") << "all of the other holder's were read before";
  EXPECT_EQ(backend.most_at_once, 1);
}

// What is slow takes its memory all the same.
TEST_P(PagedLoaderTest, SlowFetchesCount) {
  SlowBackend backend(model_, TypesOf(DType::kF32), store_);
  FetchLimits limits = LimitsOf(8, 16, 1'000'000, kLongNs);
  limits.bytes_max = 250;
  UseLoader(backend, limits);
  for (int32_t i = 0; i < 12; ++i) {
    const std::string path = Folder(std::to_string(i), kSome, 1);
    loader_->Fetch({i, path, "", path});
  }
  // Two find room, and four more are read one after the other, as those before them are slow.
  for (int i = 0; i < 6; ++i) backend.begun.acquire();
  std::set<std::string> slow;
  const auto are_slow = [&] {
    return std::ranges::all_of(backend.Names(), [&](const auto& name) { return slow.count(name); });
  };
  while (!are_slow()) {
    loader_->WaitForEvent();
    for (const LoadEvent& event : loader_->TakeEvents()) {
      EXPECT_EQ(event.kind, LoadEvent::Kind::kSlow);
      slow.insert(std::to_string(event.content));
    }
  }
  EXPECT_NE(metrics_.Render().find("graft_adapter_fetch_bytes 600\n"), std::string::npos);
  backend.allowed.release(100);
  for (int i = 0; i < 12; ++i) ExpectFetched();
  for (int32_t i = 0; i < 12; ++i) loader_->Drop(i);
  EXPECT_EQ(backend.most_at_once, 6);
  loader_.reset();
  EXPECT_NE(metrics_.Render().find("graft_adapter_fetch_bytes 0\n"), std::string::npos);
}

// What hangs while all threads are busy is slow all the same: another is read beside it as soon as
// a thread is free.
TEST_P(PagedLoaderTest, AFetchTurnsSlowWhileAllThreadsAreBusy) {
  SlowBackend backend(model_, TypesOf(DType::kF32), store_);
  FetchLimits limits = LimitsOf(2, 0, 1'000'000, 60'000'000'000);
  limits.bytes_max = 1100;
  UseLoader(backend, limits);
  const std::string paths[] = {Folder("large 0", kSome, 1), Folder("1", kSome, 2),
                               Folder("large 2", kSome, 3)};
  for (int32_t i = 0; i < 3; ++i) loader_->Fetch({i, paths[i], "", paths[i]});
  std::set<int32_t> slow;
  while (slow.size() < 2) {
    loader_->WaitForEvent();
    for (const LoadEvent& event : loader_->TakeEvents()) {
      ASSERT_EQ(event.kind, LoadEvent::Kind::kSlow) << event.status.ToString();
      slow.insert(event.content);
    }
  }
  EXPECT_EQ(slow, (std::set<int32_t>{0, 1}));
  for (int i = 0; i < 2; ++i) backend.begun.acquire();
  backend.allowed.release();
  backend.begun.acquire();  // the third, while one of them hangs
  backend.allowed.release(2);
  for (int i = 0; i < 3; ++i) ExpectFetched();
  loader_.reset();
}

// What is read outside the line, as for a load over HTTP, has its room of the line's.
TEST_P(PagedLoaderTest, ReadsBesideTheLineCount) {
  SlowBackend backend(model_, TypesOf(DType::kF32), store_);
  UseLoader(backend, {.threads = 8, .bytes_max = 1150});
  const std::string beside = Folder("large", kSome, 1);
  std::thread load([&] { EXPECT_TRUE(backend.Read(beside).ok()); });
  backend.begun.acquire();
  EXPECT_NE(metrics_.Render().find("graft_adapter_fetch_bytes 1000\n"), std::string::npos);
  for (int32_t i = 0; i < 4; ++i) {
    const std::string path = Folder(std::to_string(i), kSome, static_cast<uint64_t>(i) + 2);
    loader_->Fetch({i, path, "", path});
  }
  backend.begun.acquire();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // that others would have begun
  EXPECT_NE(metrics_.Render().find("graft_adapter_fetch_bytes 1100\n"), std::string::npos);
  backend.allowed.release(100);
  load.join();
  for (int i = 0; i < 4; ++i) ExpectFetched();
  loader_.reset();
  EXPECT_NE(metrics_.Render().find("graft_adapter_fetch_bytes 0\n"), std::string::npos);
}

// A backend on storage that does not say how large a folder's files are until it is told to.
class HidingBackend : public PeftBackend {
 public:
  using PeftBackend::PeftBackend;
  int64_t BytesToFetch(const std::string& path) const override {
    if (path.find("hangs") != std::string::npos) answers.acquire();
    return PeftBackend::BytesToFetch(path);
  }
  mutable std::counting_semaphore<> answers{0};
};

TEST_P(PagedLoaderTest, AFolderThatHidesItsSizeHoldsUpNobodyElse) {
  const std::string hangs = Folder("hangs", kAll, 1);
  const std::string good = Folder("good", kSome, 2);
  HidingBackend backend(model_, TypesOf(DType::kF32), store_);
  UseLoader(backend, {.threads = 2, .threads_more = 0, .slow_ns = kLongNs, .give_up_ns = kLongNs});
  loader_->Fetch({0, hangs, "", hangs});
  for (int32_t content = 1; content < 5; ++content) {
    EXPECT_TRUE(Fetch(content, good).status.ok());
    loader_->Drop(content);
  }
  backend.answers.release();
  EXPECT_EQ(ExpectFetched(), 0);
  loader_->Drop(0);
  // It is given up, too, and then read like any other once the storage has answered.
  UseLoader(backend, LimitsOf(2, 0, kLongNs, 1'000'000'000));
  EXPECT_THAT(Fetch(0, hangs).status.message(), HasSubstr("does not answer"));
  EXPECT_NE(metrics_.Render().find("graft_adapter_fetches_hanging 1"), std::string::npos);
  EXPECT_THAT(Fetch(0, hangs).status.message(), HasSubstr("still cannot be read"));
  backend.answers.release(1000);
  while (!Fetch(0, hangs).status.ok()) {
  }
  EXPECT_NE(metrics_.Render().find("graft_adapter_fetches_hanging 0"), std::string::npos);
  loader_.reset();
}

// Storage that hangs takes memory from others only until it is slow.
TEST_P(PagedLoaderTest, AFolderThatHangsTakesNobodysMemory) {
  const std::string hangs = Folder("hangs", kAll, 1);
  const std::string good = Folder("good", kSome, 2);
  HangingBackend backend(model_, TypesOf(DType::kF32), store_);
  FetchLimits limits = LimitsOf(2, 1, 1'000'000, kLongNs);
  limits.bytes_max = 1;
  UseLoader(backend, limits);
  loader_->Fetch({0, hangs, "", "hangs"});
  loader_->Fetch({1, good, "", "good"});
  EXPECT_EQ(ExpectFetched(), 1);
  backend.answers.release();
  EXPECT_EQ(ExpectFetched(), 0);
  loader_.reset();
}

// Nor does one that waited for memory before it hung.
TEST_P(PagedLoaderTest, FoldersThatHangOneAfterTheOtherTakeNobodysMemory) {
  const std::string first = Folder("hangs first", kAll, 1);
  const std::string second = Folder("hangs second", kAll, 2);
  const std::string good = Folder("good", kSome, 3);
  HangingBackend backend(model_, TypesOf(DType::kF32), store_);
  FetchLimits limits = LimitsOf(3, 2, 20'000'000, kLongNs);
  limits.bytes_max = 1;
  UseLoader(backend, limits);
  loader_->Fetch({0, first, "", first});
  loader_->Fetch({1, second, "", second});
  loader_->Fetch({2, good, "", good});
  EXPECT_EQ(ExpectFetched(), 2);
  backend.answers.release(2);
  ExpectFetched();
  ExpectFetched();
  loader_.reset();
}

// What is fetched for later is bounded, too: the rest is read again for its copy.
TEST_P(PagedLoaderTest, WhatIsFetchedIsHeldWithinBounds) {
  HostStore none(0, metrics_);
  PeftBackend backend(model_, TypesOf(DType::kF32), none);
  for (const bool by_bytes : {false, true}) {
    FetchLimits limits;
    limits.bytes_max = by_bytes ? 1 : int64_t{1} << 30;
    limits.held_max = by_bytes ? 100 : 1;
    UseLoader(backend, limits);
    for (int32_t content = 0; content < 2; ++content) {
      const std::string path = Folder(std::to_string(content), kSome, content + 1);
      const LoadEvent fetched = Fetch(content, path);
      ASSERT_EQ(fetched.status.ToString(), "OK");
      PackedRows pages = *packer_->Pack(fetched.facts.rows);
      if (content == 0) continue;
      EXPECT_FALSE(loader_->Copy({{1, path, fetched.facts.hash, ""}, 2, pages.extents()}));
      EXPECT_EQ(Next().status.ToString(), "OK");
      ExpectServes(2, kSome, 2);
      EXPECT_TRUE(loader_->Copy({{0, dir_.File("0"), "", ""}, 1, pages.extents()})) << "it is held";
      EXPECT_EQ(Next().status.ToString(), "OK");
      ExpectServes(1, kSome, 1);
    }
    loader_.reset();
  }
}

// Outside the store its memory is taken until its copy has ended.
TEST_P(PagedLoaderTest, WhatIsCopiedCounts) {
  const std::string path = Folder("a", kSome, 1);
  HostStore none(0, metrics_);
  PeftBackend backend(model_, TypesOf(DType::kF32), none);
  std::counting_semaphore<> allowed(0);
  for (const bool is_held : {false, true}) {
    UseLoader(backend);
    loader_->SetBeforeLayer([&](AdapterSlot, int32_t) { allowed.acquire(); });
    const AdapterFacts facts = backend.Read(path).value();
    const auto fetch_bytes = [&] {
      const std::string all = metrics_.Render();
      const std::string name = "\ngraft_adapter_fetch_bytes ";
      return std::stoll(all.substr(all.find(name) + name.size()));
    };
    if (is_held) Fetch(0, path);
    const PackedRows pages = *packer_->Pack(facts.rows);
    EXPECT_EQ(loader_->Copy({{0, path, facts.hash, ""}, 2, pages.extents()}), is_held);
    while (loader_->is_reading()) std::this_thread::yield();
    EXPECT_EQ(fetch_bytes(), loader_->arrivals().Find(2)->adapter().weight_bytes);
    allowed.release(model_.num_layers);
    EXPECT_EQ(Next().status.ToString(), "OK");
    EXPECT_EQ(fetch_bytes(), 0);
    loader_.reset();
  }
}

// Nor once it is given up, where there was no further thread for one that is slow.
TEST_P(PagedLoaderTest, WhatIsGivenUpTakesNobodysMemory) {
  const std::string hangs = Folder("hangs", kAll, 1);
  const std::string good = Folder("good", kSome, 2);
  HangingBackend backend(model_, TypesOf(DType::kF32), store_);
  FetchLimits limits = LimitsOf(2, 0, kLongNs, 1'000'000'000);
  limits.bytes_max = 1;
  UseLoader(backend, limits);
  loader_->Fetch({0, hangs, "", "hangs"});
  EXPECT_EQ(Next().status.code(), StatusCode::kUnavailable);
  EXPECT_NE(metrics_.Render().find("graft_adapter_fetches_hanging 1"), std::string::npos);
  // On a busy machine it may be given up itself, and is ordered again.
  Fetch(1, good);
  for (int tries = 0; tries < 20 && backend.num_good == 0; ++tries) Fetch(1, good);
  EXPECT_GT(backend.num_good, 0) << "it was read while the other one hangs";
  backend.answers.release();
  loader_.reset();
}

TEST_P(PagedLoaderTest, WakesTheEngine) {
  std::atomic<int> num_wakes = 0;
  loader_->SetWaker([&] { ++num_wakes; });
  const std::string path = Folder("a", kAll, 1);
  for (int32_t content = 0; content < 5; ++content) loader_->Fetch({content, path, "", ""});
  size_t num_events = 0;
  while (num_events < 5) {
    loader_->WaitForEvent();
    num_events += loader_->TakeEvents().size();
  }
  EXPECT_EQ(num_wakes, 5);
  loader_->WaitForEvent();  // returns at once, because nothing is under way
}

class FusedPagedLoaderTest : public PagedLoaderTest {
 protected:
  FusedPagedLoaderTest() : PagedLoaderTest(testing::FusedOddModel()) {}
};

// Modules of a stacked projection find the rows of A that they share, in whichever page these are.
TEST_P(FusedPagedLoaderTest, FillsPagesWithSharedRows) {
  const std::string path = Folder("a", kAll, 1);
  const LoadEvent fetched = Fetch(0, path);
  ASSERT_TRUE(fetched.status.ok()) << fetched.status.ToString();
  const PackedRows pages = Place(0, 2, path, fetched.facts);
  EXPECT_GT(pages.extents().size(), 10u);
  ExpectServes(2, kAll, 1);
  const auto table = Download<LoraMatrix>(
      loras_->matrices(1, LoraModule::kQ) + 2 * loras_->matrices_stride(), kLoraModules);
  EXPECT_EQ(Download<const void*>(table[0].a_rows, 6), Download<const void*>(table[2].a_rows, 6));
}

INSTANTIATE_TEST_SUITE_P(Devices, FusedPagedLoaderTest,
                         ::testing::Values(DeviceKind::kCpu, DeviceKind::kCuda),
                         [](const auto& info) {
                           return info.param == DeviceKind::kCpu ? "cpu" : "cuda";
                         });

INSTANTIATE_TEST_SUITE_P(Devices, PagedLoaderTest,
                         ::testing::Values(DeviceKind::kCpu, DeviceKind::kCuda),
                         [](const auto& info) {
                           return info.param == DeviceKind::kCpu ? "cpu" : "cuda";
                         });

}  // namespace
}  // namespace graft
