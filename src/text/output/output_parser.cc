#include "text/output/output_parser.h"

#include <utility>

#include "text/output/json_scanner.h"

namespace graft {

OutputParser::OutputParser(std::shared_ptr<const OutputOptions> options)
    : options_(std::move(options)),
      calls_(options_->tools.empty() ? std::vector<CallOpener>()
                                     : OpenersOf(options_->tool_format, options_->tools),
             {.text =
                  [this](std::string_view text) {
                    AddText(OutputPart::Kind::kContent, text, &content_);
                  },
              .call = [this](OutputPart part) { AddCall(std::move(part)); }}),
      splitter_(options_->reasoning_format, options_->in_reasoning,
                [this](bool is_reasoning, char c) {
                  if (!is_reasoning) return calls_.Push(c);
                  AddText(OutputPart::Kind::kReasoning, {&c, 1}, &reasoning_);
                }) {}

void OutputParser::Push(std::string_view text, OutputParts* parts) {
  parts_ = parts;
  for (const char c : text) {
    // A call's strings may have any text, marks of reasoning among it.
    if (calls_.is_reading()) splitter_.Finish();
    if (calls_.is_reading()) {
      calls_.Push(c);
    } else {
      splitter_.Push(c);
    }
    had_reasoning_ = had_reasoning_ || splitter_.is_inside();
  }
  parts_ = nullptr;
}

void OutputParser::Finish(OutputParts* parts) {
  parts_ = parts;
  splitter_.Finish();
  calls_.Finish();
  // White space around marks is no content; where there are none it is the model's answer.
  const bool has_marks = had_reasoning_ || options_->in_reasoning || num_begun_ > 0;
  if (!has_marks) AppendPart(OutputPart::Kind::kContent, content_.blanks, parts_);
  parts_ = nullptr;
}

void OutputParser::AddText(OutputPart::Kind kind, std::string_view text, Channel* channel) {
  if (kind == OutputPart::Kind::kReasoning && options_->drops_reasoning) return;
  for (const char c : text) {
    if (IsJsonSpace(c)) {
      channel->blanks += c;
      continue;
    }
    const bool is_outer =
        !channel->has_text && (had_reasoning_ || options_->in_reasoning || num_begun_ > 0);
    const bool keeps_blanks = kind == OutputPart::Kind::kReasoning ? channel->has_text : !is_outer;
    if (keeps_blanks) AppendPart(kind, channel->blanks, parts_);
    channel->blanks.clear();
    channel->has_text = true;
    AppendPart(kind, {&c, 1}, parts_);
  }
}

void OutputParser::AddCall(OutputPart part) {
  using Kind = OutputPart::Kind;
  if (options_->has_one_call && num_calls_ > 0) return;
  if (part.kind == Kind::kCall) ++num_begun_;
  if (part.kind == Kind::kCallEnd) ++num_calls_;
  if (part.kind == Kind::kCallDropped) {
    part.text = std::exchange(content_.blanks, {}) + part.text;
    content_.has_text = content_.has_text || !part.text.empty();
  }
  if (part.kind == Kind::kArguments) {
    AppendPart(Kind::kArguments, part.text, parts_);
  } else {
    parts_->push_back(std::move(part));
  }
}

}  // namespace graft
