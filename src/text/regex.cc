#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <utility>

#include "text/utf8.h"

namespace graft {
namespace {

// Far above what a split pattern needs for megabytes of text, far below a second of work.
constexpr uint32_t kMatchLimit = 20'000'000;
constexpr uint32_t kHeapLimitKib = 64 * 1024;
constexpr uint32_t kDepthLimit = 1'000'000;

template <auto free_function>
struct FreeWith {
  template <typename T>
  void operator()(T* pointer) const {
    free_function(pointer);
  }
};
using CodePointer = std::unique_ptr<pcre2_code, FreeWith<pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, FreeWith<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, FreeWith<pcre2_match_context_free>>;
using CompileContext = std::unique_ptr<pcre2_compile_context, FreeWith<pcre2_compile_context_free>>;

std::string PcreMessage(int error) {
  std::array<PCRE2_UCHAR, 256> message{};
  pcre2_get_error_message(error, message.data(), message.size());
  return reinterpret_cast<const char*>(message.data());
}

}  // namespace

struct Regex::Code {
  std::string pattern;
  CodePointer code;
  MatchContext limits;

  // The first match at or after `from`; false where there is none.
  Result<bool> FindNext(std::string_view text, size_t from, pcre2_match_data* data) const {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    // The text is checked once by the caller: PCRE2 would check all of it on every call.
    int matched =
        pcre2_match(code.get(), subject, text.size(), from, PCRE2_NO_UTF_CHECK, data, limits.get());
    if (matched == PCRE2_ERROR_JIT_STACKLIMIT) {  // the interpreter keeps its frames on the heap
      matched = pcre2_match(code.get(), subject, text.size(), from,
                            PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data, limits.get());
    }
    if (matched == PCRE2_ERROR_NOMATCH) return false;
    if (matched < 0) {
      return ResourceExhaustedError("regex '" + pattern +
                                    "' gives up on this text: " + PcreMessage(matched));
    }
    return true;
  }
};

Regex::Regex(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

Result<Regex> Regex::Compile(std::string_view pattern) {
  ASSIGN_OR_RETURN(const std::string translated, TranslateRegex(pattern));
  const CompileContext context(pcre2_compile_context_create(nullptr));
  CHECK(context != nullptr) << "out of memory";
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE where = 0;
  // ^ and $ match at every line, as in Ruby: the oracle reads Ruby's syntax.
  CodePointer code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                                 &error, &where, context.get()));
  if (code == nullptr) {
    return InvalidArgumentError("regex '" + std::string(pattern) + "' is wrong at byte " +
                                std::to_string(where) + ": " + PcreMessage(error));
  }
  // Where JIT is not to be had the interpreter runs: slower, the same matches.
  static_cast<void>(pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE));
  MatchContext limits(pcre2_match_context_create(nullptr));
  CHECK(limits != nullptr) << "out of memory";
  pcre2_set_match_limit(limits.get(), kMatchLimit);
  pcre2_set_heap_limit(limits.get(), kHeapLimitKib);
  pcre2_set_depth_limit(limits.get(), kDepthLimit);
  return Regex(
      std::make_unique<Code>(Code{std::string(pattern), std::move(code), std::move(limits)}));
}

Status Regex::FindAll(std::string_view text, std::vector<TextRange>* matches) const {
  matches->clear();
  const MatchData data(pcre2_match_data_create_from_pattern(code_->code.get(), nullptr));
  CHECK(data != nullptr) << "out of memory";
  size_t from = 0;
  while (from <= text.size()) {
    ASSIGN_OR_RETURN(const bool found, code_->FindNext(text, from, data.get()));
    if (!found) break;
    const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(data.get());
    const TextRange match{offsets[0], offsets[1]};
    if (match.begin > match.end)
      return InternalError("regex '" + code_->pattern + "': \\K in a lookahead");
    const bool empty = match.begin == match.end;
    if (empty && !matches->empty() && matches->back().end == match.end) {
      // No empty match right behind a match; search on one code point further.
      if (from >= text.size()) break;
      from += Utf8Length(static_cast<unsigned char>(text[from]));
      continue;
    }
    matches->push_back(match);
    from = match.end;
  }
  return OkStatus();
}

}  // namespace graft
