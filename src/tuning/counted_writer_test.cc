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
    return std::vector<TaughtText>(orders.size(), text);
  }
  int32_t num_choices() const override { return 2; }
};

TEST(CountedWriterTest, TextsAreWrittenUpToWhatTheyMayTake) {
  LearnerDataSize size;
  size.Add(3, 0, 5, 10, 3);
  TenWriter writer;
  CountedWriter counted(writer, size.bytes);
  const std::vector<WriteOrder> orders = {{.prompt = std::vector<int32_t>(5)}};
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(counted.Write(orders).ok());
  const Status full = counted.Write(orders).status();
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(full.message().find("lower questions"), std::string::npos) << full.message();
}

}  // namespace
}  // namespace graft
