#include "document/page_lines.h"

#include <algorithm>
#include <utility>

#include "document/plain_characters.h"
#include "text/utf8.h"

namespace graft {
namespace {

bool IsPageSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f'; }

}  // namespace

void PageLines::AddSpace(char c, bool is_preformatted) {
  if (is_preformatted) {
    text_ += c;
  } else if (!text_.empty() && !IsPageSpace(text_.back())) {
    text_ += ' ';
  }
}

void PageLines::Add(std::string_view text, bool is_preformatted) {
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    const char32_t character = NextCodePoint(text, &pos);
    std::string_view plain = text.substr(begin, pos - begin);
    PlainForm(character, &plain);
    if (plain.size() == 1 && IsPageSpace(plain.front())) {
      AddSpace(plain.front(), is_preformatted);
    } else {
      text_ += plain;
    }
  }
}

int PageLines::NumEnds() {
  int num = 0;
  for (size_t i = text_.size(); i > 0 && num < 2 && text_[i - 1] == '\n'; --i) ++num;
  looks_ += num;
  return num;
}

void PageLines::Begin(int num_ends) {
  for (; !text_.empty() && text_.back() == ' '; ++looks_) text_.pop_back();
  if (text_.empty()) return;
  for (int there = NumEnds(); there < num_ends; ++there) text_ += '\n';
}

void PageLines::Break() { Begin(std::min(NumEnds() + 1, 2)); }

std::string PageLines::Take() { return std::move(text_); }

}  // namespace graft
