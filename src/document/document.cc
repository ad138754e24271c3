#include "document/document.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <initializer_list>

#include "base/file.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/strings.h"
#include "base/unwanted_work.h"
#include "document/html_text.h"
#include "document/plain_characters.h"
#include "text/utf8.h"

namespace graft {
namespace {

// What starts files that are often meant as documents, and what is to be done about them.
struct Signature {
  std::string_view begins;
  std::string_view what;
};
constexpr Signature kSignatures[] = {
    {"PK\x03\x04", "an archive, as .docx, .odt and .epub are; save it as text, HTML or PDF"},
    {"\xD0\xCF\x11\xE0", "an old Office file; save it as text, HTML or PDF"},
    {"{\\rtf", "rich text (RTF); save it as text, HTML or PDF"},
    {"\x1F\x8B", "compressed; unpack it first"},
    {"%!PS", "PostScript; make a PDF of it"},
    {"\x89PNG", "an image"},
    {"\xFF\xD8\xFF", "an image"},
    {"\xFF\xFE", "UTF-16; save it as UTF-8"},
    {"\xFE\xFF", "UTF-16; save it as UTF-8"}};
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
// Shares of what came out of a file, white space aside: a text with more of them is of no use.
constexpr double kControlsMax = 0.05;  // no text has any
constexpr double kUnreadableMax = 0.3;

constexpr size_t kExampleBytesMax = size_t{1} << 20;  // of training data, of those that are known

enum class FileKind { kText, kHtml, kXhtml, kPdf };

bool EndsWithOneOf(std::string_view name, std::initializer_list<std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(),
                     [&](std::string_view ending) { return name.ends_with(ending); });
}

bool IsBlank(unsigned char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

std::string_view WithoutBlanksBefore(std::string_view text) {
  while (!text.empty() && IsBlank(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  return text;
}

// From the first tag on that is no declaration or comment: an XML file's root.
std::string_view FromFirstTag(std::string_view text) {
  for (;;) {
    text = WithoutBlanksBefore(text);
    const bool is_comment = text.starts_with("<!--");
    if (!is_comment && !text.starts_with("<?")) return text;
    const std::string_view end = is_comment ? "-->" : ">";
    const size_t at = text.find(end);
    if (at == std::string_view::npos) return {};
    text.remove_prefix(at + end.size());
  }
}

bool BeginsWithHtmlTag(std::string_view text) {
  const std::string start = LowerCase(FromFirstTag(text).substr(0, 16));
  if (start.starts_with("<!doctype html")) return true;
  constexpr std::string_view kTag = "<html";
  return start.starts_with(kTag) &&
         (start.size() == kTag.size() || std::isalnum(static_cast<unsigned char>(start[5])) == 0);
}

Status CheckIsText(std::string_view bytes) {
  for (const Signature& signature : kSignatures) {
    if (bytes.starts_with(signature.begins)) {
      return InvalidArgumentError("this is " + std::string(signature.what));
    }
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto c = static_cast<unsigned char>(bytes[i]);
    if ((c >= ' ' && c != 0x7F) || IsBlank(c) || c == 0x1B) continue;
    return InvalidArgumentError("this is binary: byte " + std::to_string(i) + " is " +
                                std::to_string(c) + ", which no text has");
  }
  if (IsValidUtf8(bytes)) return OkStatus();
  return InvalidArgumentError(
      "this is not UTF-8; convert it, for example by iconv -f LATIN1 -t UTF-8");
}

// `text` has no byte order mark. A name decides nothing against the first bytes.
FileKind KindOf(std::string_view text, std::string_view file_name) {
  const std::string name = LowerCase(file_name);
  if (WithoutBlanksBefore(text).starts_with("%PDF-")) return FileKind::kPdf;
  if (name.ends_with(".pdf") && !CheckIsText(text).ok()) return FileKind::kPdf;
  const bool is_xml = text.starts_with("<?xml") || EndsWithOneOf(name, {".xhtml", ".xht"});
  if (EndsWithOneOf(name, {".html", ".htm", ".xhtml", ".xht", ".shtml"}) ||
      BeginsWithHtmlTag(text)) {
    return is_xml ? FileKind::kXhtml : FileKind::kHtml;
  }
  return FileKind::kText;
}

// What `text`, which begins with a bracket, has up to the bracket that ends it; else nothing.
std::string_view FirstInBrackets(std::string_view text) {
  int64_t depth = 0;
  bool is_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      is_string = !is_string;
    } else if (is_string) {
      i += c == '\\' ? 1 : 0;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if ((c == '}' || c == ']') && --depth == 0) {
      return text.substr(0, i + 1);
    }
  }
  return {};
}

// Lines or a list of JSON objects that other servers train on look like text, and would be learned
// letter by letter. The first one tells.
Status CheckIsNoTrainingData(std::string_view text) {
  text = WithoutBlanksBefore(text);
  if (text.starts_with('[')) text = WithoutBlanksBefore(text.substr(1));
  if (!text.starts_with('{')) return OkStatus();
  const Result<Json> first = ParseJson(FirstInBrackets(text.substr(0, kExampleBytesMax)));
  if (!first.ok() || !first->is_object()) return OkStatus();
  const auto has = [&](const char* key) { return first->contains(key); };
  const bool is_chat = has("messages") && (*first)["messages"].is_array();
  if (!is_chat && !(has("prompt") && has("completion")) &&
      !(has("input") && has("preferred_output"))) {
    return OkStatus();
  }
  return InvalidArgumentError(
      "these are " + std::string(is_chat ? "chats ({\"messages\": ...})" : "examples") +
      " for supervised fine-tuning, and what is learned here is a document: save what is to be "
      "known as text, Markdown, HTML or PDF");
}

// Lines end with \n, pages with a blank line; nothing blank at either end.
std::string Tidy(std::string_view text) {
  std::string tidy;
  tidy.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\r') {
      if (i + 1 == text.size() || text[i + 1] != '\n') tidy += '\n';
    } else {
      tidy += c == '\f' ? '\n' : c;
    }
  }
  tidy = PlainCharacters(tidy);
  while (!tidy.empty() && IsBlank(static_cast<unsigned char>(tidy.back()))) tidy.pop_back();
  const auto first = std::find_if(tidy.begin(), tidy.end(),
                                  [](char c) { return !IsBlank(static_cast<unsigned char>(c)); });
  tidy.erase(tidy.begin(), first);
  return tidy;
}

// What a file has in place of letters that were lost goes; most of a text may not be that.
Status LeaveOutLost(FileKind kind, Document* document) {
  const UnreadableCount count = LeaveOutUnreadable(&document->text);
  if (count.unreadable == 0) return OkStatus();
  const std::string share = std::to_string(count.unreadable) + " of its " +
                            std::to_string(count.characters) +
                            " characters cannot be read (controls, private use, U+FFFD)";
  const auto characters = static_cast<double>(count.characters);
  if (static_cast<double>(count.controls) > kControlsMax * characters ||
      static_cast<double>(count.unreadable) > kUnreadableMax * characters) {
    return InvalidArgumentError(
        share + (kind == FileKind::kPdf
                     ? ": its fonts do not say which letters they draw; run OCR over it first"
                     : ": its letters were lost when it was made; save it anew as UTF-8, or run "
                       "OCR over its pages"));
  }
  document->notes.push_back(share +
                            " and will be missing; where they are letters, run OCR over its pages "
                            "first");
  return OkStatus();
}

Result<std::string> RawText(FileKind kind, const std::string& bytes, std::string_view text,
                            const DocumentReading& reading) {
  if (kind == FileKind::kPdf) return PdfText(bytes, reading.pdf, reading.is_wanted);
  RETURN_IF_ERROR(CheckIsText(text));
  if (kind == FileKind::kText) {
    RETURN_IF_ERROR(CheckIsNoTrainingData(text));
    return std::string(text);
  }
  return HtmlText(text, kind == FileKind::kXhtml ? HtmlSyntax::kXhtml : HtmlSyntax::kHtml,
                  reading.is_wanted);
}

}  // namespace

Result<Document> DocumentText(const std::string& bytes, std::string_view file_name,
                              const DocumentReading& reading) {
  if (bytes.empty()) return InvalidArgumentError("the file is empty");
  std::string_view text = bytes;
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const FileKind kind = KindOf(text, file_name);
  Document document;
  ASSIGN_OR_RETURN(document.text, RawText(kind, bytes, text, reading));
  document.text = Tidy(document.text);
  RETURN_IF_ERROR(LeaveOutLost(kind, &document));
  if (document.text.empty()) {
    return InvalidArgumentError(
        kind == FileKind::kPdf ? "the PDF has no text, only pictures of it; run OCR over it first"
                               : "there is no text in it");
  }
  document.name = std::filesystem::path(file_name).stem().string();
  document.hash = Sha256Of(bytes);
  document.bytes = static_cast<int64_t>(bytes.size());
  return document;
}

Status CheckDocument(const std::string& bytes, std::string_view file_name) {
  if (static_cast<int64_t>(bytes.size()) > kDocumentBytesMax) {
    return InvalidArgumentError("the file has " + std::to_string(bytes.size()) +
                                " bytes; a document has " + std::to_string(kDocumentBytesMax) +
                                " at most: split it");
  }
  std::string_view text = bytes;
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  if (KindOf(text, file_name) == FileKind::kPdf) return OkStatus();
  return DocumentText(bytes, file_name, {.pdf = {}, .is_wanted = [] { return !WorkIsUnwanted(); }})
      .status();
}

Result<Document> ReadDocument(const std::string& path, const DocumentReading& reading) {
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kDocumentBytesMax));
  Result<Document> document = DocumentText(bytes, path, reading);
  if (!document.ok()) return document.status().WithContext(path);
  return document;
}

}  // namespace graft
