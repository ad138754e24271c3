// Value: the values of a template, as Python has them: undefined, None, bool, int, float, str,
// list-likes, dict, namespace and callables. A Value is a small handle. Its data lives in the Heap
// of one rendering, which also counts what the rendering may still spend. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "text/jinja/origin.h"

namespace graft::jinja {

struct Sequence;
struct Dict;
struct Loop;
struct Callable;
struct Scope;
struct Stmt;

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kSequence,
  kDict,
  kNamespace,
  kLoop,
  kCallable,
};

// Why a value is undefined; decides the error's words.
enum class Missing : uint8_t { kName, kDictKey, kAttribute, kUnsafe, kMessage };

class Value {
 public:
  Value() : text_{nullptr, 0} {}

  static Value None() { return {Kind::kNone, int64_t{0}}; }
  static Value Bool(bool value) { return {Kind::kBool, int64_t{value}}; }
  static Value Int(int64_t value) { return {Kind::kInt, value}; }
  static Value Float(double value) { return {Kind::kFloat, value}; }
  // The bytes must outlive the rendering (template, context, or Heap) and be valid UTF-8. `origin`
  // is theirs, where the caller knows it.
  static Value String(std::string_view text, OriginId origin = kByAddress) {
    Value value(Kind::kString, text);
    value.origin_ = origin;
    return value;
  }
  // `name`: what was looked for; with kMessage the whole error.
  static Value Undefined(Missing why, std::string_view name) {
    Value value(Kind::kUndefined, name);
    value.missing_ = why;
    return value;
  }
  static Value Of(Sequence* sequence) { return {Kind::kSequence, sequence}; }
  static Value Of(Dict* dict) { return {Kind::kDict, dict}; }
  static Value NamespaceOf(Dict* attributes) { return {Kind::kNamespace, attributes}; }
  static Value Of(Loop* loop) { return {Kind::kLoop, loop}; }
  static Value Of(Callable* callable) { return {Kind::kCallable, callable}; }

  Kind kind() const { return kind_; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_string() const { return kind_ == Kind::kString; }
  // int or bool, which Python takes for one.
  bool is_integral() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }
  bool is_number() const { return is_integral() || kind_ == Kind::kFloat; }

  bool boolean() const { return integer_ != 0; }
  // For kInt and kBool.
  int64_t integer() const { return integer_; }
  // For every number.
  double number() const { return kind_ == Kind::kFloat ? float_ : static_cast<double>(integer_); }
  // For kString and kUndefined.
  std::string_view text() const { return std::string_view(text_.data, text_.size); }
  // For kString.
  OriginId origin() const { return origin_; }
  // `text`, a part of this string's bytes.
  Value Part(std::string_view text) const { return String(text, origin_); }
  Missing missing() const { return missing_; }
  Sequence& sequence() const { return *sequence_; }
  Dict& dict() const { return *dict_; }  // for kDict and kNamespace
  Loop& loop() const { return *loop_; }
  Callable& callable() const { return *callable_; }

 private:
  Value(Kind kind, int64_t integer) : kind_(kind), integer_(integer) {}
  Value(Kind kind, double number) : kind_(kind), float_(number) {}
  Value(Kind kind, std::string_view text) : kind_(kind), text_{text.data(), text.size()} {}
  Value(Kind kind, Sequence* sequence) : kind_(kind), sequence_(sequence) {}
  Value(Kind kind, Dict* dict) : kind_(kind), dict_(dict) {}
  Value(Kind kind, Loop* loop) : kind_(kind), loop_(loop) {}
  Value(Kind kind, Callable* callable) : kind_(kind), callable_(callable) {}

  Kind kind_ = Kind::kUndefined;
  Missing missing_ = Missing::kName;
  OriginId origin_ = kByAddress;
  union {
    int64_t integer_;
    double float_;
    struct {
      const char* data;
      size_t size;
    } text_;
    Sequence* sequence_;
    Dict* dict_;
    Loop* loop_;
    Callable* callable_;
  };
};

void TextBuilder::Append(const Value& piece) { Append(piece.text(), piece.origin()); }

// What Python type a run of items has; templates can tell them apart.
enum class Flavor : uint8_t {
  kList,
  kTuple,
  kRange,
  kIterator,  // a generator: always true, no length, can be walked once
  kKeysView,
  kItemsView,
  kValuesView,
};

// What range() was called with.
struct RangeBounds {
  int64_t start = 0;
  int64_t stop = 0;
  int64_t step = 1;
};

struct Sequence {
  Flavor flavor = Flavor::kList;
  std::vector<Value> items;
  size_t next = 0;          // of kIterator: items before it are consumed
  RangeBounds bounds = {};  // of kRange
  bool is_group = false;    // of kTuple: one of groupby's, with .grouper and .list
};

// In order of insertion. Keys are str, int, float, bool or None.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
};

// `loop` inside a for.
struct Loop {
  const std::vector<Value>* items = nullptr;  // of a Sequence of the same Heap
  size_t index0 = 0;
  std::optional<std::vector<Value>> last_changed;
  // What `loop(items)` of a recursive loop runs again, in the scope around the loop.
  const Stmt* stmt = nullptr;
  Scope* scope = nullptr;
  int depth0 = 0;
};

// The variables of one block; inner ones hide outer ones of the same name.
struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<std::string_view, Value>> variables;
};

// A joiner gives nothing at its first call, its separator at every later one. A cycler is no
// callable to templates: it has the methods next and reset, and current.
enum class CallableKind : uint8_t { kGlobal, kMethod, kMacro, kJoiner, kCycler };

struct Callable {
  CallableKind kind = CallableKind::kGlobal;
  std::string_view name;
  Value self;                   // of kMethod; of kJoiner the separator, of kCycler a tuple
  const Stmt* macro = nullptr;  // of kMacro
  Scope* closure = nullptr;     // of kMacro
  size_t turns = 0;             // of kJoiner and kCycler: how often it was used
};

struct Argument {
  std::string_view name;  // "" for a positional one
  Value value;
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<Argument> keyword;
};

inline bool IsCycler(const Value& value) {
  return value.kind() == Kind::kCallable && value.callable().kind == CallableKind::kCycler;
}
// What a cycler's next will give.
Value CurrentOf(const Callable& cycler);

// What one rendering may spend. Past any of them it ends with kResourceExhausted.
struct Limits {
  size_t memory_bytes = size_t{256} << 20;  // all values made, garbage included
  size_t output_bytes = size_t{64} << 20;
  uint64_t work = 20'000'000;  // about one per node evaluated or 16 bytes looked at
  int depth = 1000;            // statements, expressions and macros within each other
};

// Heap owns every value of one rendering and counts its cost. Spending past a limit does not fail
// at once. It makes status() a failure, which the interpreter checks after each node. Code that is
// about to make something much larger than its inputs asks Fits first.
class Heap {
 public:
  explicit Heap(const Limits& limits) : limits_(limits) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // A text of the template's own making, none of which comes from outside.
  Value TemplateText(std::string text);
  // A text of pieces that keep their origins; NewText begins one.
  Value Text(TextBuilder text);
  TextBuilder NewText() const { return TextBuilder(&origins_); }
  // A text that was made of the string `source` in a way that loses which byte came from which: if
  // any is untrusted, all are.
  Value Derived(std::string text, const Value& source);
  Value Undefined(std::string message);
  Value NewSequence(Flavor flavor, std::vector<Value> items);
  // The numbers of a range, of which there are not too many.
  Value NewRange(const RangeBounds& bounds);
  Value List(std::vector<Value> items) { return NewSequence(Flavor::kList, std::move(items)); }
  Value NewDict(std::vector<std::pair<Value, Value>> entries);
  Dict* NewEntries();
  Callable* NewCallable(Callable callable);
  Scope* NewScope(Scope* parent);
  // Over the items of `sequence`, a value of this heap.
  Loop* NewLoop(const Value& sequence, const Stmt& stmt, Scope* scope, int depth0);

  // False, and a failing status(), once the work is used up, or is unwanted.
  bool Charge(uint64_t work) {
    spent_work_ += work;
    return spent_work_ <= checked_work_ || CheckWork();
  }
  bool ChargeBytes(size_t bytes) { return Charge(1 + bytes / 16); }
  // A failure if a value of that many bytes could not be made.
  Status Fits(double bytes) const;
  const Status& status() const { return status_; }
  Origins& origins() { return origins_; }
  const Limits& limits() const { return limits_; }

 private:
  friend class Nesting;
  void Spend(size_t bytes);
  bool CheckWork();

  const Limits limits_;
  size_t spent_bytes_ = 0;
  uint64_t spent_work_ = 0;
  uint64_t checked_work_ = 0;  // up to here it may go on without a question
  int depth_ = 0;
  Status status_;
  Origins origins_;
  std::deque<std::string> strings_;
  std::deque<Sequence> sequences_;
  std::deque<Dict> dicts_;
  std::deque<Callable> callables_;
  std::deque<Scope> scopes_;
  std::deque<Loop> loops_;
};

// One level of the interpreter's recursion, or several for what needs more stack, for as long as it
// lives; costs one unit of work.
class Nesting {
 public:
  explicit Nesting(Heap* heap, int levels = 1) : heap_(*heap), levels_(levels) {
    heap_.depth_ += levels_;
    heap_.Charge(1);
  }
  ~Nesting() { heap_.depth_ -= levels_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

  // False if the level is too deep or the heap is spent; status() says which.
  bool ok() const { return heap_.depth_ <= heap_.limits_.depth && heap_.status_.ok(); }
  Status status() const;

 private:
  Heap& heap_;
  const int levels_;
};

// Values are compared and written by recursion; deeper ones are refused, as Python does.
inline constexpr int kValueDepthMax = 200;

// Python's name of the type, for errors: "str", "NoneType", ...
std::string_view TypeName(const Value& value);
// The error that using an undefined value gives.
Status UndefinedError(const Value& undefined);
Status TypeError(std::string message);

// bool(value)
bool Truth(const Value& value);
// a == b
Result<bool> Equal(Heap& heap, const Value& a, const Value& b, int depth = 0);
// Negative, zero or positive; a type error for what Python cannot order.
Result<int> Compare(Heap& heap, const Value& a, const Value& b, int depth = 0);
// needle in haystack
Result<bool> Contains(Heap& heap, const Value& needle, const Value& haystack);
// len(value)
Result<int64_t> Length(const Value& value);
// list(value): items, keys, or code points. Consumes an iterator.
Result<std::vector<Value>> Iterate(Heap& heap, const Value& value);

// The entry of `key`, or nullptr.
Value* FindEntry(Dict& dict, const Value& key);
Value* FindEntry(Dict& dict, std::string_view key);
// dict[key] = value. A type error for a key that Graft's dicts do not hold.
Status SetEntry(Heap& heap, Dict* dict, const Value& key, const Value& value);

}  // namespace graft::jinja
