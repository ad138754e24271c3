// Calls of Qwen3-Coder and GLM-4.5. Qwen3-Coder writes
// <tool_call><function=name><parameter=key>value</parameter></function></tool_call>, with line
// feeds around values that are no part of them, and at times without <tool_call>. GLM-4.5 writes
// <tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>. Values are plain
// text; the tool's schema tells which of them are something else.
#include <cmath>
#include <initializer_list>
#include <utility>

#include "base/strings.h"
#include "text/output/call_reader.h"
#include "text/output/json_scanner.h"

namespace graft {
namespace {

constexpr size_t kXmlNameBytesMax = 256;

// The marks of a call in their order.
struct XmlForm {
  std::string_view open;      // before the name; "": it comes at once
  std::string_view name_end;  // "": the name ends with what follows it
  std::string_view argument;  // before an argument's key
  std::string_view key_end;
  std::string_view value_open;  // "": the value comes at once
  std::string_view value_end;
  std::string_view end;      // of the call
  std::string_view closing;  // behind it, and at times missing; "": none
  bool trims_lines;          // a line feed at either end of a value is not of it
};

constexpr XmlForm kQwenCoderForm = {"<function=",   ">",           "<parameter=",  ">", "",
                                    "</parameter>", "</function>", "</tool_call>", true};
constexpr XmlForm kGlmForm = {
    "", "", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "</tool_call>", "", false};

// What is no text by the schema, as JSON. What is no value of JSON stays a text.
std::string ValueJson(const ToolSpec* tool, const std::string& key, const std::string& text) {
  if (!IsStringArgument(tool, key)) {
    std::string value(Trimmed(text, kJsonSpace));
    if (value == "True") value = "true";
    if (value == "False") value = "false";
    if (value == "None") value = "null";
    const Result<Json> json = ParseJson(value);
    if (json.ok() && (!json->is_number() || std::isfinite(json->get<double>()))) return value;
  }
  return DumpJson(Json(text));
}

class XmlReader : public CallReader {
 public:
  // `has_open`: the mark before the name was read already.
  XmlReader(const XmlForm& form, bool has_open, const std::vector<ToolSpec>& tools)
      : form_(form),
        tools_(tools),
        closing_(form.closing),
        stage_(has_open || form.open.empty() ? Stage::kName : Stage::kOpen) {}

  Step Push(char c, CallWriter* out) override {
    switch (stage_) {
      case Stage::kOpen:
        return PushMark(c, {form_.open}) ? Go(Stage::kName) : More();
      case Stage::kName:
        return PushName(c, out);
      case Stage::kNext:
        if (!PushMark(c, {form_.argument, form_.end})) return More();
        return mark_ == form_.end ? EndCall(out) : Go(Stage::kKey);
      case Stage::kKey:
        if (!PushUntil(c, form_.key_end)) return Bounded();
        key_ = Trimmed(text_, kJsonSpace);
        return Go(form_.value_open.empty() ? Stage::kValue : Stage::kValueOpen);
      case Stage::kValueOpen:
        return PushMark(c, {form_.value_open}) ? Go(Stage::kValue) : More();
      case Stage::kValue:
        if (!PushUntil(c, form_.value_end)) return Step::kMore;
        WriteArgument(out);
        return Go(Stage::kNext);
      case Stage::kClosing:
        return closing_.Push(c);
    }
    return Step::kNoCall;
  }

  // Before its end it is unknown whether a call has all its arguments.
  bool Finish(CallWriter*) override { return stage_ == Stage::kClosing; }

 private:
  enum class Stage { kOpen, kName, kNext, kKey, kValueOpen, kValue, kClosing };

  Step Go(Stage stage) {
    stage_ = stage;
    text_.clear();
    mark_.clear();
    is_broken_ = false;
    return Step::kMore;
  }
  Step More() const { return is_broken_ ? Step::kNoCall : Step::kMore; }
  Step Bounded() const { return text_.size() > kXmlNameBytesMax ? Step::kNoCall : Step::kMore; }

  // White space, and then one of `marks`, which is `mark_` once it is whole.
  bool PushMark(char c, std::initializer_list<std::string_view> marks) {
    if (mark_.empty() && IsJsonSpace(c)) return false;
    mark_ += c;
    is_broken_ = true;
    for (const std::string_view mark : marks) {
      if (mark == mark_) return true;
      if (mark.starts_with(mark_)) is_broken_ = false;
    }
    return false;
  }

  // Whether `text_` is what stands before `mark`.
  bool PushUntil(char c, std::string_view mark) {
    text_ += c;
    if (!text_.ends_with(mark)) return false;
    text_.resize(text_.size() - mark.size());
    return true;
  }

  Step PushName(char c, CallWriter* out) {
    if (!form_.name_end.empty()) {
      if (!PushUntil(c, form_.name_end)) return Bounded();
      return BeginCall(out) ? Go(Stage::kNext) : Step::kNoCall;
    }
    if (PushUntil(c, form_.argument)) {
      return BeginCall(out) ? Go(Stage::kKey) : Step::kNoCall;
    }
    if (!text_.ends_with(form_.end)) return Bounded();
    text_.resize(text_.size() - form_.end.size());
    return BeginCall(out) ? EndCall(out) : Step::kNoCall;
  }

  bool BeginCall(CallWriter* out) {
    const std::string name(Trimmed(text_, kJsonSpace));
    if (name.empty() || name.find_first_of("<>{}\"\n") != std::string::npos) return false;
    tool_ = FindTool(tools_, name);
    out->Begin(name);
    return true;
  }

  void WriteArgument(CallWriter* out) {
    std::string value = std::exchange(text_, {});
    if (form_.trims_lines && value.starts_with('\n')) value.erase(0, 1);
    if (form_.trims_lines && value.ends_with('\n')) value.pop_back();
    out->Arguments((has_arguments_ ? ", " : "{") + DumpJson(Json(key_)) + ": " +
                   ValueJson(tool_, key_, value));
    has_arguments_ = true;
  }

  Step EndCall(CallWriter* out) {
    out->Arguments(has_arguments_ ? "}" : "{}");
    out->End();
    if (form_.closing.empty()) return Step::kDone;
    return Go(Stage::kClosing);
  }

  const XmlForm& form_;
  const std::vector<ToolSpec>& tools_;
  ClosingMark closing_;
  Stage stage_;
  std::string mark_;
  bool is_broken_ = false;  // no mark begins with `mark_`
  std::string text_;        // of a name, a key or a value
  std::string key_;
  const ToolSpec* tool_ = nullptr;
  bool has_arguments_ = false;
};

CallOpener XmlOpener(std::string_view mark, const XmlForm& form, bool has_open,
                     const std::vector<ToolSpec>& tools) {
  return {.mark = mark, .make = [&form, has_open, &tools] {
            return std::make_unique<XmlReader>(form, has_open, tools);
          }};
}

}  // namespace

std::vector<CallOpener> QwenCoderOpeners(const std::vector<ToolSpec>& tools) {
  return {XmlOpener("<tool_call>", kQwenCoderForm, /*has_open=*/false, tools),
          XmlOpener(kQwenCoderForm.open, kQwenCoderForm, /*has_open=*/true, tools)};
}

std::vector<CallOpener> GlmOpeners(const std::vector<ToolSpec>& tools) {
  return {XmlOpener("<tool_call>", kGlmForm, /*has_open=*/true, tools)};
}

}  // namespace graft
