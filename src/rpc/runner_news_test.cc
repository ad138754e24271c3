#include "rpc/runner_news.h"

#include <gtest/gtest.h>

#include <cstring>

namespace graft {
namespace {

TEST(RunnerFiguresProtoTest, CarriesEveryField) {
  static_assert(sizeof(RunnerFigures) % sizeof(int64_t) == 0);
  int64_t numbers[sizeof(RunnerFigures) / sizeof(int64_t)];
  for (size_t i = 0; i < std::size(numbers); ++i) numbers[i] = static_cast<int64_t>(i) + 1;
  RunnerFigures figures;
  std::memcpy(&figures, numbers, sizeof(figures));
  rpc::RunnerFigures proto;
  ASSERT_TRUE(proto.ParseFromString(ToProto(figures).SerializeAsString()));
  EXPECT_EQ(FromProto(proto), figures);
  EXPECT_EQ(FromProto(rpc::RunnerFigures()), RunnerFigures())
      << "a runner of the version before tells none";
}

}  // namespace
}  // namespace graft
