#include "http/work_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <mutex>
#include <optional>
#include <string>

namespace graft {
namespace {

constexpr int64_t kShort = 1 << 10;
constexpr int64_t kLong = int64_t{4} << 20;

// Records the order in which work was run. To be read after `queue` has ended.
class Record {
 public:
  std::function<void()> Of(const std::string& name) {
    return [this, name] {
      const std::lock_guard lock(mutex_);
      order_ += name;
    };
  }
  std::string order() const { return order_; }

 private:
  std::mutex mutex_;
  std::string order_;
};

// Keeps a queue's only thread busy until it is opened.
class Gate {
 public:
  explicit Gate(WorkQueue& queue) {
    queue.Run(0, kShort, [this] {
      reached_.count_down();
      open_.wait();
    });
    reached_.wait();
  }
  void Open() { open_.count_down(); }

 private:
  std::latch reached_{1};
  std::latch open_{1};
};

TEST(WorkQueueTest, WhoAsksForLittleDoesNotWaitBehindWhoAsksForMuch) {
  Record record;
  {
    std::optional<WorkQueue> queue(1);
    Gate gate(*queue);
    for (int i = 0; i < 4; ++i) queue->Run(1, kLong, record.Of("L"));
    queue->Run(2, kShort, record.Of("s"));
    queue->Run(3, kShort, record.Of("s"));
    gate.Open();
    queue.reset();
  }
  EXPECT_EQ(record.order(), "ssLLLL");
}

TEST(WorkQueueTest, OwnersTakeTurns) {
  Record record;
  {
    std::optional<WorkQueue> queue(1);
    Gate gate(*queue);
    for (int i = 0; i < 3; ++i) queue->Run(1, kShort, record.Of("a"));
    for (int i = 0; i < 3; ++i) queue->Run(2, kShort, record.Of("b"));
    gate.Open();
    queue.reset();
  }
  EXPECT_EQ(record.order(), "ababab");
}

// Long work has its turn in the end, however much short work keeps coming.
TEST(WorkQueueTest, NobodyIsPassedOverForEver) {
  std::string order;
  {
    std::optional<WorkQueue> queue(1);
    Gate gate(*queue);
    queue->Run(1, kLong, [&] { order += "L"; });
    // Each piece of work adds the next one for another owner, so that there is always a short one
    // more.
    std::function<void(uint64_t)> chain = [&](uint64_t owner) {
      order += "s";
      if (owner < 4000) queue->Run(owner + 1, kShort, [&, owner] { chain(owner + 1); });
    };
    queue->Run(2, kShort, [&] { chain(2); });
    gate.Open();
    while (true) {
      std::latch looked(1);
      bool is_over = false;
      queue->Run(1'000'000, kShort, [&] {
        is_over = order.size() >= 4000;
        looked.count_down();
      });
      looked.wait();
      if (is_over) break;
    }
    queue.reset();
  }
  const size_t at = order.find('L');
  ASSERT_NE(at, std::string::npos);
  EXPECT_LT(at, 3000u) << "behind all of the little work";
}

TEST(WorkQueueTest, OneThreadIsKeptForShortWork) {
  std::latch end(1), began(1), served(1);
  std::atomic<int> num_long = 0;
  WorkQueue queue(2);
  for (const uint64_t owner : {1, 2, 3}) {
    queue.Run(owner, kLong, [&] {
      if (++num_long == 1) began.count_down();
      end.wait();
    });
  }
  began.wait();
  queue.Run(4, kShort, [&] { served.count_down(); });
  served.wait();  // would wait for ever if long work had both threads
  EXPECT_EQ(num_long, 1);
  end.count_down();
}

}  // namespace
}  // namespace graft
