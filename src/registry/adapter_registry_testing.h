// AdapterRegistrySuite: tests of the promises of every AdapterRegistry. A test program includes
// this once and instantiates the suite with functions that make an empty registry. One thread; two
// threads in the tests of races.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "registry/adapter_registry.h"

namespace graft {
namespace registry_suite {

inline AdapterInfo Entry(const std::string& name, const std::string& hash) {
  return {.name = name,
          .hash = hash,
          .path = "/a/" + name,
          .base_model = "base",
          .rank_max = 16,
          .num_virtual_tokens = static_cast<int32_t>(hash.size() % 2),
          .bytes = int64_t{5} << 32,
          .tenant = "t",
          .loaded_at = 1700000000};
}

}  // namespace registry_suite

using MakeRegistry = std::function<std::unique_ptr<AdapterRegistry>()>;

class AdapterRegistrySuite : public testing::TestWithParam<MakeRegistry> {
 protected:
  void SetUp() override { registry_ = GetParam()(); }

  std::unique_ptr<AdapterRegistry> registry_;
};

TEST_P(AdapterRegistrySuite, KeepsReplacesAndRemoves) {
  using registry_suite::Entry;
  const AdapterInfo quoted = Entry("it's; DROP TABLE adapter; --", "h1");
  EXPECT_TRUE(registry_->Put(quoted, true).ok());
  EXPECT_TRUE(registry_->Put(Entry("a", "h2"), true).ok());
  EXPECT_TRUE(registry_->Put(Entry("a", "h3"), true).ok());
  EXPECT_TRUE(registry_->Put(Entry("a/b", "h3"), true).ok());
  EXPECT_EQ(*registry_->List(),
            (std::vector<AdapterInfo>{Entry("a", "h3"), Entry("a/b", "h3"), quoted}));
  EXPECT_TRUE(registry_->Remove(quoted.name).ok());
  EXPECT_EQ(registry_->Remove(quoted.name).code(), StatusCode::kNotFound);
  EXPECT_TRUE(registry_->Remove("a").ok());
  EXPECT_EQ(*registry_->List(), std::vector<AdapterInfo>{Entry("a/b", "h3")});
}

TEST_P(AdapterRegistrySuite, ANameIsTakenOnceUnlessItIsToBeReplaced) {
  using registry_suite::Entry;
  EXPECT_TRUE(registry_->Put(Entry("a", "h1"), false).ok());
  const Status taken = registry_->Put(Entry("a", "h2"), false);
  EXPECT_EQ(taken.code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(taken.message(), testing::HasSubstr("'a' has other content (h1)"));
  AdapterInfo again = Entry("a", "h1");
  again.tenant = "another";
  EXPECT_TRUE(registry_->Put(again, false).ok());
  EXPECT_EQ(*registry_->List(), std::vector<AdapterInfo>{again});
}

TEST_P(AdapterRegistrySuite, OfTwoThatRaceForANameOneWins) {
  using registry_suite::Entry;
  constexpr int kNames = 8;
  std::vector<Status> ours(kNames), theirs(kNames);
  const auto race = [&](const std::string& hash, std::vector<Status>* results) {
    for (int i = 0; i < kNames; ++i) {
      (*results)[i] = registry_->Put(Entry("n" + std::to_string(i), hash), false);
    }
  };
  std::thread thread([&] { race("theirs", &theirs); });
  race("ours", &ours);
  thread.join();
  const std::vector<AdapterInfo> entries = *registry_->List();
  ASSERT_EQ(entries.size(), size_t{kNames});
  for (int i = 0; i < kNames; ++i) {
    const bool we_won = entries[i].hash == "ours";
    EXPECT_EQ(ours[i].ok(), we_won);
    EXPECT_EQ(theirs[i].ok(), !we_won);
    EXPECT_EQ((we_won ? theirs : ours)[i].code(), StatusCode::kAlreadyExists);
  }
}

}  // namespace graft
