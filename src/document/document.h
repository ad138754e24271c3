// Reads a document's text from an untrusted file: plain text, Markdown (kept as it is written),
// HTML (its text) or PDF (by pdftotext, in a child process with limits). A file that is no document
// is refused with the reason. Text that came out of a file is checked like text that lay in it.
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "document/pdf_text.h"

namespace graft {

inline constexpr int64_t kDocumentBytesMax = int64_t{8} << 20;  // of a file, and of its text

struct Document {
  std::string name;  // the file's, without its folders and its ending: "report"
  std::string text;  // UTF-8, not empty, its lines end with \n
  std::string hash;  // SHA-256 of the file's bytes
  int64_t bytes = 0;
  std::vector<std::string> notes;  // what a user should know of how it was read: sentences
};

struct DocumentReading {
  PdfTextLimits pdf;
  // Asked now and then while a page or a PDF is read. False: the reading ends, kCancelled.
  std::function<bool()> is_wanted;
};

// kNotFound, kPermissionDenied: there is no such file, or this user may not read it.
// kInvalidArgument: the file is empty, too large, binary, not UTF-8 or training data, most of its
// text cannot be read, or pdftotext does not read it within its limits; the message names the file.
// kFailedPrecondition: pdftotext is not installed.
Result<Document> ReadDocument(const std::string& path, const DocumentReading& reading = {});

// The same of bytes. A file is HTML by its name's ending or its first tag, and a PDF by its first
// bytes, or by its name's ending where it is no text.
Result<Document> DocumentText(const std::string& bytes, std::string_view file_name,
                              const DocumentReading& reading = {});

// Whether DocumentText may succeed, in time linear in the bytes: a PDF is not looked into.
Status CheckDocument(const std::string& bytes, std::string_view file_name);

}  // namespace graft
