#include "text/stop_matcher.h"

#include <algorithm>
#include <utility>

#include "text/string_search.h"
#include "text/tokenizer.h"

namespace graft {

StopStrings::StopStrings(const std::vector<std::string>& stops) {
  for (const std::string& stop : stops) {
    if (!stop.empty()) stops_.push_back({stop, PrefixFunction(stop), {}});
  }
}

StopStrings::StopStrings(const std::vector<std::string>& stops, const Tokenizer& tokenizer)
    : StopStrings(stops) {
  for (Stop& stop : stops_) {
    const auto tokens = tokenizer.Encode(stop.text, /*add_special_tokens=*/false);
    if (!tokens.ok()) continue;  // no token's text is what no text can be
    for (const int32_t token : *tokens) {
      if (tokenizer.IsSpecial(token)) stop.special_tokens.push_back(token);
    }
  }
}

bool StopStrings::Spells(int32_t token) const {
  return std::any_of(stops_.begin(), stops_.end(), [token](const Stop& stop) {
    const std::vector<int32_t>& tokens = stop.special_tokens;
    return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
  });
}

StopMatcher::StopMatcher(std::shared_ptr<const StopStrings> stops, bool include_stop_text)
    : stops_(std::move(stops)), include_stop_text_(include_stop_text) {
  if (stops_ != nullptr) states_.resize(stops_->stops().size());
}

bool StopMatcher::Step(size_t stop_idx, char byte) {
  const StopStrings::Stop& stop = stops_->stops()[stop_idx];
  State& state = states_[stop_idx];
  ++state.num_seen;
  const auto stop_at = [&stop](size_t i) { return stop.text[i]; };
  state.num_matched = NextMatched(state.num_matched, byte, stop_at, stop.prefixes, &num_compared_);
  return state.num_matched == stop.text.size();
}

int64_t StopMatcher::VisibleBytes(size_t stop_idx) {
  State& state = states_[stop_idx];
  const int64_t begin = state.num_seen - state.num_matched;
  std::erase_if(state.specials,
                [begin](const Special& special) { return special.begin + special.size <= begin; });
  int64_t bytes = state.num_matched;
  for (const Special& special : state.specials) {
    const int64_t end = std::min(special.begin + special.size, state.num_seen);
    bytes -= end - std::max(special.begin, begin);
  }
  return bytes;
}

StopMatcher::Output StopMatcher::Stop(const std::vector<size_t>& complete) {
  const auto size_of = [this](size_t i) { return stops_->stops()[i].text.size(); };
  const size_t longest =
      *std::max_element(complete.begin(), complete.end(),
                        [&](size_t a, size_t b) { return size_of(a) < size_of(b); });
  stopped_ = true;
  std::string text = std::exchange(held_, {});
  text.resize(text.size() - static_cast<size_t>(VisibleBytes(longest)));
  if (include_stop_text_) text += stops_->stops()[longest].text;
  return {std::move(text), true};
}

std::string StopMatcher::Release() {
  int64_t num_held = 0;
  for (size_t i = 0; i < states_.size(); ++i) num_held = std::max(num_held, VisibleBytes(i));
  const size_t num_released = held_.size() - static_cast<size_t>(num_held);
  std::string text = held_.substr(0, num_released);
  held_.erase(0, num_released);
  return text;
}

StopMatcher::Output StopMatcher::Push(std::string_view text) {
  if (stopped_) return {"", true};
  if (states_.empty()) return {std::string(text), false};
  std::vector<size_t> complete;
  for (const char byte : text) {
    held_ += byte;
    for (size_t i = 0; i < states_.size(); ++i) {
      if (Step(i, byte)) complete.push_back(i);
    }
    if (!complete.empty()) return Stop(complete);
  }
  return {Release(), false};
}

StopMatcher::Output StopMatcher::PushSpecial(int32_t token, std::string_view token_text) {
  if (stopped_) return {"", true};
  std::vector<size_t> seeing;
  for (size_t i = 0; i < states_.size(); ++i) {
    const std::vector<int32_t>& spelled = stops_->stops()[i].special_tokens;
    if (std::find(spelled.begin(), spelled.end(), token) == spelled.end()) continue;
    states_[i].specials.push_back({states_[i].num_seen, static_cast<int64_t>(token_text.size())});
    seeing.push_back(i);
  }
  std::vector<size_t> complete;
  for (const char byte : token_text) {
    for (const size_t i : seeing) {
      if (Step(i, byte)) complete.push_back(i);
    }
    if (!complete.empty()) return Stop(complete);
  }
  return {Release(), false};
}

std::string StopMatcher::Flush() { return std::exchange(held_, {}); }

}  // namespace graft
