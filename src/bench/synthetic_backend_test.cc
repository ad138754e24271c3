#include "bench/synthetic_backend.h"

#include <gtest/gtest.h>

#include <cstring>

#include "adapters/adapter_test_util.h"

namespace graft {
namespace {

class SyntheticBackendTest : public ::testing::Test {
 protected:
  SyntheticFleet Fleet() const {
    return {.num_adapters = 1000,
            .ranks = {2, 5},
            .modules = {LoraModule::kQ, LoraModule::kV},
            .sources_per_rank = 3};
  }
  Result<std::unique_ptr<SyntheticBackend>> Create(HostStore& store) {
    return SyntheticBackend::Create(Fleet(), model_, TypesOf(DType::kBF16), threads_, store);
  }

  const ModelConfig model_ = testing::OddModel();
  ThreadPool threads_{1};
  Metrics metrics_;
};

std::string BytesOf(const HostAdapter& adapter) {
  std::string bytes;
  for (const HostAdapter::Stretch& stretch : adapter.stretches) {
    bytes.append(stretch.data, static_cast<size_t>(stretch.bytes));
  }
  return bytes;
}

TEST_F(SyntheticBackendTest, FewSourcesStandForManyAdapters) {
  HostStore store(SyntheticBackend::HostBytes(Fleet(), model_, DType::kBF16), metrics_);
  auto backend = Create(store);
  ASSERT_TRUE(backend.ok()) << backend.status().ToString();
  EXPECT_EQ(store.num_adapters(), 6);
  const auto fetch = [&](int32_t adapter) {
    return *(*backend)->Fetch("", SyntheticFleet::HashOf(adapter));
  };
  const HostStore::Held first = fetch(0);
  EXPECT_EQ(first->facts.hash, SyntheticFleet::HashOf(0));
  EXPECT_EQ(first->facts.rank_max, 2);
  EXPECT_EQ(fetch(1)->facts.rank_max, 5);
  const HostStore::Held same = fetch(6);
  EXPECT_EQ(same->facts.hash, SyntheticFleet::HashOf(6));
  EXPECT_EQ(BytesOf(*same), BytesOf(*first));
  EXPECT_EQ(same->stretches[0].data, first->stretches[0].data) << "no bytes of its own";
  EXPECT_NE(BytesOf(*fetch(2)), BytesOf(*first)) << "another source of the rank";
  EXPECT_EQ(static_cast<int64_t>(BytesOf(*first).size()), first->weight_bytes);
}

TEST_F(SyntheticBackendTest, KnowsItsOwnHashesAlone) {
  HostStore store(SyntheticBackend::HostBytes(Fleet(), model_, DType::kBF16), metrics_);
  const auto backend = Create(store);
  ASSERT_TRUE(backend.ok());
  EXPECT_TRUE((*backend)->Has(SyntheticFleet::HashOf(999)));
  EXPECT_FALSE((*backend)->Has(SyntheticFleet::HashOf(1000)));
  EXPECT_FALSE((*backend)->Has("source-0"));
  EXPECT_EQ((*backend)->Fetch("", "other").status().code(), StatusCode::kNotFound);
}

TEST_F(SyntheticBackendTest, SourcesThatDoNotFitAreAnError) {
  HostStore store(0, metrics_);
  EXPECT_EQ(Create(store).status().code(), StatusCode::kResourceExhausted);
}

TEST_F(SyntheticBackendTest, BytesAreThoseOfTheRows) {
  const int64_t rank_two = SyntheticBackend::BytesOf(model_, DType::kBF16, {LoraModule::kQ}, 2);
  const LoraModuleShape q = ShapeOfLoraModule(model_, LoraModule::kQ);
  EXPECT_EQ(rank_two, model_.num_layers * (q.in + q.out) * 2 * 2);
}

}  // namespace
}  // namespace graft
