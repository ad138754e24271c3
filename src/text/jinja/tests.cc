#include "text/jinja/tests.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "text/jinja/access.h"
#include "text/jinja/filters.h"
#include "text/jinja/python_text.h"
#include "text/jinja/write.h"

namespace graft::jinja {
namespace {

template <Kind kKind>
Result<bool> IsKind(Heap&, const Value& input, const Bound&) {
  return input.kind() == kKind;
}

Result<bool> IsCallable(Heap&, const Value& input, const Bound&) {
  return input.kind() == Kind::kCallable && !IsCycler(input);
}

Result<bool> IsDefined(Heap&, const Value& input, const Bound&) { return !input.is_undefined(); }
Result<bool> IsUndefined(Heap&, const Value& input, const Bound&) { return input.is_undefined(); }
Result<bool> IsNumberTest(Heap&, const Value& input, const Bound&) { return input.is_number(); }

Result<bool> IsTrue(Heap&, const Value& input, const Bound&) {
  return input.kind() == Kind::kBool && input.boolean();
}

Result<bool> IsFalse(Heap&, const Value& input, const Bound&) {
  return input.kind() == Kind::kBool && !input.boolean();
}

// Has a length and can be indexed; an undefined value can do neither without an error, yet Jinja
// only looks whether len() works and the method is there, which it is.
Result<bool> IsSequence(Heap&, const Value& input, const Bound&) {
  switch (input.kind()) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kDict:
      return true;
    case Kind::kSequence:
      return input.sequence().flavor == Flavor::kList ||
             input.sequence().flavor == Flavor::kTuple || input.sequence().flavor == Flavor::kRange;
    default:
      return false;
  }
}

Result<bool> IsIterable(Heap&, const Value& input, const Bound&) {
  switch (input.kind()) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kDict:
    case Kind::kSequence:
    case Kind::kLoop:
      return true;
    default:
      return false;
  }
}

template <bool (*kPredicate)(std::string_view)>
Result<bool> TextTest(Heap& heap, const Value& input, const Bound&) {
  ASSIGN_OR_RETURN(const Value text, ToText(heap, input));
  return kPredicate(text.text());
}

Result<bool> EqualTest(Heap& heap, const Value& input, const Bound& bound) {
  ASSIGN_OR_RETURN(const Value other, bound.Required(0));
  return Equal(heap, input, other);
}

Result<bool> NotEqualTest(Heap& heap, const Value& input, const Bound& bound) {
  ASSIGN_OR_RETURN(const bool equal, EqualTest(heap, input, bound));
  return !equal;
}

template <bool (*kAccepts)(int)>
Result<bool> OrderTest(Heap& heap, const Value& input, const Bound& bound) {
  ASSIGN_OR_RETURN(const Value other, bound.Required(0));
  ASSIGN_OR_RETURN(const int order, Compare(heap, input, other));
  return kAccepts(order);
}

bool IsLess(int order) { return order < 0; }
bool IsLessOrEqual(int order) { return order <= 0; }
bool IsGreater(int order) { return order > 0; }
bool IsGreaterOrEqual(int order) { return order >= 0; }

Result<bool> InTest(Heap& heap, const Value& input, const Bound& bound) {
  ASSIGN_OR_RETURN(const Value haystack, bound.Required(0));
  return Contains(heap, input, haystack);
}

// One object in memory: for what Python keeps once (None, True, small numbers) the same value.
Result<bool> SameAs(Heap& heap, const Value& input, const Bound& bound) {
  ASSIGN_OR_RETURN(const Value other, bound.Required(0));
  if (input.kind() != other.kind()) return false;
  if (input.kind() == Kind::kSequence) return &input.sequence() == &other.sequence();
  if (input.kind() == Kind::kDict) return &input.dict() == &other.dict();
  return Equal(heap, input, other);
}

Result<bool> DivisibleBy(Heap& heap, const Value& input, const Bound& bound) {
  ASSIGN_OR_RETURN(const Value divisor, bound.Required(0));
  ASSIGN_OR_RETURN(const Value rest, Binary(heap, BinaryOp::kModulo, input, divisor));
  return !Truth(rest);
}

template <int64_t kRest>
Result<bool> RestOfTwo(Heap& heap, const Value& input, const Bound&) {
  ASSIGN_OR_RETURN(const Value rest, Binary(heap, BinaryOp::kModulo, input, Value::Int(2)));
  return Equal(heap, rest, Value::Int(kRest));
}

Result<bool> NameOfFilter(Heap&, const Value& input, const Bound&) {
  return input.is_string() && FindFilter(input.text()) != nullptr;
}

Result<bool> NameOfTest(Heap&, const Value& input, const Bound&) {
  return input.is_string() && FindTest(input.text()) != nullptr;
}

constexpr ParameterNames kOther = {"other"};

constexpr TestSpec kTests[] = {
    {"defined", IsDefined},
    {"undefined", IsUndefined},
    {"none", IsKind<Kind::kNone>},
    {"string", IsKind<Kind::kString>},
    {"mapping", IsKind<Kind::kDict>},
    {"boolean", IsKind<Kind::kBool>},
    {"integer", IsKind<Kind::kInt>},
    {"float", IsKind<Kind::kFloat>},
    {"callable", IsCallable},
    {"number", IsNumberTest},
    {"true", IsTrue},
    {"false", IsFalse},
    {"sequence", IsSequence},
    {"iterable", IsIterable},
    {"lower", TextTest<IsLower>},
    {"upper", TextTest<IsUpper>},
    {"eq", EqualTest, kOther},
    {"equalto", EqualTest, kOther},
    {"==", EqualTest, kOther},
    {"ne", NotEqualTest, kOther},
    {"!=", NotEqualTest, kOther},
    {"lt", OrderTest<IsLess>, kOther},
    {"lessthan", OrderTest<IsLess>, kOther},
    {"<", OrderTest<IsLess>, kOther},
    {"le", OrderTest<IsLessOrEqual>, kOther},
    {"<=", OrderTest<IsLessOrEqual>, kOther},
    {"gt", OrderTest<IsGreater>, kOther},
    {"greaterthan", OrderTest<IsGreater>, kOther},
    {">", OrderTest<IsGreater>, kOther},
    {"ge", OrderTest<IsGreaterOrEqual>, kOther},
    {">=", OrderTest<IsGreaterOrEqual>, kOther},
    {"in", InTest, {"seq"}},
    {"sameas", SameAs, kOther},
    {"divisibleby", DivisibleBy, {"num"}},
    {"odd", RestOfTwo<1>},
    {"even", RestOfTwo<0>},
    {"filter", NameOfFilter},
    {"test", NameOfTest},
};

}  // namespace

const TestSpec* FindTest(std::string_view name) {
  const auto* row = std::find_if(std::begin(kTests), std::end(kTests),
                                 [&](const TestSpec& test) { return test.name == name; });
  return row == std::end(kTests) ? nullptr : row;
}

Result<bool> ApplyTest(Heap& heap, const TestSpec& test, const Value& input,
                       const Arguments& arguments) {
  heap.Charge(1);
  ASSIGN_OR_RETURN(const Bound bound, Bound::Make(test.name, test.parameters, arguments));
  return test.function(heap, input, bound);
}

}  // namespace graft::jinja
