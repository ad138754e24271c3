#include "runtime/read_ahead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <semaphore>
#include <thread>

#include "adapters/adapter_test_util.h"
#include "base/unwanted_work.h"

namespace graft {
namespace {

using ::testing::ElementsAre;
using testing::OddModel;
using testing::Peft;

class ReadAheadTest : public ::testing::Test {
 protected:
  ReadAhead::Folder Folder(const std::string& name, const std::string& hash = "") {
    const std::string path = dir_.File(name);
    testing::WriteAdapter(path, testing::PeftJson(kLarge),
                          testing::SafetensorsBytes(
                              testing::LoraTestTensors(Peft(kLarge), model_, "F32", folders_++)));
    return {.path = path, .hash = hash, .key = "key " + name};
  }
  // Runs until the last of what is expected was told.
  std::vector<std::string> Read(PeftBackend& backend, const std::vector<ReadAhead::Folder>& folders,
                                size_t num_told) {
    std::vector<std::string> told;
    std::counting_semaphore<> tells(0);
    const ReadAhead ahead(
        backend, folders, [] { return false; },
        [&](const std::string& key, const AdapterFacts& facts) {
          told.push_back(key);
          EXPECT_EQ(facts.hash.size(), 64u);
          tells.release();
        });
    for (size_t i = 0; i < num_told; ++i) tells.acquire();
    return told;
  }

  static constexpr char kLarge[] = R"("target_modules": "all-linear", "r": 64)";
  const ModelConfig model_ = OddModel();
  const testing::TempDir dir_;
  Metrics metrics_;
  uint64_t folders_ = 1;
  HostStore store_{int64_t{8} << 20, metrics_};
  PeftBackend backend_{model_, TypesOf(DType::kF32), store_};
};

TEST_F(ReadAheadTest, ReadsWhatIsListed) {
  const ReadAhead::Folder broken = {.path = dir_.File("nowhere"), .hash = "", .key = "key broken"};
  const std::vector<std::string> told =
      Read(backend_, {Folder("a"), broken, Folder("b"), Folder("c")}, 3);
  EXPECT_THAT(told, ElementsAre("key a", "key b", "key c"));
  EXPECT_EQ(store_.num_adapters(), 3);
}

// The store stays as it is: nothing is evicted for what no request has asked for.
TEST_F(ReadAheadTest, EndsWhereTheStoreHasNoRoom) {
  HostStore small(int64_t{1} << 20, metrics_);
  PeftBackend backend(model_, TypesOf(DType::kF32), small);
  std::vector<ReadAhead::Folder> folders;
  for (int i = 0; i < 40; ++i) folders.push_back(Folder("a" + std::to_string(i)));
  const std::string first = *backend.Hash(folders[0].path);
  std::atomic<size_t> num_told = 0;
  const ReadAhead ahead(
      backend, folders, [] { return false; },
      [&](const std::string&, const AdapterFacts&) { ++num_told; });
  while (!ahead.is_done()) std::this_thread::yield();
  EXPECT_TRUE(small.Has(first));
  EXPECT_LT(num_told, 40u);
  EXPECT_EQ(small.num_adapters(), static_cast<int32_t>(num_told) - 1);
}

TEST_F(ReadAheadTest, WaitsWhileRequestsRead) {
  std::atomic<bool> is_busy = true;
  std::counting_semaphore<> asked(0);
  std::counting_semaphore<> told(0);
  const ReadAhead ahead(
      backend_, {Folder("a")},
      [&] {
        asked.release();
        return is_busy.load();
      },
      [&](const std::string&, const AdapterFacts&) { told.release(); });
  asked.acquire();
  asked.acquire();
  EXPECT_EQ(store_.num_adapters(), 0);
  is_busy = false;
  told.acquire();
  EXPECT_EQ(store_.num_adapters(), 1);
}

// In the middle of a folder, too: here before its weights are read, while the end waits for it.
TEST_F(ReadAheadTest, GivesUpTheFolderThatIsRead) {
  std::counting_semaphore<> begun(0);
  AdapterTextHooks hooks;
  hooks.check_vocabulary = [&](const ReadBesideAdapter&) {
    begun.release();
    while (!WorkIsUnwanted()) std::this_thread::yield();
    return OkStatus();
  };
  PeftBackend backend(model_, TypesOf(DType::kF32), store_, {}, {}, hooks);
  std::vector<ReadAhead::Folder> folders = {Folder("a"), Folder("b")};
  for (const ReadAhead::Folder& folder : folders) {
    testing::WriteFile(folder.path + "/tokenizer.json", "{}");
  }
  {
    const ReadAhead ahead(
        backend, folders, [] { return false; },
        [](const std::string&, const AdapterFacts&) { FAIL() << "it was given up"; });
    begun.acquire();
  }
  EXPECT_EQ(store_.num_adapters(), 0);
  EXPECT_FALSE(begun.try_acquire()) << "a further one was begun";
}

TEST_F(ReadAheadTest, EndsWhenItIsTold) {
  const ReadAhead ahead(
      backend_, {Folder("a")}, [] { return true; },
      [](const std::string&, const AdapterFacts&) { FAIL() << "it was busy"; });
}

}  // namespace
}  // namespace graft
