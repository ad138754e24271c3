#include "cli/placement_options.h"

#include <string>
#include <utility>

#include "base/strings.h"

namespace graft {
namespace {

std::vector<std::string> PlacementWords() {
  std::vector<std::string> words;
  for (const PlacementName& one : kPlacementNames) words.emplace_back(one.name);
  return words;
}

}  // namespace

OptionTarget OnePlacement(PlacementKind& kind) {
  return ChosenWord(PlacementWords(), NameOf(kind),
                    [&kind](size_t i) { kind = kPlacementNames[i].kind; });
}

OptionTarget SomePlacements(std::vector<PlacementKind>& kinds) {
  const auto name_of = [](PlacementKind kind) { return NameOf(kind); };
  return ChosenWords(PlacementWords(), Joined(kinds, ",", name_of),
                     [&kinds](const std::vector<size_t>& chosen) {
                       kinds.clear();
                       for (const size_t i : chosen) kinds.push_back(kPlacementNames[i].kind);
                     });
}

Option BatchShareOptionRow(double& batch_share) {
  return Tuned({"batch-share", Number(batch_share, Above(0)),
                "of a runner's batch that requests are meant to fill, for the number of runners "
                "wanted"});
}

}  // namespace graft
