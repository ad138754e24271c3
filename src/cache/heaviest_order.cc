#include "cache/heaviest_order.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace graft {
namespace {

// A number's exponent and its three leading bits, which is eight buckets an octave.
constexpr int kStepBits = 3;
constexpr int kMantissaBits = 52;
constexpr int32_t kExponentOfOne = 1023;

}  // namespace

int32_t HeaviestOrder::BucketOf(double held) {
  if (!(held >= 1.0)) return 0;
  const uint64_t bits = std::bit_cast<uint64_t>(held);
  const auto step = static_cast<int32_t>(bits >> (kMantissaBits - kStepBits));
  return std::min(1 + step - (kExponentOfOne << kStepBits), kFirstBucket - 1);
}

void HeaviestOrder::SetFilled(int32_t bucket, bool is_filled) {
  uint64_t& word = filled_[static_cast<size_t>(bucket / kWordBits)];
  const uint64_t bit = uint64_t{1} << (bucket % kWordBits);
  word = is_filled ? word | bit : word & ~bit;
}

void HeaviestOrder::Put(int32_t party, int32_t bucket) {
  CHECK(party >= 0 && bucket >= 0 && bucket < kNumBuckets) << bucket;
  if (static_cast<size_t>(party) >= nodes_.size()) nodes_.resize(static_cast<size_t>(party) + 1);
  if (at(party).bucket == bucket) return;
  Remove(party);
  Ends& ends = ends_[static_cast<size_t>(bucket)];
  at(party) = {.before = ends.last, .after = -1, .bucket = bucket};
  (ends.last < 0 ? ends.first : at(ends.last).after) = party;
  ends.last = party;
  SetFilled(bucket, true);
}

void HeaviestOrder::Remove(int32_t party) {
  if (!Has(party)) return;
  Node& node = at(party);
  Ends& ends = ends_[static_cast<size_t>(node.bucket)];
  (node.before < 0 ? ends.first : at(node.before).after) = node.after;
  (node.after < 0 ? ends.last : at(node.after).before) = node.before;
  if (ends.first < 0) SetFilled(node.bucket, false);
  node = Node();
}

int32_t HeaviestOrder::FirstBucket() const {
  for (auto word = static_cast<int32_t>(filled_.size()) - 1; word >= 0; --word) {
    const uint64_t bits = filled_[static_cast<size_t>(word)];
    if (bits != 0) return word * kWordBits + std::bit_width(bits) - 1;
  }
  return -1;
}

}  // namespace graft
