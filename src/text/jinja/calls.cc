// The interpreter's calls: methods, macros, and the functions that every template can name.
#include <algorithm>
#include <ctime>
#include <string>
#include <utility>

#include "text/jinja/arguments.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/methods.h"
#include "text/jinja/write.h"

namespace graft::jinja {
namespace {

constexpr int64_t kRangeMax = 100'000;  // Jinja's sandbox has the same

Result<Value> CallRange(Heap& heap, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, Bound::Make("range", {"start", "stop", "step"}, arguments));
  RETURN_IF_ERROR(bound.Required(0).status());
  ASSIGN_OR_RETURN(int64_t start, bound.IntOr(0, 0));
  ASSIGN_OR_RETURN(int64_t stop, bound.IntOr(1, 0));
  ASSIGN_OR_RETURN(const int64_t step, bound.IntOr(2, 1));
  if (!bound.Has(1)) stop = std::exchange(start, 0);
  if (step == 0) return InvalidArgumentError("'range' needs a step that is not zero");
  const __int128 span = step > 0 ? __int128{stop} - start : __int128{start} - stop;
  const __int128 stride = step > 0 ? __int128{step} : -__int128{step};
  if (span > stride * kRangeMax) {
    return ResourceExhaustedError("'range' gives at most " + std::to_string(kRangeMax) +
                                  " numbers");
  }
  return heap.NewRange({start, stop, step});
}

// dict(mapping, **more), which is also how a namespace starts.
Result<Dict*> CallDict(Heap& heap, std::string_view name, const Arguments& arguments) {
  Dict* dict = heap.NewEntries();
  if (arguments.positional.size() > 1) {
    return TypeError("'" + std::string(name) + "' takes at most one positional argument");
  }
  for (const Value& initial : arguments.positional) {
    if (initial.kind() == Kind::kDict) {
      dict->entries = initial.dict().entries;
      heap.Charge(dict->entries.size());
      continue;
    }
    ASSIGN_OR_RETURN(const std::vector<Value> pairs, Iterate(heap, initial));
    for (const Value& pair : pairs) {
      ASSIGN_OR_RETURN(const std::vector<Value> parts, Iterate(heap, pair));
      if (parts.size() != 2) return TypeError("a dict is made of pairs");
      RETURN_IF_ERROR(SetEntry(heap, dict, parts[0], parts[1]));
    }
  }
  for (const Argument& argument : arguments.keyword) {
    RETURN_IF_ERROR(SetEntry(heap, dict, Value::String(argument.name), argument.value));
  }
  return dict;
}

Value NewTurns(Heap& heap, CallableKind kind, const Value& self) {
  Callable callable;
  callable.kind = kind;
  callable.self = self;
  return Value::Of(heap.NewCallable(callable));
}

void SetParameter(Scope* scope, std::string_view name, const Value& value) {
  scope->variables.emplace_back(name, value);
}

}  // namespace

Result<Value> Interpreter::Call(const Value& callee, const Arguments& arguments) {
  if (callee.is_undefined()) return UndefinedError(callee);
  if (callee.kind() == Kind::kLoop) return CallLoop(callee.loop(), arguments);
  if (callee.kind() != Kind::kCallable || IsCycler(callee)) {
    return TypeError("a value of type '" + std::string(TypeName(callee)) + "' cannot be called");
  }
  Callable& callable = callee.callable();
  switch (callable.kind) {
    case CallableKind::kGlobal:
      return CallGlobal(callable.name, arguments);
    case CallableKind::kMethod:
      return CallMethod(heap_, callable.self, callable.name, arguments);
    case CallableKind::kMacro:
      return CallMacro(callable, arguments);
    case CallableKind::kJoiner:
      RETURN_IF_ERROR(Bound::Make("joiner", {}, arguments).status());
      return callable.turns++ == 0 ? Value::String("") : callable.self;
    case CallableKind::kCycler:
      break;
  }
  return Value();
}

// loop(items): the loop's text over items of theirs, one level deeper.
Result<Value> Interpreter::CallLoop(const Loop& loop, const Arguments& arguments) {
  if (!loop.stmt->recursive) {
    return TypeError("a loop that is called needs the word 'recursive' in its {% for %}");
  }
  ASSIGN_OR_RETURN(const Bound bound, Bound::Make("loop", {"iterable"}, arguments));
  ASSIGN_OR_RETURN(const Value iterable, bound.Required(0));
  const Nesting nesting(&heap_);
  if (!nesting.ok()) return nesting.status();
  const Stmt& stmt = *loop.stmt;
  ASSIGN_OR_RETURN(std::vector<Value> items, ForItems(stmt, iterable, loop.scope));
  return Capture([&] { return RunTurns(stmt, std::move(items), loop.scope, loop.depth0 + 1); });
}

Status Interpreter::BindMacro(const Stmt& macro, const Arguments& arguments, Scope* scope) {
  const std::string name = "macro '" + macro.text + "'";
  const size_t num_parameters = macro.parameters.size();
  if (arguments.positional.size() > num_parameters && !macro.uses_varargs) {
    return TypeError(name + " takes at most " + std::to_string(num_parameters) + " arguments");
  }
  std::vector<Argument> rest = arguments.keyword;
  for (size_t i = 0; i < num_parameters; ++i) {
    const Parameter& parameter = macro.parameters[i];
    const auto keyword = std::find_if(rest.begin(), rest.end(), [&](const Argument& argument) {
      return argument.name == parameter.name;
    });
    if (i < arguments.positional.size()) {
      if (keyword != rest.end()) return TypeError(name + " got '" + parameter.name + "' twice");
      SetParameter(scope, parameter.name, arguments.positional[i]);
    } else if (keyword != rest.end()) {
      SetParameter(scope, parameter.name, keyword->value);
      rest.erase(keyword);
    } else if (parameter.default_value != nullptr) {
      ASSIGN_OR_RETURN(const Value value, Evaluate(*parameter.default_value, scope));
      SetParameter(scope, parameter.name, value);
    } else {
      SetParameter(scope, parameter.name, Value::Undefined(Missing::kName, parameter.name));
    }
  }
  if (macro.uses_varargs) {
    const size_t used = std::min(num_parameters, arguments.positional.size());
    std::vector<Value> extra(arguments.positional.begin() + static_cast<ptrdiff_t>(used),
                             arguments.positional.end());
    SetParameter(scope, "varargs", heap_.NewSequence(Flavor::kTuple, std::move(extra)));
  }
  Dict* extra = heap_.NewEntries();
  if (macro.uses_caller) {
    SetParameter(scope, "caller", Value::Undefined(Missing::kName, "caller"));
  }
  for (const Argument& argument : rest) {
    if (argument.name == "caller" && macro.uses_caller) {
      scope->variables.back().second = argument.value;
    } else if (macro.uses_kwargs) {
      RETURN_IF_ERROR(SetEntry(heap_, extra, Value::String(argument.name), argument.value));
    } else {
      return TypeError(name + " has no parameter '" + std::string(argument.name) + "'");
    }
  }
  if (macro.uses_kwargs) SetParameter(scope, "kwargs", Value::Of(extra));
  return OkStatus();
}

Result<Value> Interpreter::CallMacro(const Callable& callable, const Arguments& arguments) {
  // What calls itself needs the stack of several frames for a level of its own.
  const Nesting nesting(&heap_);
  if (!nesting.ok()) return nesting.status();
  const Stmt& macro = *callable.macro;
  Scope* scope = heap_.NewScope(callable.closure);
  RETURN_IF_ERROR(BindMacro(macro, arguments, scope));
  return Capture([&] { return RunBlock(macro.body, heap_.NewScope(scope)); });
}

Result<Value> Interpreter::CallStrftime(const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, Bound::Make("strftime_now", {"format"}, arguments));
  ASSIGN_OR_RETURN(const std::string_view format, bound.Text(0));
  if (format.find("%f") != std::string_view::npos) {
    return UnimplementedError("%f in strftime_now is not supported");
  }
  const std::time_t now = static_cast<std::time_t>(now_);
  std::tm local = {};
  localtime_r(&now, &local);
  char buffer[4096];
  if (format.size() > sizeof(buffer) / 16) {
    return InvalidArgumentError("the format of strftime_now is too long");
  }
  // 0 also stands for an empty result, which only an empty format or e.g. "%p" can have.
  const size_t bytes = std::strftime(buffer, sizeof(buffer), std::string(format).c_str(), &local);
  return heap_.Derived(std::string(buffer, bytes), bound.Or(0, Value()));
}

Result<Value> Interpreter::CallGlobal(std::string_view name, const Arguments& arguments) {
  if (name == "range") return CallRange(heap_, arguments);
  if (name == "strftime_now") return CallStrftime(arguments);
  if (name == "dict") {
    ASSIGN_OR_RETURN(Dict * dict, CallDict(heap_, name, arguments));
    return Value::Of(dict);
  }
  if (name == "joiner") {
    ASSIGN_OR_RETURN(const Bound bound, Bound::Make(name, {"sep"}, arguments));
    return NewTurns(heap_, CallableKind::kJoiner, bound.Or(0, Value::String(", ")));
  }
  if (name == "cycler") {
    if (arguments.positional.empty() || !arguments.keyword.empty()) {
      return TypeError("'cycler' takes one value or more, without names");
    }
    return NewTurns(heap_, CallableKind::kCycler,
                    heap_.NewSequence(Flavor::kTuple, arguments.positional));
  }
  if (name == "namespace") {
    ASSIGN_OR_RETURN(Dict * attributes, CallDict(heap_, name, arguments));
    return Value::NamespaceOf(attributes);
  }
  CHECK(name == "raise_exception") << name;
  ASSIGN_OR_RETURN(const Bound bound, Bound::Make(name, {"message"}, arguments));
  ASSIGN_OR_RETURN(const Value message, bound.Required(0));
  ASSIGN_OR_RETURN(const Value text, ToText(heap_, message));
  return InvalidArgumentError("the template refuses these messages: " + std::string(text.text()));
}

}  // namespace graft::jinja
