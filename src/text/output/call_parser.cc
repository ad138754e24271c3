#include "text/output/call_parser.h"

#include <utility>

namespace graft {

CallParser::CallParser(std::vector<CallOpener> openers, Output output)
    : openers_(std::move(openers)), output_(std::move(output)) {}

void CallParser::Push(char c) {
  if (reader_ != nullptr) {
    PushToReader(c);
  } else {
    PushText(c);
  }
}

void CallParser::PushText(char c) {
  held_ += c;
  size_t begin = 0;
  const auto held = [&] { return std::string_view(held_).substr(begin); };
  while (!held().empty()) {
    bool begins_mark = false;
    for (const CallOpener& opener : openers_) {
      begins_mark = begins_mark || opener.mark.starts_with(held());
      if (opener.mark != held()) continue;
      raw_ = held();
      held_.clear();
      is_control_ = opener.is_control;
      reader_ = opener.make();
      return;
    }
    if (begins_mark) break;
    output_.text(held().substr(0, 1));
    ++begin;
  }
  held_.erase(0, begin);
}

bool CallParser::TakeParts() {
  bool completed = false;
  for (OutputPart& part : std::exchange(parts_, {})) {
    completed = completed || part.kind == OutputPart::Kind::kCallEnd;
    output_.call(std::move(part));
  }
  return completed;
}

void CallParser::PushToReader(char c) {
  const CallReader::Step step = reader_->Push(c, &writer_);
  const bool completed = TakeParts();
  if (completed) raw_.clear();
  switch (step) {
    case CallReader::Step::kMore:
      if (!completed) raw_ += c;
      return;
    case CallReader::Step::kDone:
      return CloseReader();
    case CallReader::Step::kNoCall:
      GiveRaw(/*at_end=*/false);
      CloseReader();
      return Push(c);
    case CallReader::Step::kEndedBefore: {
      const std::string again = std::exchange(raw_, {}) + c;
      CloseReader();
      for (const char raw : again) Push(raw);
      return;
    }
  }
}

void CallParser::GiveRaw(bool at_end) {
  // Half a call that the length cut off is nothing to read, unless no mark says what it is.
  if (writer_.is_open()) {
    output_.call({OutputPart::Kind::kCallDropped, at_end && is_control_ ? "" : raw_});
  } else {
    output_.text(raw_);
  }
  writer_.Drop();
}

void CallParser::CloseReader() {
  raw_.clear();
  reader_.reset();
}

void CallParser::Finish() {
  if (reader_ != nullptr) {
    const bool is_read = reader_->Finish(&writer_);
    TakeParts();
    if (!is_read) GiveRaw(/*at_end=*/true);
    CloseReader();
  }
  output_.text(std::exchange(held_, {}));
}

}  // namespace graft
