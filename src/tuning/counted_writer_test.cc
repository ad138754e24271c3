#include "tuning/counted_writer.h"

#include <gtest/gtest.h>

#include <vector>

#include "learn/learner.h"

namespace graft {
namespace {

// Ten tokens of each order.
class TenWriter : public TextWriter {
 public:
  Result<std::vector<TaughtText>> Write(std::span<const WriteOrder> orders) override {
    const TaughtText text = {std::vector<int32_t>(10), std::vector<int32_t>(20),
                             std::vector<float>(20)};
    writes.push_back(orders.size());
    return std::vector<TaughtText>(orders.size(), text);
  }
  int32_t num_choices() const override { return 2; }
  size_t orders_at_once() const override { return 3; }

  std::vector<size_t> writes;
};

TEST(CountedWriterTest, TextsAreWrittenUpToWhatTheyMayTake) {
  LearnerDataSize size;
  size.Add(3, 0, 10, 3);
  TenWriter writer;
  CountedWriter counted(writer, size.bytes);
  const std::vector<WriteOrder> orders = {{.prompt = std::vector<int32_t>(5)}};
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(counted.Write(orders).ok());
  const Status full = counted.Write(orders).status();
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(full.message().find("lower questions"), std::string::npos) << full.message();
}

// If the orders may come to more than there is room for, only as many are written as fit, and at
// least as many as are written side by side.
TEST(CountedWriterTest, ALargeOrderIsWrittenInParts) {
  const std::vector<WriteOrder> orders(
      100, WriteOrder{.prompt = std::vector<int32_t>(5), .tokens_max = 40});
  LearnerDataSize size;
  size.Add(10, 0, 40, 3);
  TenWriter writer;
  CountedWriter counted(writer, size.bytes);
  EXPECT_EQ(counted.Write(orders).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(writer.writes.front(), 10u);
  size_t num_written = 0;
  LearnerDataSize of_text;
  of_text.Add(1, 0, 10, 3);
  for (const size_t count : writer.writes) num_written += count;
  EXPECT_LE(num_written, static_cast<size_t>(size.bytes / of_text.bytes) + 3);
  TenWriter all;
  EXPECT_EQ(CountedWriter(all, 10 * size.bytes).Write(orders)->size(), 100u);
  EXPECT_EQ(all.writes, std::vector<size_t>{100});
}

}  // namespace
}  // namespace graft
