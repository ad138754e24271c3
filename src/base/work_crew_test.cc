#include "base/work_crew.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <optional>
#include <semaphore>
#include <set>
#include <thread>

#include "base/out_of_memory.h"
#include "base/unwanted_work.h"

namespace graft {
namespace {

TEST(WorkCrewTest, EveryPieceIsDoneOnceInOrder) {
  for (const int num_cores : {0, 1, 4}) {
    SCOPED_TRACE(num_cores);
    const auto crew = num_cores == 0 ? nullptr : std::make_unique<WorkCrew>(num_cores);
    for (const int64_t num_pieces : {0, 1, 7, 1000}) {
      std::vector<std::atomic<int>> done(static_cast<size_t>(num_pieces));
      std::atomic<int64_t> last_begun = -1;
      WorkCrew::Batch batch(crew.get(), num_pieces, [&](int64_t piece) {
        if (num_cores < 2) {
          EXPECT_EQ(last_begun.exchange(piece), piece - 1);
        }
        ++done[static_cast<size_t>(piece)];
      });
      batch.Wait();
      batch.Wait();  // changes nothing
      for (const std::atomic<int>& times : done) EXPECT_EQ(times, 1);
    }
  }
}

TEST(WorkCrewTest, HelpersWorkBesideTheCaller) {
  WorkCrew crew(3);
  std::counting_semaphore<> begun(0);
  std::counting_semaphore<> allowed(0);
  WorkCrew::Batch batch(&crew, 2, [&](int64_t) {
    begun.release();
    allowed.acquire();
  });
  begun.acquire();  // both run while the caller does nothing
  begun.acquire();
  allowed.release(2);
  batch.Wait();
}

// As many threads present as there are cores: each works alone.
TEST(WorkCrewTest, HelpersLeaveTheCoresOfThosePresentAlone) {
  WorkCrew crew(2);
  const std::thread::id caller = std::this_thread::get_id();
  const WorkCrew::Presence here(&crew);
  {
    const WorkCrew::Presence another(&crew);
    WorkCrew::Batch batch(&crew, 50,
                          [&](int64_t) { EXPECT_EQ(std::this_thread::get_id(), caller); });
    batch.Wait();
  }
  // One of the two has left, so that its core helps.
  std::counting_semaphore<> begun(0);
  WorkCrew::Batch batch(&crew, 1, [&](int64_t) { begun.release(); });
  begun.acquire();
  batch.Wait();
}

TEST(WorkCrewTest, APieceMayWaitForThoseOfAnotherBatch) {
  for (const int num_cores : {1, 2, 4}) {
    WorkCrew crew(num_cores);
    std::vector<std::atomic<bool>> is_read(100);
    WorkCrew::Batch reading(&crew, 100,
                            [&](int64_t piece) { is_read[static_cast<size_t>(piece)] = true; });
    int64_t num_hashed = 0;
    WorkCrew::Batch hashing(&crew, 1, [&](int64_t) {
      for (int64_t i = 0; i < 100; ++i) {
        reading.WaitFor(i);
        num_hashed += is_read[static_cast<size_t>(i)];
      }
    });
    reading.Wait();
    hashing.Wait();
    EXPECT_EQ(num_hashed, 100);
  }
}

// Reads that never end, in as many batches as there are, take half of the helpers.
TEST(WorkCrewTest, StorageThatHangsLeavesHelpersToThoseThatCompute) {
  constexpr int kCores = 3;
  WorkCrew crew(kCores, /*long_wait_ns=*/0);
  std::counting_semaphore<> begun(0);
  std::counting_semaphore<> answers(0);
  const auto hangs = [&](int64_t) {
    begun.release();
    answers.acquire();
  };
  std::optional<WorkCrew::Batch> read(std::in_place, &crew, 10, hangs, WorkCrew::Pieces::kRead);
  std::optional<WorkCrew::Batch> more(std::in_place, &crew, 10, hangs, WorkCrew::Pieces::kRead);
  std::optional<WorkCrew::Batch> hash(
      std::in_place, &crew, 1, [&](int64_t) { read->WaitFor(9); }, WorkCrew::Pieces::kFollow);
  for (int i = 0; i < kCores - 1; ++i) begun.acquire();
  // What computes has the others, one for each core, while its own thread does nothing.
  std::counting_semaphore<> computes(0);
  std::counting_semaphore<> computed(0);
  WorkCrew::Batch batch(&crew, kCores - 1, [&](int64_t) {
    computes.release();
    computed.acquire();
  });
  for (int i = 0; i < kCores - 1; ++i) computes.acquire();
  EXPECT_FALSE(begun.try_acquire()) << "a third helper reads";
  computed.release(kCores - 1);
  batch.Wait();
  answers.release(20);
  hash.reset();
  more.reset();
  read.reset();
}

// Threads that wait for storage are present without a core.
TEST(WorkCrewTest, ThoseThatHangTakeNoCores) {
  WorkCrew crew(2, /*long_wait_ns=*/0);
  std::counting_semaphore<> begun(0);
  std::counting_semaphore<> answers(0);
  std::vector<std::thread> hanging;
  for (int i = 0; i < 4; ++i) {
    hanging.emplace_back([&] {
      const WorkCrew::Presence here(&crew);
      WorkCrew::Batch batch(
          &crew, 1,
          [&](int64_t) {
            begun.release();
            answers.acquire();
          },
          WorkCrew::Pieces::kRead);
      batch.Wait();
    });
  }
  for (int i = 0; i < 4; ++i) begun.acquire();
  const WorkCrew::Presence here(&crew);
  std::counting_semaphore<> helped(0);
  WorkCrew::Batch batch(&crew, 1, [&](int64_t) { helped.release(); });
  helped.acquire();  // while this thread does nothing
  batch.Wait();
  answers.release(4);
  for (std::thread& thread : hanging) thread.join();
}

// A wait that becomes long frees a core and wakes no helper. They see it all the same.
TEST(WorkCrewTest, ACoreThatALongWaitFreesIsFound) {
  WorkCrew crew(2, /*long_wait_ns=*/200'000'000);
  std::counting_semaphore<> helped(0);
  const auto help = [&](int64_t) { helped.release(); };
  {
    WorkCrew::Batch batch(&crew, 1, help);
    helped.acquire();  // helpers are there
    batch.Wait();
  }
  const WorkCrew::Presence here(&crew);
  std::counting_semaphore<> reads(0);
  std::counting_semaphore<> answers(0);
  std::thread another([&] {
    const WorkCrew::Presence there(&crew);
    WorkCrew::Batch batch(
        &crew, 1,
        [&](int64_t) {
          reads.release();
          answers.acquire();
        },
        WorkCrew::Pieces::kRead);
    batch.Wait();
  });
  reads.acquire();
  WorkCrew::Batch batch(&crew, 1, help);
  EXPECT_TRUE(helped.try_acquire_for(std::chrono::minutes(1))) << "while this thread does nothing";
  batch.Wait();
  answers.release();
  another.join();
}

TEST(WorkCrewTest, HelpersAskWhetherTheCallersWorkIsWanted) {
  for (const int num_cores : {1, 4}) {
    WorkCrew crew(num_cores);
    std::atomic<bool> is_unwanted = false;
    const WatchedWork watched(is_unwanted);
    std::atomic<int> num_unwanted = 0;
    WorkCrew::Batch batch(&crew, 100, [&](int64_t piece) {
      if (piece == 0) is_unwanted = true;
      while (!WorkIsUnwanted()) std::this_thread::yield();
      ++num_unwanted;
    });
    batch.Wait();
    EXPECT_EQ(num_unwanted, 100);
  }
}

TEST(WorkCrewTest, ABatchThatIsGivenUpBeginsNothingMore) {
  WorkCrew crew(2);
  std::atomic<int> num_begun = 0;
  std::counting_semaphore<> begun(0);
  std::counting_semaphore<> allowed(0);
  std::thread opener;
  {
    WorkCrew::Batch batch(&crew, 1000, [&](int64_t) {
      ++num_begun;
      begun.release();
      allowed.acquire();
    });
    begun.acquire();
    opener = std::thread([&] { allowed.release(); });
  }
  EXPECT_LE(num_begun, 2);
  allowed.release(2);
  opener.join();
}

TEST(WorkCrewTest, MemoryThatRunsOutIsTheCallersToHandle) {
  for (const int num_cores : {1, 4}) {
    WorkCrew crew(num_cores);
    WorkCrew::Batch batch(&crew, 100, [](int64_t piece) {
      if (piece == 5) ThrowOutOfMemory("no more");
    });
    EXPECT_THROW(batch.Wait(), OutOfMemory);
    EXPECT_THROW(batch.WaitFor(99), OutOfMemory);
  }
}

TEST(WorkCrewTest, ManyThreadsHandInBatches) {
  WorkCrew crew(4);
  std::vector<std::thread> threads;
  std::atomic<int64_t> sum = 0;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        const WorkCrew::Presence here(&crew);
        WorkCrew::Batch batch(&crew, 20, [&](int64_t piece) { sum += piece; });
        if (round % 3 == 0) batch.WaitFor(13);
        batch.Wait();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum, 6 * 50 * 190);
}

}  // namespace
}  // namespace graft
