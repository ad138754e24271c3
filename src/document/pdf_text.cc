#include "document/pdf_text.h"

#include <signal.h>

#include <utility>

#include "text/utf8.h"

namespace graft {
namespace {

// The signal came from outside, mostly because the system lacks memory. The child's own limits end
// it otherwise.
bool IsFromOutside(int signal) {
  return signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGHUP;
}

Status StatusOfExit(const ProgramEnd& end) {
  constexpr int kCannotOpen = 1;
  constexpr int kForbidden = 3;
  constexpr int kNotBegun = 126, kNotFound = 127;  // also where it is a script that begins another
  const std::string complaint = end.complaint.empty() ? "" : ": " + end.complaint;
  switch (end.code) {
    case 0:
      return OkStatus();
    case kCannotOpen:
      return InvalidArgumentError("pdftotext cannot read it as a PDF" + complaint);
    case kForbidden:
      return InvalidArgumentError("the PDF forbids that its text is taken out" + complaint);
    case kNotBegun:
    case kNotFound:
      return InternalError("pdftotext could not be started" + complaint);
    default:
      return InvalidArgumentError("pdftotext cannot read the PDF within its limits" + complaint);
  }
}

Status StatusOfEnd(const ProgramEnd& end, const ProgramLimits& limits) {
  switch (end.kind) {
    case ProgramEnd::Kind::kExited:
      return StatusOfExit(end);
    case ProgramEnd::Kind::kSignal:
      if (end.code == SIGXCPU) {
        return InvalidArgumentError("pdftotext had not read the PDF after " +
                                    std::to_string(limits.cpu_seconds) +
                                    " s of computing and was stopped");
      }
      if (IsFromOutside(end.code)) {
        return UnavailableError("pdftotext was killed, by a system that lacks memory mostly");
      }
      return InvalidArgumentError("pdftotext crashed over the PDF");
    case ProgramEnd::Kind::kTooLong:
      return Status(StatusCode::kDeadlineExceeded, "pdftotext had not read the PDF after " +
                                                       std::to_string(limits.seconds) +
                                                       " s and was stopped: the machine is busy");
    case ProgramEnd::Kind::kTooMuch:
      return InvalidArgumentError("the PDF has more than " +
                                  std::to_string(limits.output_bytes >> 20) + " MiB of text");
    case ProgramEnd::Kind::kUnwanted:
      return Status(StatusCode::kCancelled, "the PDF's text is not wanted any more");
  }
  return OkStatus();
}

}  // namespace

Result<std::string> PdfText(const std::string& pdf, const PdfTextLimits& limits,
                            const std::function<bool()>& is_wanted) {
  Result<ProgramEnd> end = RunConfined({limits.program, "-enc", "UTF-8", "-eol", "unix", "-", "-"},
                                       pdf, limits.child, is_wanted);
  if (end.status().code() == StatusCode::kNotFound) {
    return FailedPreconditionError("a PDF is read by " + limits.program +
                                   ", which is not installed: apt install poppler-utils");
  }
  RETURN_IF_ERROR(end.status());
  RETURN_IF_ERROR(StatusOfEnd(*end, limits.child));
  if (IsValidUtf8(end->output)) return std::move(end->output);
  std::string text;
  Utf8Stream stream;
  stream.Push(end->output, &text);
  stream.Flush(&text);
  return text;
}

}  // namespace graft
