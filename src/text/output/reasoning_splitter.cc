#include "text/output/reasoning_splitter.h"

#include <algorithm>
#include <utility>

#include "text/output/json_scanner.h"

namespace graft {

std::string_view ReasoningOpeningMark(ReasoningFormat format) {
  if (format == ReasoningFormat::kNone) return "";
  return format == ReasoningFormat::kThink ? "<think>" : "[THINK]";
}

std::string_view ReasoningClosingMark(ReasoningFormat format) {
  if (format == ReasoningFormat::kNone) return "";
  return format == ReasoningFormat::kThink ? "</think>" : "[/THINK]";
}

ReasoningSplitter::ReasoningSplitter(ReasoningFormat format, bool is_open, Take take)
    : format_(format),
      open_(ReasoningOpeningMark(format)),
      close_(ReasoningClosingMark(format)),
      take_(std::move(take)),
      state_(format == ReasoningFormat::kNone ? State::kText
             : is_open                        ? State::kOpened
                                              : State::kStart) {}

void ReasoningSplitter::Push(char c) {
  switch (state_) {
    case State::kStart:
    case State::kOpened:
      return PushStart(c);
    case State::kInside:
      return PushInside(c);
    case State::kText:
      return PushText(c);
  }
}

// White space before the opening mark is dropped with it.
void ReasoningSplitter::PushStart(char c) {
  if (num_blanks_ == held_.size() && IsJsonSpace(c)) ++num_blanks_;
  held_ += c;
  const std::string_view text = std::string_view(held_).substr(num_blanks_);
  if (text == open_) {
    state_ = State::kInside;
    held_.clear();
  } else if (!open_.starts_with(text)) {
    state_ = state_ == State::kOpened ? State::kInside : State::kText;
    for (const char held : std::exchange(held_, {})) Push(held);
  }
}

void ReasoningSplitter::PushInside(char c) {
  held_ += c;
  Release(/*is_reasoning=*/true, {close_});
  if (held_ != close_) return;
  state_ = State::kText;
  held_.clear();
}

void ReasoningSplitter::PushText(char c) {
  // <think> is a model's word for its start alone: behind it may be text about such marks.
  if (format_ != ReasoningFormat::kMistral) return take_(false, c);
  held_ += c;
  Release(/*is_reasoning=*/false, {open_, close_});
  if (held_ == open_) state_ = State::kInside;
  if (held_ == open_ || held_ == close_) held_.clear();
}

void ReasoningSplitter::Release(bool is_reasoning, std::initializer_list<std::string_view> marks) {
  size_t begin = 0;
  const auto begins_mark = [&](std::string_view mark) {
    return mark.starts_with(std::string_view(held_).substr(begin));
  };
  while (std::none_of(marks.begin(), marks.end(), begins_mark)) take_(is_reasoning, held_[begin++]);
  held_.erase(0, begin);
}

void ReasoningSplitter::GiveHeld(bool is_reasoning) {
  for (const char c : std::exchange(held_, {})) take_(is_reasoning, c);
}

void ReasoningSplitter::Finish() { GiveHeld(is_inside()); }

}  // namespace graft
