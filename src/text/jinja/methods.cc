#include "text/jinja/methods.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "text/jinja/arguments.h"
#include "text/jinja/format.h"
#include "text/jinja/python_text.h"
#include "text/jinja/write.h"
#include "text/utf8.h"

namespace graft::jinja {
namespace {

// A sequence of parts of `whole`.
Result<Value> NewParts(Heap& heap, const Value& whole, const std::vector<std::string_view>& pieces,
                       Flavor flavor) {
  std::vector<Value> items;
  items.reserve(pieces.size());
  for (const std::string_view piece : pieces) items.push_back(whole.Part(piece));
  return heap.NewSequence(flavor, std::move(items));
}

template <std::string (*kMap)(std::string_view)>
Result<Value> Mapped(Heap& heap, const Value& self, const Bound&) {
  return heap.Derived(kMap(self.text()), self);
}

template <bool (*kPredicate)(std::string_view)>
Result<Value> Predicate(Heap&, const Value& self, const Bound&) {
  return Value::Bool(kPredicate(self.text()));
}

template <StripSide kSide>
Result<Value> Strip(Heap&, const Value& self, const Bound& bound) {
  if (bound.Or(0, Value::None()).is_none()) {
    return self.Part(StripSpace(self.text(), kSide));
  }
  ASSIGN_OR_RETURN(const std::string_view characters, bound.Text(0));
  return self.Part(StripCharacters(self.text(), characters, kSide));
}

template <bool kFromRight>
Result<Value> Split(Heap& heap, const Value& self, const Bound& bound) {
  std::string_view text = self.text();
  ASSIGN_OR_RETURN(const int64_t splits_max, bound.IntOr(1, -1));
  if (bound.Or(0, Value::None()).is_none()) {
    constexpr auto kSplit = kFromRight ? SplitSpaceFromRight : SplitSpace;
    return NewParts(heap, self, kSplit(text, splits_max), Flavor::kList);
  }
  ASSIGN_OR_RETURN(const std::string_view separator, bound.Text(0));
  if (separator.empty()) {
    return InvalidArgumentError("'" + std::string(bound.callee()) +
                                "' needs a separator that is not empty");
  }
  std::vector<std::string_view> pieces;
  while (splits_max < 0 || static_cast<int64_t>(pieces.size()) < splits_max) {
    const size_t at = kFromRight ? text.rfind(separator) : text.find(separator);
    if (at == std::string_view::npos) break;
    const std::string_view before = text.substr(0, at);
    const std::string_view after = text.substr(at + separator.size());
    pieces.push_back(kFromRight ? after : before);
    text = kFromRight ? before : after;
  }
  pieces.push_back(text);
  if (kFromRight) std::reverse(pieces.begin(), pieces.end());
  return NewParts(heap, self, pieces, Flavor::kList);
}

Result<Value> SplitTextLines(Heap& heap, const Value& self, const Bound& bound) {
  const std::string_view text = self.text();
  return NewParts(heap, self, SplitLines(text, bound.TruthOr(0, false)), Flavor::kList);
}

template <bool kFromRight>
Result<Value> Partition(Heap& heap, const Value& self, const Bound& bound) {
  const std::string_view text = self.text();
  ASSIGN_OR_RETURN(const std::string_view separator, bound.Text(0));
  if (separator.empty()) return InvalidArgumentError("'partition' needs a separator");
  const size_t at = kFromRight ? text.rfind(separator) : text.find(separator);
  if (at == std::string_view::npos) {
    const std::string_view none = text.substr(0, 0);
    if (kFromRight) return NewParts(heap, self, {none, none, text}, Flavor::kTuple);
    return NewParts(heap, self, {text, none, none}, Flavor::kTuple);
  }
  return NewParts(
      heap, self,
      {text.substr(0, at), text.substr(at, separator.size()), text.substr(at + separator.size())},
      Flavor::kTuple);
}

// The part of a text between the code points `begin` and `end`, which may be negative or missing,
// as the optional arguments of find and startswith.
struct Window {
  std::string_view text;
  int64_t begin = 0;   // in code points
  bool empty = false;  // begin lies behind end: not even "" is found
};

Result<Window> MakeWindow(std::string_view text, const Bound& bound, size_t begin_index) {
  Window window;
  window.text = text;
  if (!bound.Has(begin_index) && !bound.Has(begin_index + 1)) return window;
  const int64_t length = CountCodePoints(text);
  const auto position = [&](size_t i, int64_t fallback) -> Result<int64_t> {
    if (bound.Or(i, Value::None()).is_none()) return fallback;
    ASSIGN_OR_RETURN(const int64_t index, bound.IntOr(i, 0));
    return index < 0 ? std::max<int64_t>(index + length, 0) : index;
  };
  ASSIGN_OR_RETURN(window.begin, position(begin_index, 0));
  ASSIGN_OR_RETURN(int64_t end, position(begin_index + 1, length));
  end = std::min(end, length);
  window.empty = window.begin > end;
  if (window.empty) return window;
  const size_t first = ByteOffset(text, window.begin);
  window.text = text.substr(first, ByteOffset(text.substr(first), end - window.begin));
  return window;
}

template <bool kAtEnd>
Result<Value> StartsOrEnds(Heap&, const Value& self, const Bound& bound) {
  const std::string_view text = self.text();
  ASSIGN_OR_RETURN(const Value wanted, bound.Required(0));
  ASSIGN_OR_RETURN(const Window window, MakeWindow(text, bound, 1));
  const auto matches = [&](std::string_view piece) {
    if (window.empty) return false;
    return kAtEnd ? window.text.ends_with(piece) : window.text.starts_with(piece);
  };
  const bool is_tuple =
      wanted.kind() == Kind::kSequence && wanted.sequence().flavor == Flavor::kTuple;
  if (!is_tuple) {
    ASSIGN_OR_RETURN(const std::string_view piece, bound.Text(0));
    return Value::Bool(matches(piece));
  }
  for (const Value& item : wanted.sequence().items) {
    if (!item.is_string()) return TypeError("startswith and endswith take strings");
    if (matches(item.text())) return Value::Bool(true);
  }
  return Value::Bool(false);
}

template <bool kFromRight, bool kMustExist>
Result<Value> Find(Heap&, const Value& self, const Bound& bound) {
  const std::string_view text = self.text();
  ASSIGN_OR_RETURN(const std::string_view wanted, bound.Text(0));
  ASSIGN_OR_RETURN(const Window window, MakeWindow(text, bound, 1));
  const size_t at = kFromRight ? window.text.rfind(wanted) : window.text.find(wanted);
  if (window.empty || at == std::string_view::npos) {
    if (kMustExist) return InvalidArgumentError("substring not found");
    return Value::Int(-1);
  }
  return Value::Int(window.begin + CountCodePoints(window.text.substr(0, at)));
}

Result<Value> CountText(Heap&, const Value& self, const Bound& bound) {
  const std::string_view text = self.text();
  ASSIGN_OR_RETURN(const std::string_view wanted, bound.Text(0));
  ASSIGN_OR_RETURN(const Window window, MakeWindow(text, bound, 1));
  if (window.empty) return Value::Int(0);
  if (wanted.empty()) return Value::Int(CountCodePoints(window.text) + 1);
  int64_t count = 0;
  for (size_t at = window.text.find(wanted); at != std::string_view::npos;
       at = window.text.find(wanted, at + wanted.size())) {
    ++count;
  }
  return Value::Int(count);
}

Result<Value> Replace(Heap& heap, const Value& self, const Bound& bound) {
  ASSIGN_OR_RETURN(const std::string_view old_text, bound.Text(0));
  RETURN_IF_ERROR(bound.Text(1).status());
  ASSIGN_OR_RETURN(const Value new_text, bound.Required(1));
  ASSIGN_OR_RETURN(const int64_t count, bound.IntOr(2, -1));
  return ReplaceText(heap, self, old_text, new_text, count);
}

Result<Value> Join(Heap& heap, const Value& self, const Bound& bound) {
  ASSIGN_OR_RETURN(const Value list, bound.Required(0));
  ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(heap, list));
  for (const Value& item : items) {
    if (!item.is_string()) {
      return TypeError("'join' takes strings, not '" + std::string(TypeName(item)) + "'");
    }
  }
  return JoinTexts(heap, self, items);
}

enum class Justify { kLeft, kRight, kCenter };

template <Justify kJustify>
Result<Value> Justified(Heap& heap, const Value& self, const Bound& bound) {
  const std::string_view text = self.text();
  ASSIGN_OR_RETURN(const int64_t width, bound.IntOr(0, 0));
  ASSIGN_OR_RETURN(const std::string_view character, bound.TextOr(1, " "));
  if (CountCodePoints(character) != 1) return TypeError("the fill is not one character");
  const int64_t padding = width - CountCodePoints(text);
  if (padding <= 0) return self;
  int64_t left = kJustify == Justify::kRight ? padding : 0;
  // Python's choice of side for the odd space.
  if (kJustify == Justify::kCenter) left = padding / 2 + (padding & width & 1);
  const Value fill = bound.Or(1, Value::String(" ", kOfTemplate));
  return PadText(heap, self, left, padding - left, fill);
}

Result<Value> ZeroFill(Heap& heap, const Value& self, const Bound& bound) {
  const std::string_view text = self.text();
  ASSIGN_OR_RETURN(const int64_t width, bound.IntOr(0, 0));
  const int64_t padding = width - CountCodePoints(text);
  if (padding <= 0) return self;
  const bool has_sign = !text.empty() && (text[0] == '+' || text[0] == '-');
  ASSIGN_OR_RETURN(const Value filled, PadText(heap, self.Part(text.substr(has_sign ? 1 : 0)),
                                               padding, 0, Value::String("0", kOfTemplate)));
  if (!has_sign) return filled;
  TextBuilder out = heap.NewText();
  out.Append(self.Part(text.substr(0, 1)));
  out.Append(filled);
  return heap.Text(std::move(out));
}

Result<Value> RemovePrefix(Heap&, const Value& self, const Bound& bound) {
  std::string_view text = self.text();
  ASSIGN_OR_RETURN(const std::string_view prefix, bound.Text(0));
  if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
  return self.Part(text);
}

Result<Value> RemoveSuffix(Heap&, const Value& self, const Bound& bound) {
  std::string_view text = self.text();
  ASSIGN_OR_RETURN(const std::string_view suffix, bound.Text(0));
  if (text.ends_with(suffix)) text.remove_suffix(suffix.size());
  return self.Part(text);
}

Result<Value> ExpandTabs(Heap& heap, const Value& self, const Bound& bound) {
  const std::string_view text = self.text();
  ASSIGN_OR_RETURN(const int64_t tab, bound.IntOr(0, 8));
  RETURN_IF_ERROR(
      heap.Fits(static_cast<double>(text.size()) * static_cast<double>(std::max<int64_t>(tab, 1))));
  std::string out;
  int64_t column = 0;
  for (const char c : text) {
    if (c == '\t') {
      const int64_t spaces = tab > 0 ? tab - column % tab : 0;
      out.append(static_cast<size_t>(spaces), ' ');
      column += spaces;
      continue;
    }
    out += c;
    if ((c & 0xC0) != 0x80) ++column;
    if (c == '\n' || c == '\r') column = 0;
  }
  return heap.Derived(std::move(out), self);
}

Result<Value> Format(Heap& heap, const Value& self, const Bound& bound) {
  return FormatBraces(heap, self.text(), bound.all());
}

struct TextMethod {
  std::string_view name;
  Result<Value> (*function)(Heap&, const Value&, const Bound&);
  ParameterNames parameters = {};
};

// A null function: Python has the method, Graft has not.
constexpr TextMethod kTextMethods[] = {
    {"capitalize", Mapped<Capitalize>},
    {"casefold", nullptr},
    {"center", Justified<Justify::kCenter>, {"width", "fillchar"}},
    {"count", CountText, {"sub", "start", "end"}},
    {"encode", nullptr},
    {"endswith", StartsOrEnds<true>, {"suffix", "start", "end"}},
    {"expandtabs", ExpandTabs, {"tabsize"}},
    {"find", Find<false, false>, {"sub", "start", "end"}},
    {"format", Format},
    {"format_map", nullptr},
    {"index", Find<false, true>, {"sub", "start", "end"}},
    {"isalnum", Predicate<IsAlnum>},
    {"isalpha", Predicate<IsAlpha>},
    {"isascii", Predicate<IsAscii>},
    {"isdecimal", Predicate<IsDecimal>},
    {"isdigit", Predicate<IsDigit>},
    {"isidentifier", Predicate<IsIdentifier>},
    {"islower", Predicate<IsLower>},
    {"isnumeric", Predicate<IsNumeric>},
    {"isprintable", nullptr},
    {"isspace", Predicate<IsSpace>},
    {"istitle", Predicate<IsTitle>},
    {"isupper", Predicate<IsUpper>},
    {"join", Join, {"iterable"}},
    {"ljust", Justified<Justify::kLeft>, {"width", "fillchar"}},
    {"lower", Mapped<ToLower>},
    {"lstrip", Strip<StripSide::kLeft>, {"chars"}},
    {"maketrans", nullptr},
    {"partition", Partition<false>, {"sep"}},
    {"removeprefix", RemovePrefix, {"prefix"}},
    {"removesuffix", RemoveSuffix, {"suffix"}},
    {"replace", Replace, {"old", "new", "count"}},
    {"rfind", Find<true, false>, {"sub", "start", "end"}},
    {"rindex", Find<true, true>, {"sub", "start", "end"}},
    {"rjust", Justified<Justify::kRight>, {"width", "fillchar"}},
    {"rpartition", Partition<true>, {"sep"}},
    {"rsplit", Split<true>, {"sep", "maxsplit"}},
    {"rstrip", Strip<StripSide::kRight>, {"chars"}},
    {"split", Split<false>, {"sep", "maxsplit"}},
    {"splitlines", SplitTextLines, {"keepends"}},
    {"startswith", StartsOrEnds<false>, {"prefix", "start", "end"}},
    {"strip", Strip<StripSide::kBoth>, {"chars"}},
    {"swapcase", Mapped<SwapCase>},
    {"title", Mapped<TitleWords>},
    {"translate", nullptr},
    {"upper", Mapped<ToUpper>},
    {"zfill", ZeroFill, {"width"}},
};

const TextMethod* FindTextMethod(std::string_view name) {
  const auto* row = std::find_if(std::begin(kTextMethods), std::end(kTextMethods),
                                 [&](const TextMethod& method) { return method.name == name; });
  return row == std::end(kTextMethods) ? nullptr : row;
}

Result<Value> DictGet(const Value& self, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, Bound::Make("get", {"key", "default"}, arguments));
  ASSIGN_OR_RETURN(const Value key, bound.Required(0));
  const Value* entry = FindEntry(self.dict(), key);
  return entry != nullptr ? *entry : bound.Or(1, Value::None());
}

Result<Value> CallDictMethod(Heap& heap, const Value& self, std::string_view name,
                             const Arguments& arguments) {
  Dict& dict = self.dict();
  heap.Charge(1 + dict.entries.size() / 4);
  if (name == "get") return DictGet(self, arguments);
  RETURN_IF_ERROR(Bound::Make(name, {}, arguments).status());
  if (name == "copy") return heap.NewDict(dict.entries);
  std::vector<Value> items;
  for (const auto& [key, value] : dict.entries) {
    if (name == "keys") {
      items.push_back(key);
    } else if (name == "values") {
      items.push_back(value);
    } else {
      items.push_back(heap.NewSequence(Flavor::kTuple, {key, value}));
    }
  }
  const Flavor flavor = name == "keys"     ? Flavor::kKeysView
                        : name == "values" ? Flavor::kValuesView
                                           : Flavor::kItemsView;
  return heap.NewSequence(flavor, std::move(items));
}

Result<Value> CallSequenceMethod(Heap& heap, const Value& self, std::string_view name,
                                 const Arguments& arguments) {
  const std::vector<Value>& items = self.sequence().items;
  if (name == "copy") return heap.List(items);
  ASSIGN_OR_RETURN(const Bound bound, Bound::Make(name, {"value"}, arguments));
  ASSIGN_OR_RETURN(const Value wanted, bound.Required(0));
  int64_t count = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    ASSIGN_OR_RETURN(const bool equal, Equal(heap, items[i], wanted));
    if (equal && name == "index") return Value::Int(static_cast<int64_t>(i));
    count += equal ? 1 : 0;
  }
  if (name == "index") return InvalidArgumentError("'index': the value is not in the list");
  return Value::Int(count);
}

Result<Value> CallLoopMethod(Heap& heap, Loop& loop, std::string_view name,
                             const Arguments& arguments) {
  const std::vector<Value>& values = arguments.positional;
  if (name == "cycle") {
    if (values.empty()) return TypeError("'cycle' needs values");
    return values[loop.index0 % values.size()];
  }
  bool changed = !loop.last_changed.has_value() || loop.last_changed->size() != values.size();
  for (size_t i = 0; !changed && i < values.size(); ++i) {
    ASSIGN_OR_RETURN(const bool equal, Equal(heap, values[i], (*loop.last_changed)[i]));
    changed = !equal;
  }
  loop.last_changed = values;
  return Value::Bool(changed);
}

Result<Value> CallCyclerMethod(Callable& cycler, std::string_view name,
                               const Arguments& arguments) {
  RETURN_IF_ERROR(Bound::Make(name, {}, arguments).status());
  if (name == "reset") {
    cycler.turns = 0;
    return Value::None();
  }
  const Value current = CurrentOf(cycler);
  ++cycler.turns;
  return current;
}

bool IsOneOf(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

enum class MethodKind { kNone, kHas, kForbidden };

MethodKind Classify(const Value& self, std::string_view name) {
  const auto has = [](bool yes) { return yes ? MethodKind::kHas : MethodKind::kNone; };
  switch (self.kind()) {
    case Kind::kString:
      return has(FindTextMethod(name) != nullptr);
    case Kind::kDict:
      if (IsOneOf(name, {"clear", "pop", "popitem", "setdefault", "update"})) {
        return MethodKind::kForbidden;
      }
      return has(IsOneOf(name, {"copy", "fromkeys", "get", "items", "keys", "values"}));
    case Kind::kSequence:
      if (self.sequence().flavor == Flavor::kTuple || self.sequence().flavor == Flavor::kRange) {
        return has(IsOneOf(name, {"count", "index"}));
      }
      if (self.sequence().flavor != Flavor::kList) return MethodKind::kNone;
      if (IsOneOf(name,
                  {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"})) {
        return MethodKind::kForbidden;
      }
      return has(IsOneOf(name, {"copy", "count", "index"}));
    case Kind::kLoop:
      return has(IsOneOf(name, {"changed", "cycle"}));
    case Kind::kCallable:
      return has(IsCycler(self) && IsOneOf(name, {"next", "reset"}));
    default:
      return MethodKind::kNone;
  }
}

}  // namespace

Value FindMethod(Heap& heap, const Value& self, std::string_view name) {
  switch (Classify(self, name)) {
    case MethodKind::kNone:
      return Value::Undefined(Missing::kAttribute, name);
    case MethodKind::kForbidden:
      return Value::Undefined(Missing::kUnsafe, name);
    case MethodKind::kHas:
      break;
  }
  Callable method;
  method.kind = CallableKind::kMethod;
  method.name = name;
  method.self = self;
  return Value::Of(heap.NewCallable(method));
}

Result<Value> CallMethod(Heap& heap, const Value& self, std::string_view name,
                         const Arguments& arguments) {
  if (self.kind() == Kind::kLoop) return CallLoopMethod(heap, self.loop(), name, arguments);
  if (IsCycler(self)) return CallCyclerMethod(self.callable(), name, arguments);
  if (self.kind() == Kind::kSequence) return CallSequenceMethod(heap, self, name, arguments);
  if (self.kind() == Kind::kDict && name != "fromkeys") {
    return CallDictMethod(heap, self, name, arguments);
  }
  const TextMethod* method = self.is_string() ? FindTextMethod(name) : nullptr;
  if (method == nullptr || method->function == nullptr) {
    return UnimplementedError("the method '" + std::string(name) + "' of '" +
                              std::string(TypeName(self)) + "' is not supported");
  }
  heap.ChargeBytes(self.text().size());
  if (name == "format") return Format(heap, self, Bound::Any(name, arguments));
  ASSIGN_OR_RETURN(const Bound bound, Bound::Make(name, method->parameters, arguments));
  return method->function(heap, self, bound);
}

Result<Value> ReplaceText(Heap& heap, const Value& text_value, std::string_view old_text,
                          const Value& new_text, int64_t count) {
  const std::string_view text = text_value.text();
  heap.ChargeBytes(text.size());
  const auto may_replace = [&](int64_t done) { return count < 0 || done < count; };
  TextBuilder out = heap.NewText();
  int64_t done = 0;
  if (old_text.empty()) {
    // Before every code point, and at the end.
    size_t begin = 0;
    while (may_replace(done)) {
      out.Append(new_text);
      ++done;
      RETURN_IF_ERROR(heap.Fits(static_cast<double>(out.size())));
      if (begin >= text.size()) break;
      const size_t bytes = ByteOffset(text.substr(begin), 1);
      out.Append(text_value.Part(text.substr(begin, bytes)));
      begin += bytes;
    }
    out.Append(text_value.Part(text.substr(begin)));
    return heap.Text(std::move(out));
  }
  size_t begin = 0;
  for (size_t at = text.find(old_text); at != std::string_view::npos && may_replace(done);
       at = text.find(old_text, begin)) {
    if (done == 0) out.Reserve(text.size() + new_text.text().size());
    out.Append(text_value.Part(text.substr(begin, at - begin)));
    out.Append(new_text);
    begin = at + old_text.size();
    ++done;
    RETURN_IF_ERROR(heap.Fits(static_cast<double>(out.size())));
  }
  if (done == 0) return text_value;
  out.Append(text_value.Part(text.substr(begin)));
  return heap.Text(std::move(out));
}

Result<Value> PadText(Heap& heap, const Value& text, int64_t left, int64_t right,
                      const Value& fill) {
  RETURN_IF_ERROR(heap.Fits((static_cast<double>(left) + static_cast<double>(right)) *
                            static_cast<double>(fill.text().size())));
  TextBuilder out = heap.NewText();
  for (int64_t i = 0; i < left; ++i) out.Append(fill);
  out.Append(text);
  for (int64_t i = 0; i < right; ++i) out.Append(fill);
  return heap.Text(std::move(out));
}

Result<Value> JoinTexts(Heap& heap, const Value& separator, const std::vector<Value>& items) {
  TextBuilder out = heap.NewText();
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.Append(separator);
    ASSIGN_OR_RETURN(const Value text, ToText(heap, items[i]));
    out.Append(text);
    if (!heap.Charge(1)) return heap.status();
    RETURN_IF_ERROR(heap.Fits(static_cast<double>(out.size())));
  }
  return heap.Text(std::move(out));
}

}  // namespace graft::jinja
