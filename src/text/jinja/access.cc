#include "text/jinja/access.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "text/jinja/format.h"
#include "text/jinja/methods.h"
#include "text/jinja/python_text.h"
#include "text/utf8.h"

namespace graft::jinja {
namespace {

Value LoopAttribute(Heap& heap, const Value& value, std::string_view name) {
  const Loop& loop = value.loop();
  const auto length = static_cast<int64_t>(loop.items->size());
  const auto index0 = static_cast<int64_t>(loop.index0);
  if (name == "index0") return Value::Int(index0);
  if (name == "index") return Value::Int(index0 + 1);
  if (name == "revindex0") return Value::Int(length - index0 - 1);
  if (name == "revindex") return Value::Int(length - index0);
  if (name == "first") return Value::Bool(index0 == 0);
  if (name == "last") return Value::Bool(index0 + 1 == length);
  if (name == "length") return Value::Int(length);
  if (name == "depth") return Value::Int(loop.depth0 + 1);
  if (name == "depth0") return Value::Int(loop.depth0);
  if (name == "previtem") {
    if (index0 == 0) return heap.Undefined("there is no previous item");
    return (*loop.items)[loop.index0 - 1];
  }
  if (name == "nextitem") {
    if (index0 + 1 == length) return heap.Undefined("there is no next item");
    return (*loop.items)[loop.index0 + 1];
  }
  return FindMethod(heap, value, name);
}

// A negative index counts from the end. False if it is outside.
bool ResolveIndex(int64_t index, size_t size, size_t* out) {
  const auto length = static_cast<int64_t>(size);
  if (index < 0) index += length;
  if (index < 0 || index >= length) return false;
  *out = static_cast<size_t>(index);
  return true;
}

// What `+` and `*` work on, besides strings.
bool IsListOrTuple(const Value& value) {
  return value.kind() == Kind::kSequence &&
         (value.sequence().flavor == Flavor::kList || value.sequence().flavor == Flavor::kTuple);
}

bool IsIndexable(const Value& value) {
  return IsListOrTuple(value) ||
         (value.kind() == Kind::kSequence && value.sequence().flavor == Flavor::kRange);
}

Value MissingItem(Heap& heap, const Value& value, const Value& key) {
  if (key.is_string()) {
    return Value::Undefined(value.kind() == Kind::kDict ? Missing::kDictKey : Missing::kAttribute,
                            key.text());
  }
  if (key.is_integral()) {
    return heap.Undefined("there is no item " + std::to_string(key.integer()) + " in the '" +
                          std::string(TypeName(value)) + "'");
  }
  return heap.Undefined("there is no such item in the '" + std::string(TypeName(value)) + "'");
}

// A slice of `length` items, as Python's slice.indices gives it.
struct SliceRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t step = 1;
};

Result<int64_t> SlicePart(const Value& part, int64_t fallback) {
  if (part.is_none()) return fallback;
  if (part.is_integral()) return part.integer();
  if (part.is_undefined()) return UndefinedError(part);
  return TypeError("slice indices are integers, not '" + std::string(TypeName(part)) + "'");
}

Result<SliceRange> MakeSlice(int64_t length, const Value& begin, const Value& end,
                             const Value& step) {
  SliceRange range;
  ASSIGN_OR_RETURN(range.step, SlicePart(step, 1));
  if (range.step == 0) return TypeError("a slice's step is not zero");
  const bool forward = range.step > 0;
  const int64_t low = forward ? 0 : -1;
  const int64_t high = forward ? length : length - 1;
  const auto clamp = [&](int64_t index) {
    return std::clamp(index < 0 ? index + length : index, low, high);
  };
  ASSIGN_OR_RETURN(const int64_t first, SlicePart(begin, 0));
  ASSIGN_OR_RETURN(const int64_t last, SlicePart(end, 0));
  range.begin = begin.is_none() ? (forward ? low : high) : clamp(first);
  range.end = end.is_none() ? (forward ? high : low) : clamp(last);
  return range;
}

template <typename Take>
void ForSlice(const SliceRange& range, Take take) {
  // Counted by distance, so that a huge step cannot overflow.
  const int64_t span = range.step > 0 ? range.end - range.begin : range.begin - range.end;
  if (span <= 0) return;
  const uint64_t stride = range.step > 0 ? static_cast<uint64_t>(range.step)
                                         : uint64_t{0} - static_cast<uint64_t>(range.step);
  const uint64_t count = (static_cast<uint64_t>(span) - 1) / stride + 1;
  for (uint64_t i = 0; i < count; ++i) {
    take(static_cast<size_t>(range.begin + static_cast<int64_t>(i) * range.step));
  }
}

Result<Value> SliceText(Heap& heap, const Value& value, const Value& begin, const Value& end,
                        const Value& step) {
  const std::string_view text = value.text();
  heap.ChargeBytes(text.size());
  const int64_t length = CountCodePoints(text);
  ASSIGN_OR_RETURN(const SliceRange range, MakeSlice(length, begin, end, step));
  if (range.step == 1) {
    if (range.end <= range.begin) return Value::String("");
    const size_t first = ByteOffset(text, range.begin);
    const size_t bytes = ByteOffset(text.substr(first), range.end - range.begin);
    return value.Part(text.substr(first, bytes));
  }
  ASSIGN_OR_RETURN(const std::vector<Value> characters, Iterate(heap, value));
  TextBuilder out = heap.NewText();
  ForSlice(range, [&](size_t i) { out.Append(characters[i]); });
  return heap.Text(std::move(out));
}

}  // namespace

Result<Value> GetAttribute(Heap& heap, const Value& value, std::string_view name) {
  heap.Charge(1);
  if (value.is_undefined()) return UndefinedError(value);
  if (name.substr(0, 1) == "_" && value.kind() != Kind::kDict) {
    return Value::Undefined(Missing::kUnsafe, name);
  }
  if (value.kind() == Kind::kLoop) return LoopAttribute(heap, value, name);
  if (value.kind() == Kind::kNamespace) {
    const Value* entry = FindEntry(value.dict(), name);
    return entry != nullptr ? *entry : Value::Undefined(Missing::kAttribute, name);
  }
  if (value.kind() == Kind::kSequence && value.sequence().is_group) {
    if (name == "grouper") return value.sequence().items[0];
    if (name == "list") return value.sequence().items[1];
  }
  if (IsCycler(value) && name == "current") return CurrentOf(value.callable());
  const Value method = FindMethod(heap, value, name);
  if (!method.is_undefined() || method.missing() == Missing::kUnsafe) return method;
  if (value.kind() != Kind::kDict) return Value::Undefined(Missing::kAttribute, name);
  heap.Charge(value.dict().entries.size() / 4);
  const Value* entry = FindEntry(value.dict(), name);
  return entry != nullptr ? *entry : Value::Undefined(Missing::kDictKey, name);
}

Result<Value> GetItem(Heap& heap, const Value& value, const Value& key) {
  heap.Charge(1);
  if (value.is_undefined()) return UndefinedError(value);
  if (value.kind() == Kind::kDict) {
    heap.Charge(value.dict().entries.size() / 4);
    if (const Value* entry = FindEntry(value.dict(), key)) return *entry;
  }
  size_t index = 0;
  if (key.is_integral() && IsIndexable(value)) {
    const std::vector<Value>& items = value.sequence().items;
    if (ResolveIndex(key.integer(), items.size(), &index)) return items[index];
  }
  if (key.is_integral() && value.is_string()) {
    const std::string_view text = value.text();
    heap.ChargeBytes(text.size());
    const auto length = static_cast<size_t>(CountCodePoints(text));
    if (ResolveIndex(key.integer(), length, &index)) {
      const std::string_view rest = text.substr(ByteOffset(text, static_cast<int64_t>(index)));
      return value.Part(rest.substr(0, ByteOffset(rest, 1)));
    }
  }
  if (key.is_string() && value.kind() == Kind::kDict) {
    const Value method = FindMethod(heap, value, key.text());
    return method.is_undefined() ? MissingItem(heap, value, key) : method;
  }
  if (key.is_string()) return GetAttribute(heap, value, key.text());
  return MissingItem(heap, value, key);
}

Result<Value> GetSlice(Heap& heap, const Value& value, const Value& begin, const Value& end,
                       const Value& step) {
  if (value.is_undefined()) return UndefinedError(value);
  if (value.is_string()) return SliceText(heap, value, begin, end, step);
  if (!IsIndexable(value)) {
    return TypeError("a value of type '" + std::string(TypeName(value)) + "' cannot be sliced");
  }
  const std::vector<Value>& items = value.sequence().items;
  ASSIGN_OR_RETURN(const SliceRange range,
                   MakeSlice(static_cast<int64_t>(items.size()), begin, end, step));
  heap.Charge(items.size() / 4);
  if (value.sequence().flavor == Flavor::kRange) {
    const RangeBounds& bounds = value.sequence().bounds;
    const auto clamped = [](__int128 number) {
      return static_cast<int64_t>(std::clamp<__int128>(number, INT64_MIN, INT64_MAX));
    };
    const __int128 stride = bounds.step;
    return heap.NewRange({clamped(bounds.start + range.begin * stride),
                          clamped(bounds.start + range.end * stride),
                          clamped(range.step * stride)});
  }
  std::vector<Value> slice;
  ForSlice(range, [&](size_t i) { slice.push_back(items[i]); });
  return heap.NewSequence(value.sequence().flavor, std::move(slice));
}

namespace {

std::string_view OpText(BinaryOp op) {
  static constexpr std::string_view kTexts[] = {"+", "-", "*", "/", "//", "%", "**"};
  return kTexts[static_cast<size_t>(op)];
}

Status Overflow() { return InvalidArgumentError("an integer does not fit into 64 bits"); }
Status DividedByZero() { return InvalidArgumentError("division by zero"); }

Result<Value> IntegerPower(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return DividedByZero();
    return Value::Float(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return Overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return Overflow();
  }
  return Value::Int(result);
}

Result<Value> IntegerBinary(BinaryOp op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case BinaryOp::kAdd:
      return __builtin_add_overflow(a, b, &result) ? Result<Value>(Overflow()) : Value::Int(result);
    case BinaryOp::kSubtract:
      return __builtin_sub_overflow(a, b, &result) ? Result<Value>(Overflow()) : Value::Int(result);
    case BinaryOp::kMultiply:
      return __builtin_mul_overflow(a, b, &result) ? Result<Value>(Overflow()) : Value::Int(result);
    case BinaryOp::kDivide:
      if (b == 0) return DividedByZero();
      return Value::Float(static_cast<double>(a) / static_cast<double>(b));
    case BinaryOp::kFloorDivide:
    case BinaryOp::kModulo: {
      if (b == 0) return DividedByZero();
      if (a == INT64_MIN && b == -1) return Overflow();
      // C++ rounds towards zero, Python down.
      const bool adjust = a % b != 0 && (a < 0) != (b < 0);
      if (op == BinaryOp::kModulo) return Value::Int(a % b + (adjust ? b : 0));
      return Value::Int(a / b - (adjust ? 1 : 0));
    }
    case BinaryOp::kPower:
      return IntegerPower(a, b);
  }
  return Overflow();
}

Result<Value> FloatBinary(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::kAdd:
      return Value::Float(a + b);
    case BinaryOp::kSubtract:
      return Value::Float(a - b);
    case BinaryOp::kMultiply:
      return Value::Float(a * b);
    case BinaryOp::kDivide:
      if (b == 0) return DividedByZero();
      return Value::Float(a / b);
    case BinaryOp::kFloorDivide:
    case BinaryOp::kModulo: {
      if (b == 0) return DividedByZero();
      double remainder = std::fmod(a, b);
      if (remainder != 0 && (remainder < 0) != (b < 0)) remainder += b;
      if (op == BinaryOp::kModulo) return Value::Float(remainder);
      return Value::Float(std::round((a - remainder) / b));
    }
    case BinaryOp::kPower:
      if (a == 0 && b < 0) return DividedByZero();
      if (a < 0 && b != std::floor(b)) {
        return InvalidArgumentError("a fractional power of a negative number");
      }
      return Value::Float(std::pow(a, b));
  }
  return DividedByZero();
}

Result<Value> Repeat(Heap& heap, const Value& value, int64_t count) {
  count = std::max<int64_t>(count, 0);
  if (value.is_string()) {
    const std::string_view text = value.text();
    RETURN_IF_ERROR(heap.Fits(static_cast<double>(text.size()) * static_cast<double>(count)));
    if (text.empty()) return value;
    std::string out;
    out.reserve(text.size() * static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) out += text;
    return heap.Derived(std::move(out), value);
  }
  const std::vector<Value>& items = value.sequence().items;
  RETURN_IF_ERROR(
      heap.Fits(static_cast<double>(items.size() * sizeof(Value)) * static_cast<double>(count)));
  std::vector<Value> repeated;
  for (int64_t i = 0; i < count && !items.empty(); ++i) {
    repeated.insert(repeated.end(), items.begin(), items.end());
  }
  return heap.NewSequence(value.sequence().flavor, std::move(repeated));
}

Result<Value> Concatenate(Heap& heap, const Value& a, const Value& b) {
  if (a.is_string()) {
    heap.ChargeBytes(a.text().size() + b.text().size());
    TextBuilder text = heap.NewText();
    text.Reserve(a.text().size() + b.text().size());
    text.Append(a);
    text.Append(b);
    return heap.Text(std::move(text));
  }
  std::vector<Value> items = a.sequence().items;
  const std::vector<Value>& more = b.sequence().items;
  heap.Charge((items.size() + more.size()) / 4);
  items.insert(items.end(), more.begin(), more.end());
  return heap.NewSequence(a.sequence().flavor, std::move(items));
}

}  // namespace

Result<Value> Binary(Heap& heap, BinaryOp op, const Value& a, const Value& b) {
  if (a.is_string() && op == BinaryOp::kModulo) return FormatPercent(heap, a.text(), b);
  if (a.is_undefined()) return UndefinedError(a);
  if (b.is_undefined()) return UndefinedError(b);
  if (a.is_integral() && b.is_integral()) return IntegerBinary(op, a.integer(), b.integer());
  if (a.is_number() && b.is_number()) return FloatBinary(op, a.number(), b.number());
  if (op == BinaryOp::kAdd) {
    const bool alike =
        IsListOrTuple(a) && IsListOrTuple(b) && a.sequence().flavor == b.sequence().flavor;
    if ((a.is_string() && b.is_string()) || alike) return Concatenate(heap, a, b);
  }
  if (op == BinaryOp::kMultiply) {
    if ((a.is_string() || IsListOrTuple(a)) && b.is_integral()) return Repeat(heap, a, b.integer());
    if ((b.is_string() || IsListOrTuple(b)) && a.is_integral()) return Repeat(heap, b, a.integer());
  }
  return TypeError("'" + std::string(OpText(op)) + "' does not work between '" +
                   std::string(TypeName(a)) + "' and '" + std::string(TypeName(b)) + "'");
}

Result<Value> Negative(const Value& value) {
  if (value.kind() == Kind::kFloat) return Value::Float(-value.number());
  if (value.is_integral()) return IntegerBinary(BinaryOp::kSubtract, 0, value.integer());
  if (value.is_undefined()) return UndefinedError(value);
  return TypeError("'-' needs a number, not '" + std::string(TypeName(value)) + "'");
}

Result<Value> Positive(const Value& value) {
  if (value.kind() == Kind::kFloat) return value;
  if (value.is_integral()) return Value::Int(value.integer());
  if (value.is_undefined()) return UndefinedError(value);
  return TypeError("'+' needs a number, not '" + std::string(TypeName(value)) + "'");
}

}  // namespace graft::jinja
