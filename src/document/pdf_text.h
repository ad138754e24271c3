// The text of a PDF, by poppler's pdftotext in a child process that has the file on its standard
// input, may take so much memory and time and no more, may open few files and write none, and of
// whose output so much is read. One thread at a time: a signal is ignored meanwhile.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace graft {

struct PdfTextLimits {
  std::string program = "pdftotext";  // found by PATH
  int64_t memory_bytes = int64_t{1} << 30;
  int cpu_seconds = 30;
  int seconds = 60;  // of the wall's clock
  int files = 32;    // open at once
  int64_t text_bytes = int64_t{8} << 20;
};

// kFailedPrecondition: no such program. kInvalidArgument: it failed, or met a limit.
Result<std::string> PdfText(const std::string& pdf, const PdfTextLimits& limits = {});

}  // namespace graft
