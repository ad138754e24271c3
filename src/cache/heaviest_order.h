// Parties (tenants, by number) ordered by how much they hold, heaviest first. The order is
// approximate: there are eight buckets for each doubling, so amounts in one bucket differ by an
// eighth at most. Within a bucket, first in is first out. Every change is O(1). It allocates only
// for a number larger than all before. One thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace graft {

class HeaviestOrder {
 public:
  // The bucket of what a party holds for its weight. kFirstBucket comes before all of these.
  static int32_t BucketOf(double held);
  static constexpr int32_t kNumBuckets = 512;
  static constexpr int32_t kFirstBucket = kNumBuckets - 1;

  // The party lies in this bucket from now on; where it lay there already, it keeps its place.
  void Put(int32_t party, int32_t bucket);
  // Does nothing if the party is not there.
  void Remove(int32_t party);
  // -1: there is no party.
  int32_t First() const {
    const int32_t bucket = FirstBucket();
    return bucket < 0 ? -1 : ends_[static_cast<size_t>(bucket)].first;
  }
  // The bucket of the first party; -1: there is none.
  int32_t FirstBucket() const;
  bool Has(int32_t party) const {
    return static_cast<size_t>(party) < nodes_.size() && at(party).bucket >= 0;
  }

 private:
  struct Node {
    int32_t before = -1;
    int32_t after = -1;
    int32_t bucket = -1;  // -1: not there
  };
  struct Ends {
    int32_t first = -1;
    int32_t last = -1;
  };
  static constexpr int32_t kWordBits = 64;

  const Node& at(int32_t party) const { return nodes_[static_cast<size_t>(party)]; }
  Node& at(int32_t party) { return nodes_[static_cast<size_t>(party)]; }
  void SetFilled(int32_t bucket, bool is_filled);

  std::vector<Node> nodes_;  // by party
  std::array<Ends, kNumBuckets> ends_;
  std::array<uint64_t, kNumBuckets / kWordBits> filled_ = {};  // a bit for each bucket
};

}  // namespace graft
