// What happens to requests while their adapter loads. The tokens are the same in
// every way, but for the rounding of what a CPU computes beside a GPU.
#pragma once

#include <cstdint>

namespace graft {

enum class ColdStart : uint8_t {
  kBlocking,   // the steps stop: what peers do, to compare with
  kJoinLater,  // the steps go on, the request joins when its adapter is there (Punica, section 5.2)
  kLayerwise,  // the request begins at once; its steps wait before each layer for the layer's rows
  kAuto,       // per request join-later, layerwise or cpu-assist: the least waiting for all
  kCpuAssist,  // as kLayerwise, but where rows are missing the CPU computes (CaraServe, section 4)
  kCached,     // everything is made resident before the first step, and stays
};
// Whether requests begin before their adapter is there; how its rows come about is the executor's.
inline bool BeginsEarly(ColdStart cold_start) {
  return cold_start == ColdStart::kLayerwise || cold_start == ColdStart::kCpuAssist;
}
// How many adapters are copied side by side, layer by layer in turns. If steps wait for single
// layers, several copies begin at once: a few of them together are as fast as a step that walks
// through the layers. If only a copy's end counts, one copy after the other finishes the first one
// sooner.
inline int32_t CopiesAtOnce(ColdStart cold_start) {
  return BeginsEarly(cold_start) || cold_start == ColdStart::kAuto ? 3 : 1;
}

}  // namespace graft
