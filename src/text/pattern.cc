#include "text/pattern.h"

#include <algorithm>
#include <functional>

namespace graft {
namespace {

constexpr size_t kReplacedBytesMax = size_t{512} << 20;

void FindPlain(std::string_view text, std::string_view wanted, std::vector<TextRange>* matches) {
  matches->clear();
  for (size_t pos = text.find(wanted); pos != std::string_view::npos;
       pos = text.find(wanted, pos + wanted.size())) {
    matches->push_back({pos, pos + wanted.size()});
  }
}

// The cuts in their order, of which one that `joins` becomes a part of the range before it.
template <typename Joins>
void MergeWithPrevious(const std::vector<TextCut>& cuts, Joins joins,
                       std::vector<TextRange>* ranges) {
  bool previous_match = false;
  for (const TextCut& cut : cuts) {
    if (joins(cut.is_match, previous_match) && !ranges->empty()) {
      ranges->back().end = cut.end;
    } else {
      ranges->push_back({cut.begin, cut.end});
    }
    previous_match = cut.is_match;
  }
}

void MergeWithNext(const std::vector<TextCut>& cuts, std::vector<TextRange>* ranges) {
  bool next_match = false;
  for (auto cut = cuts.rbegin(); cut != cuts.rend(); ++cut) {
    if (cut->is_match && !next_match && !ranges->empty()) {
      ranges->back().begin = cut->begin;
    } else {
      ranges->push_back({cut->begin, cut->end});
    }
    next_match = cut->is_match;
  }
  std::reverse(ranges->begin(), ranges->end());
}

}  // namespace

Result<SplitBehavior> ParseSplitBehavior(const std::string& name) {
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return InvalidArgumentError("split behavior '" + name + "' does not exist");
}

void JoinCuts(const std::vector<TextCut>& cuts, SplitBehavior behavior,
              std::vector<TextRange>* ranges) {
  ranges->clear();
  switch (behavior) {
    case SplitBehavior::kRemoved:
    case SplitBehavior::kIsolated:
      for (const TextCut& cut : cuts) {
        const bool kept = !cut.is_match || behavior == SplitBehavior::kIsolated;
        if (kept) ranges->push_back({cut.begin, cut.end});
      }
      return;
    case SplitBehavior::kMergedWithPrevious:
      return MergeWithPrevious(
          cuts, [](bool match, bool previous) { return match && !previous; }, ranges);
    case SplitBehavior::kMergedWithNext:
      return MergeWithNext(cuts, ranges);
    case SplitBehavior::kContiguous:
      return MergeWithPrevious(cuts, std::equal_to<bool>(), ranges);
  }
}

Result<Pattern> Pattern::Parse(const Json& json) {
  if (json.is_string()) return OfString(json.get<std::string>());
  if (json.is_object() && json.size() == 1 && json.begin()->is_string()) {
    const std::string text = json.begin()->get<std::string>();
    if (json.begin().key() == "String") return OfString(text);
    if (json.begin().key() == "Regex") {
      Pattern pattern;
      ASSIGN_OR_RETURN(pattern.regex_, Regex::Compile(text));
      return pattern;
    }
  }
  return InvalidArgumentError("pattern must be {\"String\": ...} or {\"Regex\": ...}, not " +
                              DumpJson(json).substr(0, 100));
}

Pattern Pattern::OfString(std::string text) {
  Pattern pattern;
  pattern.plain_ = std::move(text);
  return pattern;
}

Status Pattern::FindAll(std::string_view text, std::vector<TextRange>* matches) const {
  if (regex_.has_value()) return regex_->FindAll(text, matches);
  matches->clear();
  if (!plain_->empty()) FindPlain(text, *plain_, matches);
  return OkStatus();
}

Status Pattern::Cut(std::string_view text, std::vector<TextCut>* cuts) const {
  std::vector<TextRange> matches;
  RETURN_IF_ERROR(FindAll(text, &matches));
  cuts->clear();
  size_t done = 0;
  for (const TextRange& match : matches) {
    if (done != match.begin) cuts->push_back({done, match.begin, false});
    cuts->push_back({match.begin, match.end, true});
    done = match.end;
  }
  if (done != text.size()) cuts->push_back({done, text.size(), false});
  return OkStatus();
}

Result<std::string> Pattern::ReplaceAll(std::string_view text, std::string_view content) const {
  std::vector<TextRange> matches;
  RETURN_IF_ERROR(FindAll(text, &matches));
  const size_t bytes_max = text.size() + matches.size() * content.size();
  if (bytes_max > kReplacedBytesMax) {
    return ResourceExhaustedError("replacing makes a text of " + std::to_string(bytes_max) +
                                  " bytes, the limit is " + std::to_string(kReplacedBytesMax));
  }
  std::string replaced;
  replaced.reserve(text.size());
  size_t done = 0;
  for (const TextRange& match : matches) {
    replaced.append(text.substr(done, match.begin - done)).append(content);
    done = match.end;
  }
  replaced.append(text.substr(done));
  return replaced;
}

}  // namespace graft
