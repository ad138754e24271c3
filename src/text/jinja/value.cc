#include "text/jinja/value.h"

#include <algorithm>
#include <cmath>

#include "base/unwanted_work.h"
#include "text/jinja/python_text.h"
#include "text/utf8.h"

namespace graft::jinja {

Value CurrentOf(const Callable& cycler) {
  const std::vector<Value>& items = cycler.self.sequence().items;
  return items[cycler.turns % items.size()];
}

void Heap::Spend(size_t bytes) {
  spent_bytes_ += bytes;
  if (spent_bytes_ > limits_.memory_bytes && status_.ok()) status_ = Fits(0);
}

Status Heap::Fits(double bytes) const {
  if (static_cast<double>(spent_bytes_) + bytes <= static_cast<double>(limits_.memory_bytes)) {
    return OkStatus();
  }
  return ResourceExhaustedError("rendering would take more than " +
                                std::to_string(limits_.memory_bytes >> 20) + " MiB of memory");
}

bool Heap::CheckWork() {
  constexpr uint64_t kWorkPerQuestion = 1 << 14;
  const bool is_used_up = spent_work_ > limits_.work;
  if (is_used_up && status_.ok()) {
    status_ = ResourceExhaustedError("rendering takes more than " + std::to_string(limits_.work) +
                                     " steps; does a loop of the template run away?");
  }
  if (status_.ok() && WorkIsUnwanted()) status_ = UnwantedWork();
  if (is_used_up || !status_.ok()) return false;
  checked_work_ = std::min(limits_.work, spent_work_ + kWorkPerQuestion);
  return true;
}

Value Heap::TemplateText(std::string text) {
  Spend(sizeof(std::string) + text.size());
  return Value::String(strings_.emplace_back(std::move(text)), kOfTemplate);
}

Value Heap::Text(TextBuilder text) {
  const Value value = TemplateText(text.TakeText());
  const TextRanges& untrusted = text.untrusted();
  if (untrusted.empty()) return value;
  Spend(untrusted.size() * sizeof(TextRange));
  return Value::String(value.text(), origins_.Mark(value.text(), untrusted));
}

Value Heap::Derived(std::string text, const Value& source) {
  const Value value = TemplateText(std::move(text));
  if (!origins_.IsUntrusted(source.text(), source.origin())) return value;
  return Value::String(value.text(), origins_.Mark(value.text()));
}

Value Heap::Undefined(std::string message) {
  return Value::Undefined(Missing::kMessage, TemplateText(std::move(message)).text());
}

Value Heap::NewSequence(Flavor flavor, std::vector<Value> items) {
  Spend(sizeof(Sequence) + items.size() * sizeof(Value));
  return Value::Of(&sequences_.emplace_back(Sequence{.flavor = flavor, .items = std::move(items)}));
}

Value Heap::NewRange(const RangeBounds& bounds) {
  std::vector<Value> items;
  const auto inside = [&](__int128 value) {
    return bounds.step > 0 ? value < bounds.stop : value > bounds.stop;
  };
  for (__int128 value = bounds.start; inside(value); value += bounds.step) {
    items.push_back(Value::Int(static_cast<int64_t>(value)));
  }
  Charge(items.size());
  const Value range = NewSequence(Flavor::kRange, std::move(items));
  range.sequence().bounds = bounds;
  return range;
}

Value Heap::NewDict(std::vector<std::pair<Value, Value>> entries) {
  Spend(entries.size() * sizeof(entries[0]));
  Dict* dict = NewEntries();
  dict->entries = std::move(entries);
  return Value::Of(dict);
}

Dict* Heap::NewEntries() {
  Spend(sizeof(Dict));
  return &dicts_.emplace_back();
}

Callable* Heap::NewCallable(Callable callable) {
  Spend(sizeof(Callable));
  return &callables_.emplace_back(callable);
}

Scope* Heap::NewScope(Scope* parent) {
  Spend(sizeof(Scope) + 4 * sizeof(Value));
  return &scopes_.emplace_back(Scope{parent, {}});
}

Loop* Heap::NewLoop(const Value& sequence, const Stmt& stmt, Scope* scope, int depth0) {
  Spend(sizeof(Loop));
  return &loops_.emplace_back(Loop{.items = &sequence.sequence().items,
                                   .index0 = 0,
                                   .last_changed = {},
                                   .stmt = &stmt,
                                   .scope = scope,
                                   .depth0 = depth0});
}

Status Nesting::status() const {
  if (heap_.depth_ > heap_.limits_.depth) {
    return ResourceExhaustedError("macros or expressions run deeper than " +
                                  std::to_string(heap_.limits_.depth) + " levels");
  }
  return heap_.status_;
}

std::string_view TypeName(const Value& value) {
  // In the order of the enumerations; what stands for a sequence and a callable is not used.
  static constexpr std::string_view kKinds[] = {"Undefined", "NoneType",    "bool",     "int",
                                                "float",     "str",         "sequence", "dict",
                                                "Namespace", "LoopContext", "callable"};
  static constexpr std::string_view kFlavors[] = {
      "list", "tuple", "range", "generator", "dict_keys", "dict_items", "dict_values"};
  static constexpr std::string_view kCallables[] = {"function", "function", "Macro", "Joiner",
                                                    "Cycler"};
  if (value.kind() == Kind::kSequence) {
    return kFlavors[static_cast<size_t>(value.sequence().flavor)];
  }
  if (value.kind() == Kind::kCallable) {
    return kCallables[static_cast<size_t>(value.callable().kind)];
  }
  return kKinds[static_cast<size_t>(value.kind())];
}

Status TypeError(std::string message) { return InvalidArgumentError(std::move(message)); }

Status UndefinedError(const Value& undefined) {
  const std::string name(undefined.text());
  switch (undefined.missing()) {
    case Missing::kName:
      return InvalidArgumentError("'" + name + "' is undefined");
    case Missing::kDictKey:
      return InvalidArgumentError("the dict has no entry '" + name + "'");
    case Missing::kAttribute:
      return InvalidArgumentError("the value has no attribute or item '" + name + "'");
    case Missing::kUnsafe:
      return InvalidArgumentError("attribute '" + name + "' is not allowed in a chat template");
    case Missing::kMessage:
      break;
  }
  return InvalidArgumentError(name);
}

bool Truth(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return value.integer() != 0;
    case Kind::kFloat:
      return value.number() != 0;
    case Kind::kString:
      return !value.text().empty();
    case Kind::kSequence:
      return value.sequence().flavor == Flavor::kIterator || !value.sequence().items.empty();
    case Kind::kDict:
      return !value.dict().entries.empty();
    case Kind::kNamespace:
    case Kind::kLoop:
    case Kind::kCallable:
      return true;
  }
  return true;
}

namespace {

Status TooDeep() {
  return InvalidArgumentError("values nested deeper than " + std::to_string(kValueDepthMax) +
                              " levels");
}

int Sign(double a, double b) { return a < b ? -1 : a > b ? 1 : 0; }

int CompareNumbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) {
    return a.integer() < b.integer() ? -1 : a.integer() > b.integer() ? 1 : 0;
  }
  return Sign(a.number(), b.number());
}

bool IsView(Flavor flavor) { return flavor == Flavor::kKeysView || flavor == Flavor::kItemsView; }

Result<bool> EqualSequences(Heap& heap, const Sequence& a, const Sequence& b, int depth) {
  if (&a == &b) return true;
  const bool comparable = a.flavor == Flavor::kList || a.flavor == Flavor::kTuple ||
                          a.flavor == Flavor::kRange || IsView(a.flavor);
  if (a.flavor != b.flavor || !comparable || a.items.size() != b.items.size()) return false;
  for (size_t i = 0; i < a.items.size(); ++i) {
    ASSIGN_OR_RETURN(const bool equal, Equal(heap, a.items[i], b.items[i], depth + 1));
    if (!equal) return false;
  }
  return true;
}

Result<bool> EqualDicts(Heap& heap, Dict& a, Dict& b, int depth) {
  if (&a == &b) return true;
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    heap.Charge(1 + b.entries.size() / 4);
    const Value* other = FindEntry(b, key);
    if (other == nullptr) return false;
    ASSIGN_OR_RETURN(const bool equal, Equal(heap, value, *other, depth + 1));
    if (!equal) return false;
  }
  return true;
}

bool SameKey(const Value& a, const Value& b) {
  if (a.is_string()) return b.is_string() && a.text() == b.text();
  if (a.is_number()) return b.is_number() && CompareNumbers(a, b) == 0;
  return a.kind() == b.kind();
}

}  // namespace

Result<bool> Equal(Heap& heap, const Value& a, const Value& b, int depth) {
  if (depth > kValueDepthMax) return TooDeep();
  if (!heap.Charge(1)) return heap.status();
  if (a.is_number() && b.is_number()) {
    if (!a.is_integral() && std::isnan(a.number())) return false;
    if (!b.is_integral() && std::isnan(b.number())) return false;
    return CompareNumbers(a, b) == 0;
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      heap.ChargeBytes(std::min(a.text().size(), b.text().size()));
      return a.text() == b.text();
    case Kind::kSequence:
      return EqualSequences(heap, a.sequence(), b.sequence(), depth);
    case Kind::kDict:
      return EqualDicts(heap, a.dict(), b.dict(), depth);
    case Kind::kNamespace:
      return &a.dict() == &b.dict();
    case Kind::kLoop:
      return &a.loop() == &b.loop();
    default:
      return &a.callable() == &b.callable();
  }
}

Result<int> Compare(Heap& heap, const Value& a, const Value& b, int depth) {
  if (depth > kValueDepthMax) return TooDeep();
  if (!heap.Charge(1)) return heap.status();
  if (a.is_number() && b.is_number()) return CompareNumbers(a, b);
  if (a.is_string() && b.is_string()) {
    heap.ChargeBytes(std::min(a.text().size(), b.text().size()));
    // Bytes of UTF-8 sort as their code points do.
    return a.text().compare(b.text());
  }
  if (a.is_undefined()) return UndefinedError(a);
  if (b.is_undefined()) return UndefinedError(b);
  const bool sequences = a.kind() == Kind::kSequence && b.kind() == Kind::kSequence;
  if (sequences && a.sequence().flavor == b.sequence().flavor &&
      (a.sequence().flavor == Flavor::kList || a.sequence().flavor == Flavor::kTuple)) {
    const std::vector<Value>& left = a.sequence().items;
    const std::vector<Value>& right = b.sequence().items;
    for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
      ASSIGN_OR_RETURN(const bool equal, Equal(heap, left[i], right[i], depth + 1));
      if (!equal) return Compare(heap, left[i], right[i], depth + 1);
    }
    return Sign(static_cast<double>(left.size()), static_cast<double>(right.size()));
  }
  return TypeError("cannot order '" + std::string(TypeName(a)) + "' and '" +
                   std::string(TypeName(b)) + "'");
}

Result<bool> Contains(Heap& heap, const Value& needle, const Value& haystack) {
  switch (haystack.kind()) {
    case Kind::kUndefined:
      return false;
    case Kind::kString:
      if (!needle.is_string()) {
        return TypeError("'in' a string needs a string on its left, not '" +
                         std::string(TypeName(needle)) + "'");
      }
      heap.ChargeBytes(haystack.text().size());
      return haystack.text().find(needle.text()) != std::string_view::npos;
    case Kind::kSequence: {
      ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(heap, haystack));
      for (const Value& item : items) {
        ASSIGN_OR_RETURN(const bool equal, Equal(heap, needle, item));
        if (equal) return true;
      }
      return false;
    }
    case Kind::kDict:
      if (needle.kind() == Kind::kSequence || needle.kind() == Kind::kDict) {
        return TypeError("unhashable type: '" + std::string(TypeName(needle)) + "'");
      }
      heap.Charge(1 + haystack.dict().entries.size() / 4);
      return FindEntry(haystack.dict(), needle) != nullptr;
    default:
      return TypeError("'in' cannot search a value of type '" + std::string(TypeName(haystack)) +
                       "'");
  }
}

Result<int64_t> Length(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return CountCodePoints(value.text());
    case Kind::kSequence:
      if (value.sequence().flavor == Flavor::kIterator) break;
      return static_cast<int64_t>(value.sequence().items.size());
    case Kind::kDict:
      return static_cast<int64_t>(value.dict().entries.size());
    case Kind::kLoop:
      return static_cast<int64_t>(value.loop().items->size());
    default:
      break;
  }
  return TypeError("a value of type '" + std::string(TypeName(value)) + "' has no length");
}

Result<std::vector<Value>> Iterate(Heap& heap, const Value& value) {
  std::vector<Value> items;
  switch (value.kind()) {
    case Kind::kUndefined:
      return items;
    case Kind::kString: {
      const std::string_view text = value.text();
      RETURN_IF_ERROR(heap.Fits(static_cast<double>(text.size() * sizeof(Value))));
      heap.Charge(text.size());
      for (size_t begin = 0, end = 0; begin < text.size(); begin = end) {
        NextCodePoint(text, &end);
        items.push_back(value.Part(text.substr(begin, end - begin)));
      }
      return items;
    }
    case Kind::kSequence: {
      Sequence& sequence = value.sequence();
      heap.Charge(1 + sequence.items.size() / 4);
      if (sequence.flavor != Flavor::kIterator) return sequence.items;
      items.assign(sequence.items.begin() + static_cast<ptrdiff_t>(sequence.next),
                   sequence.items.end());
      sequence.next = sequence.items.size();
      return items;
    }
    case Kind::kDict:
      heap.Charge(1 + value.dict().entries.size() / 4);
      for (const auto& entry : value.dict().entries) items.push_back(entry.first);
      return items;
    default:
      return TypeError("a value of type '" + std::string(TypeName(value)) + "' is not iterable");
  }
}

Value* FindEntry(Dict& dict, const Value& key) {
  for (auto& entry : dict.entries) {
    if (SameKey(entry.first, key)) return &entry.second;
  }
  return nullptr;
}

Value* FindEntry(Dict& dict, std::string_view key) { return FindEntry(dict, Value::String(key)); }

Status SetEntry(Heap& heap, Dict* dict, const Value& key, const Value& value) {
  if (key.kind() == Kind::kSequence && key.sequence().flavor == Flavor::kTuple) {
    return UnimplementedError("a tuple as the key of a dict is not supported");
  }
  if (!key.is_string() && !key.is_number() && !key.is_none()) {
    return TypeError("unhashable type: '" + std::string(TypeName(key)) + "'");
  }
  heap.Charge(1 + dict->entries.size() / 4);
  if (Value* entry = FindEntry(*dict, key)) {
    *entry = value;
    return OkStatus();
  }
  dict->entries.emplace_back(key, value);
  return heap.status();
}

}  // namespace graft::jinja
