#include "document/html_text.h"

#include <lexbor/html/tokenizer.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "document/html_tags.h"
#include "document/open_elements.h"
#include "document/plain_characters.h"
#include "text/utf8.h"

namespace graft {
namespace {

// lexbor looks names up in tables that never grow: what walks through them is bounded by how much
// it is given at once, and by forgetting names in between.
constexpr size_t kPieceBytes = 1024;
constexpr size_t kNamesMax = 64;
constexpr size_t kPiecesPerQuestion = 64;
// Custom elements of more names than that count as one.
constexpr size_t kCustomNamesMax = 4096;

struct TokenizerDeleter {
  void operator()(lxb_html_tokenizer_t* tokenizer) const { lxb_html_tokenizer_destroy(tokenizer); }
};
using TokenizerPtr = std::unique_ptr<lxb_html_tokenizer_t, TokenizerDeleter>;

std::string_view View(const lxb_char_t* bytes, size_t size) {
  return bytes == nullptr ? std::string_view()
                          : std::string_view(reinterpret_cast<const char*>(bytes), size);
}

bool EqualsNoCase(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(), [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == b;
  });
}

constexpr std::string_view kHtmlBlanks = " \t\n\r\f";

// Whether display:none is what an attribute `style` says at last.
bool StyleHides(std::string_view style) {
  bool hides = false;
  bool is_important = false;
  while (!style.empty()) {
    const size_t end = std::min(style.find(';'), style.size());
    const std::string_view declaration = style.substr(0, end);
    style.remove_prefix(std::min(end + 1, style.size()));
    const size_t colon = declaration.find(':');
    if (colon == std::string_view::npos) continue;
    if (!EqualsNoCase(Trimmed(declaration.substr(0, colon), kHtmlBlanks), "display")) continue;
    const std::string_view value = declaration.substr(colon + 1);
    const size_t mark = value.find('!');
    if (is_important && mark == std::string_view::npos) continue;
    is_important = mark != std::string_view::npos;
    hides = EqualsNoCase(Trimmed(value.substr(0, mark), kHtmlBlanks), "none");
  }
  return hides;
}

// The first of equal attributes counts. aria-hidden hides from screen readers alone: an inline
// element with it is an icon mostly, and no text, but a block may be the whole page, saved while a
// dialog was open over it. Dialogs that are not open, and popovers, wait for a click.
bool AttributesHide(const lxb_html_token_t& token, HtmlTag tag) {
  const bool is_inline = (HtmlTagMarks(tag) & (html_tag::kBlock | html_tag::kCell)) == 0;
  bool is_closed = tag == LXB_TAG_DIALOG;
  bool has_style = false;
  bool has_aria = false;
  for (const auto* attribute = token.attr_first; attribute != nullptr;
       attribute = attribute->next) {
    if (attribute->name == nullptr) continue;
    const lexbor_hash_entry_t& entry = attribute->name->entry;
    const std::string_view name = View(lexbor_hash_entry_str(&entry), entry.length);
    const std::string_view value = View(attribute->value, attribute->value_size);
    if (name == "hidden" || name == "popover") return true;
    if (name == "open") is_closed = false;
    if (name == "style" && !std::exchange(has_style, true) && StyleHides(value)) return true;
    if (name == "aria-hidden" && !std::exchange(has_aria, true) && is_inline &&
        EqualsNoCase(value, "true")) {
      return true;
    }
  }
  return is_closed;
}

// CDATA sections, which XHTML has, as the text that they are.
std::string WithoutCdata(std::string_view html) {
  constexpr std::string_view kBegin = "<![CDATA[";
  constexpr std::string_view kEnd = "]]>";
  std::string result;
  result.reserve(html.size());
  while (!html.empty()) {
    const size_t begin = std::min(html.find(kBegin), html.size());
    result += html.substr(0, begin);
    html.remove_prefix(begin);
    if (html.empty()) break;
    html.remove_prefix(kBegin.size());
    const size_t end = std::min(html.find(kEnd), html.size());
    for (const char c : html.substr(0, end)) {
      if (c == '<') {
        result += "&lt;";
      } else if (c == '&') {
        result += "&amp;";
      } else {
        result += c;
      }
    }
    html.remove_prefix(std::min(end + kEnd.size(), html.size()));
  }
  return result;
}

// PageLines: a page's text as it grows: lines, blank ones, and one space where a page has many. One
// thread.
class PageLines {
 public:
  // Valid UTF-8. In preformatted text white space stays; elsewhere it is one space.
  void Add(std::string_view text, bool is_preformatted);
  // Ends the line if there is one, so that `num_ends` line ends stand there: 1, or 2 with a blank
  // line.
  void Begin(int num_ends);
  // One more line end, but no second blank line.
  void Break();

  std::string Take();
  // How many characters were looked at again.
  int64_t looks() const { return looks_; }

 private:
  void AddSpace(char c, bool is_preformatted);
  // Line ends at the end, 2 at most.
  int NumEnds();

  std::string text_;
  int64_t looks_ = 0;
};

bool IsPageSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f'; }

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

class PageReader {
 public:
  PageReader(std::string_view html, HtmlSyntax syntax) : html_(html), syntax_(syntax) {}

  Status Read(const std::function<bool()>& is_wanted) {
    if (!Begin()) return NoMemory();
    size_t num_pieces = 0;
    for (size_t at = 0; at < html_.size(); at += kPieceBytes) {
      if (++num_pieces % kPiecesPerQuestion == 0 && is_wanted && !is_wanted()) {
        return Status(StatusCode::kCancelled, "the page's text is not wanted any more");
      }
      const std::string_view piece = html_.substr(at, kPieceBytes);
      if (lxb_html_tokenizer_chunk(tokenizer_.get(),
                                   reinterpret_cast<const lxb_char_t*>(piece.data()),
                                   piece.size()) != LXB_STATUS_OK) {
        return NoMemory();
      }
      RETURN_IF_ERROR(Check());
    }
    return lxb_html_tokenizer_end(tokenizer_.get()) == LXB_STATUS_OK ? OkStatus() : NoMemory();
  }

  std::string TakeText() { return lines_.Take(); }
  HtmlWork work() const {
    HtmlWork work = work_;
    work.elements = open_.moves();
    work.looks = lines_.looks();
    return work;
  }

 private:
  static Status NoMemory() { return ResourceExhaustedError("no memory is left for the page"); }

  bool Begin() {
    tokenizer_.reset(lxb_html_tokenizer_create());
    if (tokenizer_ == nullptr || lxb_html_tokenizer_init(tokenizer_.get()) != LXB_STATUS_OK) {
      return false;
    }
    // Parse errors are not collected. The first of equal attributes counts, which this file sees
    // to: lexbor would compare each with all before it.
    tokenizer_->parse_errors = lexbor_array_obj_destroy(tokenizer_->parse_errors, true);
    lxb_html_tokenizer_keep_duplicate_set(tokenizer_.get(), true);
    lxb_html_tokenizer_callback_token_done_set(tokenizer_.get(), OnToken, this);
    // Room for the longest token there may be, so that it is not copied as it grows; a reference
    // may be a little longer than it is written. The system gives what is used of it.
    return lxb_html_tokenizer_temp_realloc(tokenizer_.get(), 2 * html_.size()) == LXB_STATUS_OK &&
           lxb_html_tokenizer_begin(tokenizer_.get()) == LXB_STATUS_OK;
  }

  // Between pieces: what the token that is being read holds, and what names within scripts leave.
  Status Check() {
    NoteNames();
    if (lexbor_dobject_allocated(tokenizer_->dobj_token_attr) > kHtmlAttributesMax) {
      return InvalidArgumentError("a tag of the page has more than " +
                                  std::to_string(kHtmlAttributesMax) + " attributes");
    }
    const bool is_named = tokenizer_->token->tag_id >= LXB_TAG__LAST_ENTRY;
    if (is_raw_ || !is_named) ForgetNames(tokenizer_->tags);
    return OkStatus();
  }

  void NoteNames() {
    const size_t names =
        lexbor_hash_entries_count(tokenizer_->tags) + lexbor_hash_entries_count(tokenizer_->attrs);
    work_.names_max = std::max(work_.names_max, static_cast<int64_t>(names));
  }

  static void ForgetNames(lexbor_hash_t* names) {
    if (lexbor_hash_entries_count(names) > kNamesMax) lexbor_hash_clean(names);
  }

  // Null ends the reading.
  static lxb_html_token_t* OnToken(lxb_html_tokenizer_t* tokenizer, lxb_html_token_t* token,
                                   void* reader) {
    auto* const self = static_cast<PageReader*>(reader);
    try {
      self->ReadToken(*token);
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
    // The token's names and attributes are done with.
    self->NoteNames();
    ForgetNames(tokenizer->tags);
    if (token->attr_first == nullptr) return token;
    ForgetNames(tokenizer->attrs);
    lexbor_dobject_clean(tokenizer->dobj_token_attr);
    lexbor_mraw_clean(tokenizer->mraw);
    return token;
  }

  void ReadToken(const lxb_html_token_t& token) {
    ++work_.tokens;
    if (token.tag_id == LXB_TAG__TEXT) {
      ReadText(View(token.text_start, static_cast<size_t>(token.text_end - token.text_start)));
    } else if (token.tag_id >= LXB_TAG__BEGIN) {
      is_raw_ = false;
      const HtmlTag tag = TagOf(token.tag_id);
      if ((token.type & LXB_HTML_TOKEN_TYPE_CLOSE) != 0) {
        ReadEnd(tag);
      } else {
        ReadBegin(tag, token);
      }
    }
  }

  HtmlTag TagOf(lxb_tag_id_t id) {
    if (id < LXB_TAG__LAST_ENTRY) return static_cast<HtmlTag>(id);
    size_t size = 0;
    const lxb_char_t* const name = lxb_tag_name_by_id(id, &size);
    const auto found = custom_names_.find(View(name, size));
    if (found != custom_names_.end()) return found->second;
    const auto tag = static_cast<HtmlTag>(kCustomTag + custom_names_.size());
    if (custom_names_.size() < kCustomNamesMax) custom_names_.emplace(View(name, size), tag);
    return tag;
  }

  void ReadText(std::string_view text) {
    if (skips_line_end_ && text.starts_with('\n')) text.remove_prefix(1);
    skips_line_end_ = false;
    if (!open_.is_hidden()) lines_.Add(text, open_.is_preformatted());
  }

  void ReadBegin(HtmlTag tag, const lxb_html_token_t& token) {
    const uint32_t marks = HtmlTagMarks(tag);
    const bool is_foreign = open_.is_foreign() && (marks & html_tag::kEndsForeign) == 0;
    const bool closes_itself =
        (token.type & LXB_HTML_TOKEN_TYPE_CLOSE_SELF) != 0 &&
        (syntax_ == HtmlSyntax::kXhtml || is_foreign || (marks & html_tag::kForeign) != 0);
    bool hides = (marks & html_tag::kLeftOut) != 0 || AttributesHide(token, tag);
    if (tag == LXB_TAG_TITLE && !is_foreign) hides |= std::exchange(has_title_, true);
    const bool is_void = (marks & html_tag::kVoid) != 0 && !is_foreign;
    if (!is_void) open_.Open(tag, hides);
    if (!open_.is_hidden() && !(is_void && hides)) ShowTag(tag, marks);
    skips_line_end_ = tag == LXB_TAG_PRE || tag == LXB_TAG_LISTING || tag == LXB_TAG_TEXTAREA;
    if (is_void) return;
    if (closes_itself) {
      open_.Close(tag);
    } else if (!is_foreign) {
      ReadRaw(tag, marks);
    }
  }

  // Elements in which no tag but their own end is one.
  void ReadRaw(HtmlTag tag, uint32_t marks) {
    const bool is_hidden_text = (marks & html_tag::kLeftOut) != 0 && tag != LXB_TAG_NOSCRIPT;
    if (syntax_ == HtmlSyntax::kXhtml && !is_hidden_text) return;
    const lxb_html_tokenizer_state_f before = tokenizer_->state;
    lxb_html_tokenizer_set_state_by_tag(tokenizer_.get(), true, tag, LXB_NS_HTML);
    is_raw_ = tokenizer_->state != before;
  }

  void ReadEnd(HtmlTag tag) {
    const uint32_t marks = HtmlTagMarks(tag);
    if (tag == LXB_TAG_BR) {  // </br> is <br>
      if (!open_.is_hidden() && syntax_ == HtmlSyntax::kHtml) lines_.Break();
    } else if (open_.Close(tag) && !open_.is_hidden()) {
      ShowTag(tag, marks);
    }
  }

  void ShowTag(HtmlTag tag, uint32_t marks) {
    if (tag == LXB_TAG_BR) {
      lines_.Break();
    } else if ((marks & html_tag::kCell) != 0) {
      lines_.Add(" ", false);
    } else if ((marks & html_tag::kBlock) != 0) {
      lines_.Begin((marks & html_tag::kParagraph) != 0 ? 2 : 1);
    }
  }

  const std::string_view html_;
  const HtmlSyntax syntax_;
  TokenizerPtr tokenizer_;
  OpenElements open_;
  PageLines lines_;
  std::map<std::string, HtmlTag, std::less<>> custom_names_;
  bool is_raw_ = false;  // within an element in which no tag but its own end is one
  bool skips_line_end_ = false;
  bool has_title_ = false;
  HtmlWork work_;
};

}  // namespace

Result<std::string> HtmlText(std::string_view html, HtmlSyntax syntax,
                             const std::function<bool()>& is_wanted, HtmlWork* work) {
  std::string without_cdata;
  if (syntax == HtmlSyntax::kXhtml) {
    without_cdata = WithoutCdata(html);
    html = without_cdata;
  }
  PageReader reader(html, syntax);
  RETURN_IF_ERROR(reader.Read(is_wanted));
  if (work != nullptr) *work = reader.work();
  return reader.TakeText();
}

}  // namespace graft
