#include "cache/content_sum.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <tuple>

#include "base/sha256.h"

namespace graft {
namespace {

const std::string& NameOf(const AdapterPart& part) {
  return part.hash.empty() ? part.key : part.hash;
}

}  // namespace

void SortParts(std::vector<AdapterPart>* parts) {
  std::sort(parts->begin(), parts->end(), [](const AdapterPart& a, const AdapterPart& b) {
    return std::tie(NameOf(a), a.weight) < std::tie(NameOf(b), b.weight);
  });
}

std::string ContentSumHash(std::span<const AdapterPart> parts) {
  Sha256 hash;
  hash.Update("graft: a weighted sum of adapters, 1\n");
  for (const AdapterPart& part : parts) {
    uint32_t weight = 0;
    std::memcpy(&weight, &part.weight, sizeof(weight));
    hash.Update(NameOf(part) + " " + std::to_string(weight) + "\n");
  }
  return hash.HexDigest();
}

}  // namespace graft
