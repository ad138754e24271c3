// Where the bytes of a rendering's texts come from: the template, or outside of it (messages, tools
// and the rest of the context), which is not trusted to spell special tokens. A text's origin is
// told by where it lies in memory: any view of a message's text is untrusted, however it was cut
// out. Only who makes a new text says what it is made of. One thread per rendering.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "text/text_range.h"

namespace graft::jinja {

class Origins {
 public:
  // All of `text` is untrusted; it stays in place.
  void Mark(std::string_view text);
  // These bytes of it are.
  void Mark(std::string_view text, TextRanges ranges);

  // Appends the untrusted ranges of `text`, moved by `offset`, to `ranges`.
  void Collect(std::string_view text, size_t offset, TextRanges* ranges) const;
  bool IsUntrusted(std::string_view text) const;  // any byte of it

 private:
  struct Area {
    size_t size = 0;
    TextRanges ranges;
  };
  std::map<const char*, Area> areas_;  // by where they begin; they do not overlap
};

// Builds a text of pieces that keep their origins.
class TextBuilder {
 public:
  explicit TextBuilder(const Origins* origins) : origins_(origins) {}

  // A piece that lies where its origin is known by: in the template, the context or the heap.
  void Append(std::string_view piece) {
    origins_->Collect(piece, text_.size(), &untrusted_);
    text_ += piece;
  }
  // A piece of the template's or of nobody's: digits, white space to fill up with.
  void AppendTrusted(std::string_view piece) { text_ += piece; }
  void MarkAll() {
    untrusted_.clear();
    AppendRange({0, text_.size()}, &untrusted_);
  }
  void Reserve(size_t bytes) { text_.reserve(bytes); }

  size_t size() const { return text_.size(); }
  std::string TakeText() { return std::move(text_); }
  TextRanges TakeUntrusted() { return std::move(untrusted_); }

 private:
  const Origins* origins_;
  std::string text_;
  TextRanges untrusted_;
};

}  // namespace graft::jinja
