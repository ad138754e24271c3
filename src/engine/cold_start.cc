#include "engine/cold_start.h"

namespace graft {

Result<ColdStart> ParseColdStart(const std::string& text) {
  if (text == "blocking") return ColdStart::kBlocking;
  if (text == "join-later") return ColdStart::kJoinLater;
  if (text == "layerwise") return ColdStart::kLayerwise;
  if (text == "cpu-assist") return ColdStart::kCpuAssist;
  if (text == "auto") return ColdStart::kAuto;
  if (text == "cached") return ColdStart::kCached;
  return InvalidArgumentError("unknown cold start '" + text +
                              "'; use blocking, join-later, layerwise, cpu-assist, auto or cached");
}

}  // namespace graft
