#include "profile/load_generator.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

LoadRequest Of(const std::string& adapter) {
  LoadRequest request;
  request.adapter_hash = adapter;
  return request;
}

LoadTiming Between(double begin_ms, double first_token_ms, double total_ms) {
  LoadTiming timing;
  timing.begin_ms = begin_ms;
  timing.first_token_ms = first_token_ms;
  timing.total_ms = total_ms;
  timing.output_tokens = 2;
  return timing;
}

TEST(MeanConcurrencyTest, CountsRequestsAndAdaptersWhileTheyDecode) {
  // They decode, in ms: "a" from 10 to 30, "b" 20 to 40, "a" 20 to 30, and the base 50 to 60. "c"
  // never had a token.
  const std::vector<LoadRequest> requests = {Of("a"), Of("b"), Of("a"), Of(""), Of("c")};
  std::vector<LoadTiming> timings = {Between(0, 10, 30), Between(5, 15, 35), Between(20, 0, 10),
                                     Between(45, 5, 15), Between(0, 0, 60)};
  timings[4].output_tokens = 0;
  const Concurrency mean = MeanConcurrency(requests, timings);
  // 10 ms with one request, 10 with three, 10 with one, and 10 with one.
  EXPECT_DOUBLE_EQ(mean.requests, (10 * 1 + 10 * 3 + 10 * 1 + 10 * 1) / 40.0);
  EXPECT_DOUBLE_EQ(mean.adapters, (10 * 1 + 10 * 2 + 10 * 1 + 10 * 0) / 40.0);
}

TEST(MeanConcurrencyTest, OfNothingIsZero) {
  const Concurrency mean = MeanConcurrency({}, {});
  EXPECT_EQ(mean.requests, 0.0);
  EXPECT_EQ(mean.adapters, 0.0);
}

}  // namespace
}  // namespace graft
