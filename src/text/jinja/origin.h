// Where the bytes of a rendering's texts come from: the template, or the context (messages, tools
// and so on), which is not trusted to spell special tokens. The address of a text tells its origin,
// so any view of a message's text is untrusted, however it was cut out. Only code that makes a new
// text has to say what it was made of. A handle that carries its OriginId saves the search by
// address. One thread per rendering.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "text/text_range.h"

namespace graft::jinja {

class Value;

// kByAddress, kOfTemplate, or what Origins::Mark gave, which holds for every part of that text.
using OriginId = uint32_t;
inline constexpr OriginId kByAddress = 0;   // not known: look where the text lies
inline constexpr OriginId kOfTemplate = 1;  // nothing of the text is untrusted

class Origins {
 public:
  // All of `text` is untrusted; the text stays in place.
  OriginId Mark(std::string_view text) { return Mark(text, {}); }
  // These bytes of the text are, or all where there are no ranges.
  OriginId Mark(std::string_view text, const TextRanges& ranges);

  // Appends the untrusted ranges of `text`, moved by `offset`, to `ranges`.
  void Collect(std::string_view text, OriginId origin, size_t offset, TextRanges* ranges) const;
  bool IsUntrusted(std::string_view text, OriginId origin = kByAddress) const;  // any byte of it

 private:
  static constexpr OriginId kAreasBegin = 2;

  struct Area {
    const char* begin;
    size_t size;
    // The part of ranges_ that is untrusted. Empty: all of the text is.
    size_t first_range;
    size_t num_ranges;
  };
  // The area that `text` lies in, or nullptr.
  const Area* Find(std::string_view text) const;

  std::vector<Area> areas_;  // by OriginId, less kAreasBegin; they do not overlap
  std::vector<TextRange> ranges_;
  // By where they begin, the first `num_by_address_` of them; the others enter at the next search.
  mutable std::map<const char*, size_t> by_address_;
  mutable size_t num_by_address_ = 0;
};

// Builds a text of pieces that keep their origins.
class TextBuilder {
 public:
  explicit TextBuilder(const Origins* origins) : origins_(origins) {}

  // A piece that shows its origin by its address: in the template, the context or the heap.
  void Append(std::string_view piece) { Append(piece, kByAddress); }
  // A string.
  inline void Append(const Value& piece);
  // A piece of the template's, or made here: digits, white space to fill up with.
  void AppendTrusted(std::string_view piece) { text_ += piece; }
  void MarkAll() {
    untrusted_.clear();
    AppendRange({0, text_.size()}, &untrusted_);
  }
  void Reserve(size_t bytes) { text_.reserve(bytes); }

  size_t size() const { return text_.size(); }
  std::string TakeText() { return std::move(text_); }
  const TextRanges& untrusted() const { return untrusted_; }
  TextRanges TakeUntrusted() { return std::move(untrusted_); }

 private:
  void Append(std::string_view piece, OriginId origin) {
    if (origin != kOfTemplate) origins_->Collect(piece, origin, text_.size(), &untrusted_);
    text_ += piece;
  }

  const Origins* origins_;
  std::string text_;
  TextRanges untrusted_;
};

}  // namespace graft::jinja
