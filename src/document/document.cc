#include "document/document.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <utility>

#include "base/file.h"
#include "base/sha256.h"
#include "document/html_text.h"
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
constexpr size_t kPdfHeaderWithin = 1024;  // as PDF readers look for it

bool IsPdf(std::string_view bytes) {
  return bytes.substr(0, kPdfHeaderWithin).find("%PDF-") != std::string_view::npos;
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

bool IsHtml(std::string_view text, std::string_view file_name) {
  const std::string name = Lower(file_name);
  if (name.ends_with(".html") || name.ends_with(".htm") || name.ends_with(".xhtml")) return true;
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return false;
  const std::string start = Lower(text.substr(begin, 16));
  return start.starts_with("<!doctype html") || start.starts_with("<html");
}

bool IsBlank(unsigned char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
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

// Lines end with \n, pages with a blank line; nothing blank at either end.
std::string Tidy(std::string_view text) {
  std::string tidy;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\r') {
      if (i + 1 == text.size() || text[i + 1] != '\n') tidy += '\n';
    } else {
      tidy += c == '\f' ? '\n' : c;
    }
  }
  while (!tidy.empty() && IsBlank(static_cast<unsigned char>(tidy.back()))) tidy.pop_back();
  const auto first = std::find_if(tidy.begin(), tidy.end(),
                                  [](char c) { return !IsBlank(static_cast<unsigned char>(c)); });
  tidy.erase(tidy.begin(), first);
  return tidy;
}

}  // namespace

Result<std::string> DocumentText(const std::string& bytes, std::string_view file_name,
                                 const PdfTextLimits& pdf) {
  if (bytes.empty()) return InvalidArgumentError("the file is empty");
  std::string text = bytes;
  if (IsPdf(bytes)) {
    ASSIGN_OR_RETURN(text, PdfText(bytes, pdf));
  } else {
    if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
    RETURN_IF_ERROR(CheckIsText(text));
    if (IsHtml(text, file_name)) text = HtmlText(text);
  }
  text = Tidy(text);
  if (!text.empty()) return text;
  if (IsPdf(bytes)) {
    return InvalidArgumentError("the PDF has no text, only pictures of it; run OCR over it first");
  }
  return InvalidArgumentError("there is no text in it");
}

Status CheckDocument(const std::string& bytes, std::string_view file_name) {
  if (static_cast<int64_t>(bytes.size()) > kDocumentBytesMax) {
    return InvalidArgumentError("the file has " + std::to_string(bytes.size()) +
                                " bytes; a document has " + std::to_string(kDocumentBytesMax) +
                                " at most: split it");
  }
  return IsPdf(bytes) ? OkStatus() : DocumentText(bytes, file_name).status();
}

Result<Document> ReadDocument(const std::string& path, const PdfTextLimits& pdf) {
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kDocumentBytesMax));
  Document document;
  document.name = std::filesystem::path(path).stem().string();
  document.bytes = static_cast<int64_t>(bytes.size());
  Sha256 hash;
  hash.Update(bytes);
  document.hash = hash.HexDigest();
  Result<std::string> text = DocumentText(bytes, path, pdf);
  if (!text.ok()) return text.status().WithContext(path);
  document.text = std::move(*text);
  return document;
}

}  // namespace graft
