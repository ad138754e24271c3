#include "text/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace graft {

StopMatcher::StopMatcher(std::vector<std::string> stops, bool include_stop_text)
    : stops_(std::move(stops)), include_stop_text_(include_stop_text) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
}

StopMatcher::Output StopMatcher::Push(std::string_view text) {
  if (stopped_) return {"", true};
  std::string all = std::exchange(held_, {}).append(text);
  size_t first = std::string::npos;
  size_t first_end = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t begin = all.find(stop);
    if (begin == std::string::npos) continue;
    const size_t end = begin + stop.size();
    if (end < first_end || (end == first_end && begin < first)) {
      first = begin;
      first_end = end;
    }
  }
  if (first != std::string::npos) {
    stopped_ = true;
    all.resize(include_stop_text_ ? first_end : first);
    return {std::move(all), true};
  }
  const size_t held_bytes = HeldBytes(all);
  held_ = all.substr(all.size() - held_bytes);
  all.resize(all.size() - held_bytes);
  return {std::move(all), false};
}

std::string StopMatcher::Flush() { return std::exchange(held_, {}); }

// The length of the longest end of `text` that a stop begins with.
size_t StopMatcher::HeldBytes(std::string_view text) const {
  size_t held = 0;
  for (const std::string& stop : stops_) {
    size_t bytes = std::min(stop.size() - 1, text.size());
    while (bytes > held && !text.ends_with(std::string_view(stop).substr(0, bytes))) --bytes;
    held = std::max(held, bytes);
  }
  return held;
}

}  // namespace graft
