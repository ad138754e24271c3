// Parses any text as a model's output, in every format. The first byte chooses the format and where
// the text is cut. Nothing crashes, the cuts do not matter, no text is lost except white space and
// the marks of calls, and arguments are JSON.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "text/output/output_parser.h"
#include "text/utf8.h"

namespace graft {
namespace {

using Kind = OutputPart::Kind;

OutputParts Parsed(const std::shared_ptr<const OutputOptions>& options, std::string_view text,
                   size_t piece_bytes) {
  OutputParser parser(options);
  OutputParts parts;
  for (size_t begin = 0; begin < text.size(); begin += piece_bytes) {
    OutputParts some;
    parser.Push(text.substr(begin, piece_bytes), &some);
    for (OutputPart& part : some) {
      const bool joins = !parts.empty() && parts.back().kind == part.kind &&
                         part.kind != Kind::kCall && part.kind != Kind::kCallEnd &&
                         part.kind != Kind::kCallDropped;
      if (joins) {
        parts.back().text += part.text;
      } else {
        parts.push_back(std::move(part));
      }
    }
  }
  parser.Finish(&parts);
  return parts;
}

// By JSON's grammar, which has no depth, takes half a surrogate pair, and numbers of any size; the
// library refuses these.
bool IsJsonText(const std::string& text) {
  const Result<Json> json = ParseJson(text, {.depth_max = 100'000});
  if (json.ok()) return true;
  const std::string& message = json.status().message();
  return message.find("surrogate") != std::string::npos ||
         message.find("number overflow") != std::string::npos;
}

// Calls begin and end in turns, with arguments between, which are JSON where the call is whole.
void CheckCalls(const OutputParts& parts, bool is_utf8) {
  bool is_open = false;
  std::string arguments;
  for (const OutputPart& part : parts) {
    if (part.kind == Kind::kContent || part.kind == Kind::kReasoning) {
      CHECK(!is_open && !part.text.empty());
    } else if (part.kind == Kind::kCall) {
      CHECK(!is_open && !part.text.empty());
      is_open = true;
      arguments.clear();
    } else {
      CHECK(is_open);
      if (part.kind == Kind::kArguments) {
        arguments += part.text;
        continue;
      }
      if (part.kind == Kind::kCallEnd && is_utf8) {
        CHECK(IsJsonText(arguments)) << arguments;
      }
      is_open = false;
    }
  }
}

}  // namespace
}  // namespace graft

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace graft;  // NOLINT
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  auto options = std::make_shared<OutputOptions>();
  options->tool_format = static_cast<ToolFormat>(data[0] % 9);
  options->reasoning_format = static_cast<ReasoningFormat>(data[0] / 9 % 3);
  options->in_reasoning =
      data[0] / 27 % 2 == 1 && options->reasoning_format != ReasoningFormat::kNone;
  options->has_one_call = data[0] / 42 % 2 == 1;
  options->tools = {
      {"f", {}},
      {"get_weather", ParseJson(R"({"properties": {"n": {"type": "integer"}}})").value()}};
  const OutputParts parts = Parsed(options, text, text.size() + 1);
  CheckCalls(parts, IsValidUtf8(text));
  for (const size_t piece_bytes : {size_t{1}, size_t{2}, size_t{7}}) {
    const OutputParts again = Parsed(options, text, piece_bytes);
    CHECK_EQ(again.size(), parts.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      CHECK(again[i].kind == parts[i].kind && again[i].text == parts[i].text);
    }
  }
  return 0;
}
