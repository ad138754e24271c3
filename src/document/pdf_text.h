// The text of a PDF, by poppler's pdftotext in a child process that is confined
// (document/confined_program.h). Any thread.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"
#include "document/confined_program.h"

namespace graft {

struct PdfTextLimits {
  std::string program = "pdftotext";  // found by PATH
  ProgramLimits child;
};

// Returns UTF-8; bytes that are no UTF-8 in pdftotext's output become U+FFFD. kFailedPrecondition:
// there is no such program. kInvalidArgument: pdftotext failed or met a limit. kInternal: it could
// not be started. A transient fault (base/fault.h): it was killed, or its wall-clock limit came
// before its computing limit, as on a busy machine. kCancelled: `is_wanted` said no.
Result<std::string> PdfText(const std::string& pdf, const PdfTextLimits& limits = {},
                            const std::function<bool()>& is_wanted = nullptr);

}  // namespace graft
