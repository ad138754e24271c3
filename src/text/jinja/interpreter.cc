#include "text/jinja/interpreter.h"

#include <algorithm>
#include <utility>

#include "text/jinja/access.h"
#include "text/jinja/filters.h"
#include "text/jinja/methods.h"
#include "text/jinja/tests.h"
#include "text/jinja/write.h"

namespace graft::jinja {
namespace {

constexpr std::string_view kGlobals[] = {
    "raise_exception", "strftime_now", "namespace", "range", "dict", "joiner", "cycler"};
constexpr std::string_view kUnsupportedGlobals[] = {"lipsum", "self"};

template <size_t N>
bool IsOneOf(std::string_view name, const std::string_view (&names)[N]) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

void SetVariable(Scope* scope, std::string_view name, const Value& value) {
  for (auto& variable : scope->variables) {
    if (variable.first == name) {
      variable.second = value;
      return;
    }
  }
  scope->variables.emplace_back(name, value);
}

const Value* FindVariable(const Scope* scope, std::string_view name) {
  for (; scope != nullptr; scope = scope->parent) {
    for (const auto& variable : scope->variables) {
      if (variable.first == name) return &variable.second;
    }
  }
  return nullptr;
}

bool IsSum(const Expr& expr) { return expr.kind == ExprKind::kBinary && expr.op == BinaryOp::kAdd; }

}  // namespace

Result<TextBuilder> Interpreter::Run(const Block& block,
                                     std::vector<std::pair<std::string_view, Value>> variables) {
  root_ = heap_.NewScope(nullptr);
  for (auto& [name, value] : variables) context_.insert_or_assign(name, value);
  const Status status = RunBlock(block, root_);
  if (!status.ok()) return status.WithContext("line " + std::to_string(line_));
  return std::move(out_);
}

Status Interpreter::RunBlock(const Block& block, Scope* scope) {
  for (const Stmt& stmt : block) {
    RETURN_IF_ERROR(RunStatement(stmt, scope));
    if (flow_ != Flow::kNext) break;
  }
  return OkStatus();
}

Status Interpreter::RunStatement(const Stmt& stmt, Scope* scope) {
  const Nesting nesting(&heap_);
  line_ = stmt.line;
  if (!nesting.ok()) return nesting.status();
  switch (stmt.kind) {
    case StmtKind::kText:
      RETURN_IF_ERROR(ChargeOutput(stmt.text.size()));
      out_.AppendTrusted(stmt.text);
      return OkStatus();
    case StmtKind::kOutput: {
      ASSIGN_OR_RETURN(const Value rest, EmitTexts(*stmt.expr, scope));
      return Emit(rest);
    }
    case StmtKind::kIf:
      return RunIf(stmt, scope);
    case StmtKind::kFor:
      return RunFor(stmt, scope);
    case StmtKind::kSet: {
      ASSIGN_OR_RETURN(const Value value, Evaluate(*stmt.expr, scope));
      return Assign(stmt.target, value, scope);
    }
    case StmtKind::kSetBlock: {
      ASSIGN_OR_RETURN(const Value text, CaptureFiltered(stmt, scope));
      return Assign(stmt.target, text, scope);
    }
    case StmtKind::kFilterBlock: {
      ASSIGN_OR_RETURN(const Value text, CaptureFiltered(stmt, scope));
      return Emit(text);
    }
    case StmtKind::kMacro: {
      Callable macro;
      macro.kind = CallableKind::kMacro;
      macro.name = stmt.text;
      macro.macro = &stmt;
      macro.closure = scope;
      SetVariable(scope, stmt.text, Value::Of(heap_.NewCallable(macro)));
      return OkStatus();
    }
    case StmtKind::kCall:
      return RunCallBlock(stmt, scope);
    case StmtKind::kWith:
      return RunWith(stmt, scope);
    case StmtKind::kNamedBlock:
      // It sees the outermost names, and those around it only if it says so.
      return RunBlock(stmt.body, heap_.NewScope(stmt.scoped ? scope : root_));
    case StmtKind::kGeneration:
      return RunBlock(stmt.body, heap_.NewScope(scope));
    case StmtKind::kBreak:
      flow_ = Flow::kBreak;
      return OkStatus();
    case StmtKind::kContinue:
      flow_ = Flow::kContinue;
      return OkStatus();
  }
  return OkStatus();
}

Status Interpreter::RunIf(const Stmt& stmt, Scope* scope) {
  for (const Branch& branch : stmt.branches) {
    ASSIGN_OR_RETURN(const Value condition, Evaluate(*branch.condition, scope));
    if (Truth(condition)) return RunBlock(branch.body, scope);
  }
  return RunBlock(stmt.otherwise, scope);
}

Result<std::vector<Value>> Interpreter::ForItems(const Stmt& stmt, const Value& iterable,
                                                 Scope* scope) {
  ASSIGN_OR_RETURN(std::vector<Value> items, Iterate(heap_, iterable));
  if (stmt.condition == nullptr) return items;
  std::vector<Value> kept;
  for (const Value& item : items) {
    Scope* item_scope = heap_.NewScope(scope);
    RETURN_IF_ERROR(Assign(stmt.target, item, item_scope));
    ASSIGN_OR_RETURN(const Value condition, Evaluate(*stmt.condition, item_scope));
    if (Truth(condition)) kept.push_back(item);
  }
  return kept;
}

Status Interpreter::RunFor(const Stmt& stmt, Scope* scope) {
  ASSIGN_OR_RETURN(const Value iterable, Evaluate(*stmt.expr, scope));
  ASSIGN_OR_RETURN(std::vector<Value> items, ForItems(stmt, iterable, scope));
  return RunTurns(stmt, std::move(items), scope, 0);
}

Status Interpreter::RunTurns(const Stmt& stmt, std::vector<Value> items, Scope* scope, int depth0) {
  if (items.empty()) return RunBlock(stmt.otherwise, heap_.NewScope(scope));
  const Value sequence = heap_.List(std::move(items));
  Loop* loop = heap_.NewLoop(sequence, stmt, scope, depth0);
  for (; loop->index0 < loop->items->size(); ++loop->index0) {
    // A scope per turn: what one turn sets, the next does not see.
    Scope* turn = heap_.NewScope(scope);
    turn->variables.emplace_back("loop", Value::Of(loop));
    line_ = stmt.line;
    RETURN_IF_ERROR(Assign(stmt.target, (*loop->items)[loop->index0], turn));
    RETURN_IF_ERROR(RunBlock(stmt.body, turn));
    if (!heap_.Charge(1)) return heap_.status();
    if (std::exchange(flow_, Flow::kNext) == Flow::kBreak) break;
  }
  return OkStatus();
}

Status Interpreter::RunWith(const Stmt& stmt, Scope* scope) {
  Scope* inner = heap_.NewScope(scope);
  for (const auto& [target, expr] : stmt.assignments) {
    // Evaluated outside: a value does not see the names before it.
    ASSIGN_OR_RETURN(const Value value, Evaluate(*expr, scope));
    RETURN_IF_ERROR(Assign(target, value, inner));
  }
  return RunBlock(stmt.body, inner);
}

Status Interpreter::RunCallBlock(const Stmt& stmt, Scope* scope) {
  Callable caller;
  caller.kind = CallableKind::kMacro;
  caller.name = stmt.text;
  caller.macro = &stmt;
  caller.closure = scope;
  ASSIGN_OR_RETURN(const Value callee, Evaluate(*stmt.expr->children[0], scope));
  ASSIGN_OR_RETURN(Arguments arguments, EvaluateArguments(stmt.expr->arguments, scope));
  arguments.keyword.push_back({"caller", Value::Of(heap_.NewCallable(caller))});
  ASSIGN_OR_RETURN(const Value result, Call(callee, arguments));
  return Emit(result);
}

Status Interpreter::Emit(const Value& value) {
  if (!value.is_string()) {
    ASSIGN_OR_RETURN(const Value text, ToText(heap_, value));
    return Emit(text);
  }
  RETURN_IF_ERROR(ChargeOutput(value.text().size()));
  out_.Append(value);
  return OkStatus();
}

Result<Value> Interpreter::EmitTexts(const Expr& expr, Scope* scope) {
  if (!IsSum(expr) && expr.kind != ExprKind::kConcat) return Evaluate(expr, scope);
  const Nesting nesting(&heap_);
  if (!nesting.ok()) return nesting.status();
  if (IsSum(expr)) {
    ASSIGN_OR_RETURN(const Value left, EmitTexts(*expr.children[0], scope));
    // What a sum begins with decides what it is.
    if (left.is_string()) RETURN_IF_ERROR(Emit(left));
    ASSIGN_OR_RETURN(const Value right, Evaluate(*expr.children[1], scope));
    line_ = expr.line;
    if (left.is_string() && right.is_string()) return right;
    return Binary(heap_, expr.op, left, right);
  }
  for (const ExprPtr& child : expr.children) {
    ASSIGN_OR_RETURN(const Value value, Evaluate(*child, scope));
    RETURN_IF_ERROR(Emit(value));
  }
  return Value::String("");
}

Status Interpreter::ChargeOutput(size_t bytes) {
  heap_.ChargeBytes(bytes);
  if (out_.size() + bytes <= heap_.limits().output_bytes) return OkStatus();
  return ResourceExhaustedError("the rendered text is longer than " +
                                std::to_string(heap_.limits().output_bytes) + " bytes");
}

Result<Value> Interpreter::CaptureFiltered(const Stmt& stmt, Scope* scope) {
  ASSIGN_OR_RETURN(const Value text,
                   Capture([&] { return RunBlock(stmt.body, heap_.NewScope(scope)); }));
  const Value outer = std::exchange(captured_, text);
  Result<Value> filtered = Evaluate(*stmt.expr, scope);
  captured_ = outer;
  return filtered;
}

Status Interpreter::Assign(const Target& target, const Value& value, Scope* scope) {
  if (!target.parts.empty()) {
    ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(heap_, value));
    if (items.size() != target.parts.size()) {
      return TypeError("cannot unpack " + std::to_string(items.size()) + " values into " +
                       std::to_string(target.parts.size()) + " names");
    }
    for (size_t i = 0; i < items.size(); ++i) {
      RETURN_IF_ERROR(Assign(target.parts[i], items[i], scope));
    }
    return OkStatus();
  }
  if (target.attribute.empty()) {
    SetVariable(scope, target.name, value);
    return OkStatus();
  }
  const Value* object = FindVariable(scope, target.name);
  if (object == nullptr || object->kind() != Kind::kNamespace) {
    return TypeError("cannot set the attribute '" + target.attribute + "' of '" + target.name +
                     "', which is no namespace");
  }
  return SetEntry(heap_, &object->dict(), Value::String(target.attribute), value);
}

Result<Value> Interpreter::Evaluate(const Expr& expr, Scope* scope) {
  if (expr.kind == ExprKind::kConstant) return expr.constant;
  const Nesting nesting(&heap_);
  line_ = expr.line;
  if (!nesting.ok()) return nesting.status();
  return EvaluateNode(expr, scope);
}

Result<Value> Interpreter::EvaluateNode(const Expr& expr, Scope* scope) {
  switch (expr.kind) {
    case ExprKind::kConstant:
      return expr.constant;
    case ExprKind::kName:
      return EvaluateName(expr, scope);
    case ExprKind::kAttribute: {
      ASSIGN_OR_RETURN(const Value object, Evaluate(*expr.children[0], scope));
      return GetAttribute(heap_, object, expr.text);
    }
    case ExprKind::kItem:
      return EvaluateItem(expr, scope);
    case ExprKind::kCall:
      return EvaluateCall(expr, scope);
    case ExprKind::kFilter:
    case ExprKind::kTest:
      return EvaluateFilterOrTest(expr, scope);
    case ExprKind::kList:
    case ExprKind::kTuple:
      return EvaluateList(expr, scope);
    case ExprKind::kDict:
      return EvaluateDict(expr, scope);
    case ExprKind::kNot:
    case ExprKind::kNegative:
    case ExprKind::kPositive:
      return EvaluateUnary(expr, scope);
    case ExprKind::kBinary:
      return EvaluateBinary(expr, scope);
    case ExprKind::kConcat:
      return EvaluateConcat(expr, scope);
    case ExprKind::kCompare:
      return EvaluateCompare(expr, scope);
    case ExprKind::kAnd:
    case ExprKind::kOr:
      return EvaluateAndOr(expr, scope);
    case ExprKind::kCondition:
      return EvaluateCondition(expr, scope);
    case ExprKind::kCaptured:
      return captured_;
    case ExprKind::kSlice:
      break;
  }
  CHECK(false) << "a slice is evaluated with its subscript";
  return Value();
}

Result<Value> Interpreter::EvaluateName(const Expr& expr, Scope* scope) {
  if (const Value* value = FindVariable(scope, expr.text)) return *value;
  if (const auto found = context_.find(expr.text); found != context_.end()) return found->second;
  if (IsOneOf(expr.text, kGlobals)) {
    Callable global;
    global.name = expr.text;
    return Value::Of(heap_.NewCallable(global));
  }
  if (IsOneOf(expr.text, kUnsupportedGlobals)) {
    return UnimplementedError("the function '" + expr.text + "' is not supported");
  }
  return Value::Undefined(Missing::kName, expr.text);
}

Result<Value> Interpreter::EvaluateItem(const Expr& expr, Scope* scope) {
  ASSIGN_OR_RETURN(const Value object, Evaluate(*expr.children[0], scope));
  const Expr& index = *expr.children[1];
  if (index.kind != ExprKind::kSlice) {
    ASSIGN_OR_RETURN(const Value key, Evaluate(index, scope));
    return GetItem(heap_, object, key);
  }
  Value parts[3] = {Value::None(), Value::None(), Value::None()};
  for (size_t i = 0; i < 3; ++i) {
    if (index.children[i] == nullptr) continue;
    ASSIGN_OR_RETURN(parts[i], Evaluate(*index.children[i], scope));
  }
  return GetSlice(heap_, object, parts[0], parts[1], parts[2]);
}

Result<Value> Interpreter::EvaluateFilterOrTest(const Expr& expr, Scope* scope) {
  ASSIGN_OR_RETURN(const Value input, Evaluate(*expr.children[0], scope));
  ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(expr.arguments, scope));
  line_ = expr.line;
  if (expr.kind == ExprKind::kFilter) return ApplyFilter(heap_, *expr.filter, input, arguments);
  ASSIGN_OR_RETURN(const bool passes, ApplyTest(heap_, *expr.test, input, arguments));
  return Value::Bool(passes);
}

Result<Value> Interpreter::EvaluateList(const Expr& expr, Scope* scope) {
  std::vector<Value> items;
  items.reserve(expr.children.size());
  for (const ExprPtr& child : expr.children) {
    ASSIGN_OR_RETURN(const Value item, Evaluate(*child, scope));
    items.push_back(item);
  }
  return heap_.NewSequence(expr.kind == ExprKind::kTuple ? Flavor::kTuple : Flavor::kList,
                           std::move(items));
}

Result<Value> Interpreter::EvaluateDict(const Expr& expr, Scope* scope) {
  Dict* dict = heap_.NewEntries();
  for (size_t i = 0; i + 1 < expr.children.size(); i += 2) {
    ASSIGN_OR_RETURN(const Value key, Evaluate(*expr.children[i], scope));
    ASSIGN_OR_RETURN(const Value value, Evaluate(*expr.children[i + 1], scope));
    RETURN_IF_ERROR(SetEntry(heap_, dict, key, value));
  }
  return Value::Of(dict);
}

Result<Value> Interpreter::EvaluateUnary(const Expr& expr, Scope* scope) {
  ASSIGN_OR_RETURN(const Value value, Evaluate(*expr.children[0], scope));
  if (expr.kind == ExprKind::kNot) return Value::Bool(!Truth(value));
  return expr.kind == ExprKind::kNegative ? Negative(value) : Positive(value);
}

Result<Value> Interpreter::EvaluateSum(const Expr& expr, Scope* scope) {
  TextBuilder outer = std::exchange(out_, heap_.NewText());
  const Result<Value> rest = EmitTexts(expr, scope);
  TextBuilder text = std::exchange(out_, std::move(outer));
  if (!rest.ok() || !rest->is_string()) return rest;
  text.Append(*rest);
  return heap_.Text(std::move(text));
}

Result<Value> Interpreter::EvaluateBinary(const Expr& expr, Scope* scope) {
  if (IsSum(expr) && IsSum(*expr.children[0])) return EvaluateSum(expr, scope);
  ASSIGN_OR_RETURN(const Value left, Evaluate(*expr.children[0], scope));
  ASSIGN_OR_RETURN(const Value right, Evaluate(*expr.children[1], scope));
  line_ = expr.line;
  return Binary(heap_, expr.op, left, right);
}

Result<Value> Interpreter::EvaluateConcat(const Expr& expr, Scope* scope) {
  TextBuilder out = heap_.NewText();
  for (const ExprPtr& child : expr.children) {
    ASSIGN_OR_RETURN(const Value value, Evaluate(*child, scope));
    ASSIGN_OR_RETURN(const Value text, ToText(heap_, value));
    out.Append(text);
  }
  heap_.ChargeBytes(out.size());
  return heap_.Text(std::move(out));
}

Result<Value> Interpreter::EvaluateCompare(const Expr& expr, Scope* scope) {
  ASSIGN_OR_RETURN(Value left, Evaluate(*expr.children[0], scope));
  for (size_t i = 0; i < expr.comparisons.size(); ++i) {
    ASSIGN_OR_RETURN(const Value right, Evaluate(*expr.children[i + 1], scope));
    const Comparison comparison = expr.comparisons[i];
    bool holds = false;
    if (comparison == Comparison::kIn || comparison == Comparison::kNotIn) {
      ASSIGN_OR_RETURN(holds, Contains(heap_, left, right));
      holds = holds == (comparison == Comparison::kIn);
    } else if (comparison == Comparison::kEqual || comparison == Comparison::kNotEqual) {
      ASSIGN_OR_RETURN(holds, Equal(heap_, left, right));
      holds = holds == (comparison == Comparison::kEqual);
    } else {
      ASSIGN_OR_RETURN(const int order, Compare(heap_, left, right));
      holds = comparison == Comparison::kLess        ? order < 0
              : comparison == Comparison::kLessEqual ? order <= 0
              : comparison == Comparison::kGreater   ? order > 0
                                                     : order >= 0;
    }
    if (!holds) return Value::Bool(false);
    left = right;
  }
  return Value::Bool(true);
}

Result<Value> Interpreter::EvaluateAndOr(const Expr& expr, Scope* scope) {
  ASSIGN_OR_RETURN(const Value left, Evaluate(*expr.children[0], scope));
  // As Python: the value that decides, not a bool.
  if (Truth(left) == (expr.kind == ExprKind::kOr)) return left;
  return Evaluate(*expr.children[1], scope);
}

Result<Value> Interpreter::EvaluateCondition(const Expr& expr, Scope* scope) {
  ASSIGN_OR_RETURN(const Value condition, Evaluate(*expr.children[1], scope));
  if (Truth(condition)) return Evaluate(*expr.children[0], scope);
  if (expr.children[2] != nullptr) return Evaluate(*expr.children[2], scope);
  return heap_.Undefined("the inline if on line " + std::to_string(expr.line) +
                         " is false and has no else");
}

Status Interpreter::SpreadArgument(const ArgumentExpr& expr, const Value& value,
                                   Arguments* arguments) {
  if (expr.kind == ArgumentKind::kSpread) {
    ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(heap_, value));
    arguments->positional.insert(arguments->positional.end(), items.begin(), items.end());
    return OkStatus();
  }
  if (value.kind() != Kind::kDict) return TypeError("'**' needs a dict");
  for (const auto& [key, entry] : value.dict().entries) {
    if (!key.is_string()) return TypeError("'**' needs a dict whose keys are strings");
    arguments->keyword.push_back({key.text(), entry});
  }
  return OkStatus();
}

Result<Arguments> Interpreter::EvaluateArguments(const std::vector<ArgumentExpr>& exprs,
                                                 Scope* scope) {
  Arguments arguments;
  for (const ArgumentExpr& expr : exprs) {
    ASSIGN_OR_RETURN(const Value value, Evaluate(*expr.value, scope));
    if (expr.kind == ArgumentKind::kPositional) {
      arguments.positional.push_back(value);
    } else if (expr.kind == ArgumentKind::kKeyword) {
      arguments.keyword.push_back({expr.name, value});
    } else {
      RETURN_IF_ERROR(SpreadArgument(expr, value, &arguments));
    }
  }
  return arguments;
}

Result<Value> Interpreter::EvaluateCall(const Expr& expr, Scope* scope) {
  ASSIGN_OR_RETURN(const Value callee, Evaluate(*expr.children[0], scope));
  ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(expr.arguments, scope));
  line_ = expr.line;
  return Call(callee, arguments);
}

}  // namespace graft::jinja
