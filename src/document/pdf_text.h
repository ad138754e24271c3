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

// UTF-8; what is none of pdftotext's output is U+FFFD. kFailedPrecondition: no such program.
// kInvalidArgument: it failed, or met a limit. kInternal: it could not be started. What passes
// (base/fault.h): it was killed, or its time by the wall's clock was over before its computing
// time, as on a busy machine. kCancelled: `is_wanted` said no.
Result<std::string> PdfText(const std::string& pdf, const PdfTextLimits& limits = {},
                            const std::function<bool()>& is_wanted = nullptr);

}  // namespace graft
