// A document's text, read from a file that nobody vouches for: plain text, Markdown (kept as it is
// written), HTML (its text) and PDF (by pdftotext, in a child process with limits). What is no
// document is refused by reason. One thread at a time, as PdfText.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "document/pdf_text.h"

namespace graft {

inline constexpr int64_t kDocumentBytesMax = int64_t{8} << 20;  // of a file, and of its text

struct Document {
  std::string name;  // the file's, without its folders and its ending: "report"
  std::string text;  // UTF-8, not empty, its lines end with \n
  std::string hash;  // SHA-256 of the file's bytes
  int64_t bytes = 0;
};

// kNotFound, kPermissionDenied: no such file, or none of ours. kInvalidArgument: empty, too large,
// binary, not UTF-8, or a PDF that pdftotext does not read within its limits; the message names the
// file. kFailedPrecondition: pdftotext is not installed.
Result<Document> ReadDocument(const std::string& path, const PdfTextLimits& pdf = {});

// The same of bytes; `file_name` only tells HTML by its ending.
Result<std::string> DocumentText(const std::string& bytes, std::string_view file_name,
                                 const PdfTextLimits& pdf = {});

// Whether DocumentText may succeed, in a moment: a PDF is not looked into.
Status CheckDocument(const std::string& bytes, std::string_view file_name);

}  // namespace graft
