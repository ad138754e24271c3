#include "text/jinja/expression_parser.h"

#include <algorithm>
#include <utility>

#include "text/jinja/filters.h"
#include "text/jinja/template_parser.h"
#include "text/jinja/tests.h"

namespace graft::jinja {
namespace {

ExprPtr NewExpr(ExprKind kind, int line) {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = line;
  return expr;
}

ExprPtr NewConstant(int line, const Value& value) {
  ExprPtr expr = NewExpr(ExprKind::kConstant, line);
  expr->constant = value;
  return expr;
}

template <typename... Children>
ExprPtr NewParent(ExprKind kind, int line, Children... children) {
  ExprPtr expr = NewExpr(kind, line);
  (expr->children.push_back(std::move(children)), ...);
  return expr;
}

// Counts how deep the parser has gone, for as long as it lives.
class Nested {
 public:
  explicit Nested(int* nesting) : nesting_(nesting) { ++*nesting_; }
  ~Nested() { --*nesting_; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;

 private:
  int* nesting_;
};

}  // namespace

Status ExpressionParser::Fail(int line, const std::string& message) const {
  return InvalidArgumentError("line " + std::to_string(line) + ": " + message);
}

Status ExpressionParser::Unsupported(int line, const std::string& what) const {
  return UnimplementedError("line " + std::to_string(line) + ": " + what + " is not supported");
}

Status ExpressionParser::Unexpected(std::string_view what) const {
  std::string found = "'" + Current().text + "'";
  if (Current().kind == TokenKind::kEnd) found = "the end of the template";
  if (Current().kind == TokenKind::kData) found = "text";
  return Fail(Current().line, "expected " + std::string(what) + ", found " + found);
}

bool ExpressionParser::SkipOperator(std::string_view op) {
  if (!Current().IsOperator(op)) return false;
  Take();
  return true;
}

bool ExpressionParser::SkipName(std::string_view name) {
  if (!Current().IsName(name)) return false;
  Take();
  return true;
}

Status ExpressionParser::ExpectOperator(std::string_view op) {
  return SkipOperator(op) ? OkStatus() : Unexpected("'" + std::string(op) + "'");
}

Status ExpressionParser::ExpectName(std::string_view name) {
  return SkipName(name) ? OkStatus() : Unexpected("'" + std::string(name) + "'");
}

Result<std::string> ExpressionParser::TakeName(std::string_view what) {
  if (Current().kind != TokenKind::kName) return Unexpected(what);
  return Take().text;
}

Result<ExprPtr> ExpressionParser::Finish(ExprPtr expr) const {
  int height = 0;
  for (const ExprPtr& child : expr->children) {
    if (child != nullptr) height = std::max(height, child->height);
  }
  for (const ArgumentExpr& argument : expr->arguments) {
    height = std::max(height, argument.value->height);
  }
  expr->height = height + 1;
  if (expr->height > kExprHeightMax) {
    return Fail(expr->line, "an expression of more than " + std::to_string(kExprHeightMax) +
                                " levels; split it with {% set %}");
  }
  return expr;
}

Result<ExprPtr> ExpressionParser::ParseExpression(bool with_condition) {
  const Nested nested(&nesting_);
  const int line = Current().line;
  if (nesting_ > kNestingMax) {
    return Fail(line, "nested deeper than " + std::to_string(kNestingMax) + " levels");
  }
  ASSIGN_OR_RETURN(ExprPtr expr, ParseOr());
  while (with_condition && SkipName("if")) {
    ASSIGN_OR_RETURN(ExprPtr condition, ParseOr());
    ExprPtr otherwise;
    if (SkipName("else")) {
      ASSIGN_OR_RETURN(otherwise, ParseExpression());
    }
    ASSIGN_OR_RETURN(expr, Finish(NewParent(ExprKind::kCondition, line, std::move(expr),
                                            std::move(condition), std::move(otherwise))));
  }
  return expr;
}

Result<ExprPtr> ExpressionParser::ParseJoined(std::string_view word, ExprKind kind,
                                              Result<ExprPtr> (ExpressionParser::*next)()) {
  const int line = Current().line;
  ASSIGN_OR_RETURN(ExprPtr left, (this->*next)());
  while (SkipName(word)) {
    ASSIGN_OR_RETURN(ExprPtr right, (this->*next)());
    ASSIGN_OR_RETURN(left, Finish(NewParent(kind, line, std::move(left), std::move(right))));
  }
  return left;
}

Result<ExprPtr> ExpressionParser::ParseOr() {
  return ParseJoined("or", ExprKind::kOr, &ExpressionParser::ParseAnd);
}

Result<ExprPtr> ExpressionParser::ParseAnd() {
  return ParseJoined("and", ExprKind::kAnd, &ExpressionParser::ParseNot);
}

Result<ExprPtr> ExpressionParser::ParseNot() {
  const int line = Current().line;
  int nots = 0;
  while (SkipName("not")) ++nots;
  ASSIGN_OR_RETURN(ExprPtr expr, ParseCompare());
  for (; nots > 0; --nots) {
    ASSIGN_OR_RETURN(expr, Finish(NewParent(ExprKind::kNot, line, std::move(expr))));
  }
  return expr;
}

Result<Comparison> ExpressionParser::TakeComparison(bool* found) {
  static constexpr std::pair<std::string_view, Comparison> kComparisons[] = {
      {"==", Comparison::kEqual},     {"!=", Comparison::kNotEqual},
      {"<=", Comparison::kLessEqual}, {">=", Comparison::kGreaterEqual},
      {"<", Comparison::kLess},       {">", Comparison::kGreater}};
  *found = true;
  for (const auto& [text, comparison] : kComparisons) {
    if (SkipOperator(text)) return comparison;
  }
  if (SkipName("in")) return Comparison::kIn;
  if (Current().IsName("not") && Ahead().IsName("in")) {
    Take();
    Take();
    return Comparison::kNotIn;
  }
  *found = false;
  return Comparison::kEqual;
}

Result<ExprPtr> ExpressionParser::ParseCompare() {
  const int line = Current().line;
  ASSIGN_OR_RETURN(ExprPtr first, ParseSum());
  ExprPtr compare = NewExpr(ExprKind::kCompare, line);
  compare->children.push_back(std::move(first));
  while (true) {
    bool found = false;
    ASSIGN_OR_RETURN(const Comparison comparison, TakeComparison(&found));
    if (!found) break;
    ASSIGN_OR_RETURN(ExprPtr next, ParseSum());
    compare->comparisons.push_back(comparison);
    compare->children.push_back(std::move(next));
  }
  if (compare->comparisons.empty()) return std::move(compare->children[0]);
  return Finish(std::move(compare));
}

template <size_t N>
Result<ExprPtr> ExpressionParser::ParseBinary(const BinaryRow (&rows)[N],
                                              Result<ExprPtr> (ExpressionParser::*next)()) {
  const int line = Current().line;
  ASSIGN_OR_RETURN(ExprPtr left, (this->*next)());
  while (true) {
    const auto row = std::find_if(
        std::begin(rows), std::end(rows),
        [&](const BinaryRow& candidate) { return Current().IsOperator(candidate.text); });
    if (row == std::end(rows)) return left;
    Take();
    ASSIGN_OR_RETURN(ExprPtr right, (this->*next)());
    ExprPtr expr = NewParent(ExprKind::kBinary, line, std::move(left), std::move(right));
    expr->op = row->op;
    ASSIGN_OR_RETURN(left, Finish(std::move(expr)));
  }
}

Result<ExprPtr> ExpressionParser::ParseSum() {
  static constexpr BinaryRow kRows[] = {{"+", BinaryOp::kAdd}, {"-", BinaryOp::kSubtract}};
  return ParseBinary(kRows, &ExpressionParser::ParseConcat);
}

Result<ExprPtr> ExpressionParser::ParseConcat() {
  const int line = Current().line;
  ASSIGN_OR_RETURN(ExprPtr first, ParseProduct());
  if (!Current().IsOperator("~")) return first;
  ExprPtr concat = NewExpr(ExprKind::kConcat, line);
  concat->children.push_back(std::move(first));
  while (SkipOperator("~")) {
    ASSIGN_OR_RETURN(ExprPtr next, ParseProduct());
    concat->children.push_back(std::move(next));
  }
  return Finish(std::move(concat));
}

Result<ExprPtr> ExpressionParser::ParseProduct() {
  static constexpr BinaryRow kRows[] = {{"*", BinaryOp::kMultiply},
                                        {"/", BinaryOp::kDivide},
                                        {"//", BinaryOp::kFloorDivide},
                                        {"%", BinaryOp::kModulo}};
  return ParseBinary(kRows, &ExpressionParser::ParsePower);
}

Result<ExprPtr> ExpressionParser::ParsePower() {
  static constexpr BinaryRow kRows[] = {{"**", BinaryOp::kPower}};
  return ParseBinary(kRows, &ExpressionParser::ParseFactor);
}

Result<ExprPtr> ExpressionParser::ParseFactor() { return ParseUnary(/*with_filters=*/true); }

Result<ExprPtr> ExpressionParser::ParseUnary(bool with_filters) {
  const Nested nested(&nesting_);
  const int line = Current().line;
  if (nesting_ > kNestingMax) {
    return Fail(line, "nested deeper than " + std::to_string(kNestingMax) + " levels");
  }
  ExprPtr expr;
  if (Current().IsOperator("-") || Current().IsOperator("+")) {
    const ExprKind kind = Take().text == "-" ? ExprKind::kNegative : ExprKind::kPositive;
    ASSIGN_OR_RETURN(ExprPtr operand, ParseUnary(false));
    ASSIGN_OR_RETURN(expr, Finish(NewParent(kind, line, std::move(operand))));
  } else {
    ASSIGN_OR_RETURN(expr, ParsePrimary());
  }
  ASSIGN_OR_RETURN(expr, ParsePostfix(std::move(expr)));
  return with_filters ? ParseFiltersAndTests(std::move(expr)) : std::move(expr);
}

Result<ExprPtr> ExpressionParser::ParseNameOrConstant() {
  const Token& token = Take();
  const std::string& name = token.text;
  if (name == "true" || name == "True") return NewConstant(token.line, Value::Bool(true));
  if (name == "false" || name == "False") return NewConstant(token.line, Value::Bool(false));
  if (name == "none" || name == "None") return NewConstant(token.line, Value::None());
  uses_.varargs = uses_.varargs || name == "varargs";
  uses_.kwargs = uses_.kwargs || name == "kwargs";
  uses_.caller = uses_.caller || name == "caller";
  ExprPtr expr = NewExpr(ExprKind::kName, token.line);
  expr->text = name;
  return expr;
}

Result<ExprPtr> ExpressionParser::ParsePrimary() {
  const Token& token = Current();
  switch (token.kind) {
    case TokenKind::kName:
      return ParseNameOrConstant();
    case TokenKind::kInteger:
      return NewConstant(token.line, Value::Int(Take().integer));
    case TokenKind::kFloat:
      return NewConstant(token.line, Value::Float(Take().number));
    case TokenKind::kString: {
      ExprPtr expr = NewExpr(ExprKind::kConstant, token.line);
      while (Current().kind == TokenKind::kString) expr->text += Take().text;
      expr->constant = Value::String(expr->text, kOfTemplate);
      return expr;
    }
    default:
      break;
  }
  if (token.IsOperator("(")) return ParseParenthesized();
  if (token.IsOperator("[")) return ParseListLiteral();
  if (token.IsOperator("{")) return ParseDictLiteral();
  return Unexpected("an expression");
}

Result<ExprPtr> ExpressionParser::ParseParenthesized() {
  const int line = Take().line;
  if (SkipOperator(")")) return NewExpr(ExprKind::kTuple, line);
  ASSIGN_OR_RETURN(ExprPtr expr, ParseTuple(true));
  RETURN_IF_ERROR(ExpectOperator(")"));
  return expr;
}

Result<ExprPtr> ExpressionParser::ParseListLiteral() {
  ExprPtr list = NewExpr(ExprKind::kList, Take().line);
  while (!SkipOperator("]")) {
    if (!list->children.empty()) {
      RETURN_IF_ERROR(ExpectOperator(","));
      if (SkipOperator("]")) break;
    }
    ASSIGN_OR_RETURN(ExprPtr item, ParseExpression());
    list->children.push_back(std::move(item));
  }
  return Finish(std::move(list));
}

Result<ExprPtr> ExpressionParser::ParseDictLiteral() {
  ExprPtr dict = NewExpr(ExprKind::kDict, Take().line);
  while (!SkipOperator("}")) {
    if (!dict->children.empty()) {
      RETURN_IF_ERROR(ExpectOperator(","));
      if (SkipOperator("}")) break;
    }
    ASSIGN_OR_RETURN(ExprPtr key, ParseExpression());
    RETURN_IF_ERROR(ExpectOperator(":"));
    ASSIGN_OR_RETURN(ExprPtr value, ParseExpression());
    dict->children.push_back(std::move(key));
    dict->children.push_back(std::move(value));
  }
  return Finish(std::move(dict));
}

bool ExpressionParser::AtTupleEnd(std::string_view end_name) const {
  const Token& token = Current();
  return token.kind == TokenKind::kVariableEnd || token.kind == TokenKind::kBlockEnd ||
         token.IsOperator(")") || (!end_name.empty() && token.IsName(end_name));
}

Result<ExprPtr> ExpressionParser::ParseTuple(bool with_condition, std::string_view end_name) {
  ExprPtr tuple = NewExpr(ExprKind::kTuple, Current().line);
  bool has_comma = false;
  while (true) {
    if (AtTupleEnd(end_name)) break;
    ASSIGN_OR_RETURN(ExprPtr item, ParseExpression(with_condition));
    tuple->children.push_back(std::move(item));
    if (!SkipOperator(",")) break;
    has_comma = true;
  }
  if (tuple->children.empty()) return Unexpected("an expression");
  if (!has_comma) return std::move(tuple->children[0]);
  return Finish(std::move(tuple));
}

Result<ExprPtr> ExpressionParser::ParsePostfix(ExprPtr expr) {
  while (true) {
    if (Current().IsOperator(".")) {
      ASSIGN_OR_RETURN(expr, ParseAttribute(std::move(expr)));
    } else if (Current().IsOperator("[")) {
      ASSIGN_OR_RETURN(expr, ParseSubscript(std::move(expr)));
    } else if (Current().IsOperator("(")) {
      ExprPtr call = NewParent(ExprKind::kCall, Current().line, std::move(expr));
      RETURN_IF_ERROR(ParseArguments(&call->arguments));
      ASSIGN_OR_RETURN(expr, Finish(std::move(call)));
    } else {
      return expr;
    }
  }
}

Result<ExprPtr> ExpressionParser::ParseFiltersAndTests(ExprPtr expr) {
  while (true) {
    if (Current().IsOperator("|")) {
      ASSIGN_OR_RETURN(expr, ParseFilters(std::move(expr), false));
    } else if (Current().IsName("is")) {
      ASSIGN_OR_RETURN(expr, ParseTest(std::move(expr)));
    } else if (Current().IsOperator("(")) {
      ASSIGN_OR_RETURN(expr, ParsePostfix(std::move(expr)));
    } else {
      return expr;
    }
  }
}

Result<ExprPtr> ExpressionParser::ParseAttribute(ExprPtr object) {
  const int line = Take().line;
  if (Current().kind == TokenKind::kInteger) {
    ExprPtr index = NewConstant(line, Value::Int(Take().integer));
    return Finish(NewParent(ExprKind::kItem, line, std::move(object), std::move(index)));
  }
  ASSIGN_OR_RETURN(std::string name, TakeName("the name of an attribute"));
  ExprPtr expr = NewParent(ExprKind::kAttribute, line, std::move(object));
  expr->text = std::move(name);
  return Finish(std::move(expr));
}

Result<ExprPtr> ExpressionParser::ParseSubscriptItem() {
  const int line = Current().line;
  const auto at_end = [&] { return Current().IsOperator("]") || Current().IsOperator(","); };
  ExprPtr begin;
  if (!Current().IsOperator(":")) {
    ASSIGN_OR_RETURN(begin, ParseExpression());
    if (!Current().IsOperator(":")) return begin;
  }
  Take();
  ExprPtr end;
  ExprPtr step;
  if (!at_end() && !Current().IsOperator(":")) {
    ASSIGN_OR_RETURN(end, ParseExpression());
  }
  if (SkipOperator(":") && !at_end()) {
    ASSIGN_OR_RETURN(step, ParseExpression());
  }
  return Finish(
      NewParent(ExprKind::kSlice, line, std::move(begin), std::move(end), std::move(step)));
}

Result<ExprPtr> ExpressionParser::ParseSubscript(ExprPtr object) {
  const int line = Take().line;
  ASSIGN_OR_RETURN(ExprPtr index, ParseSubscriptItem());
  if (Current().IsOperator(",")) return Unsupported(line, "a subscript with a comma");
  RETURN_IF_ERROR(ExpectOperator("]"));
  return Finish(NewParent(ExprKind::kItem, line, std::move(object), std::move(index)));
}

Status ExpressionParser::ParseArguments(std::vector<ArgumentExpr>* arguments) {
  RETURN_IF_ERROR(ExpectOperator("("));
  ArgumentKind latest = ArgumentKind::kPositional;
  while (!SkipOperator(")")) {
    if (!arguments->empty()) {
      RETURN_IF_ERROR(ExpectOperator(","));
      if (SkipOperator(")")) break;
    }
    ArgumentExpr argument;
    if (SkipOperator("*")) {
      argument.kind = ArgumentKind::kSpread;
    } else if (SkipOperator("**")) {
      argument.kind = ArgumentKind::kSpreadKeywords;
    } else if (Current().kind == TokenKind::kName && Ahead().IsOperator("=")) {
      argument.kind = ArgumentKind::kKeyword;
      argument.name = Take().text;
      Take();
    } else if (latest != ArgumentKind::kPositional) {
      return Fail(Current().line, "a positional argument after a keyword argument");
    }
    latest = argument.kind;
    ASSIGN_OR_RETURN(argument.value, ParseExpression());
    arguments->push_back(std::move(argument));
  }
  return OkStatus();
}

Result<ExprPtr> ExpressionParser::ParseFilters(ExprPtr input, bool bare_first) {
  while (bare_first || SkipOperator("|")) {
    bare_first = false;
    const int line = Current().line;
    ASSIGN_OR_RETURN(const std::string name, TakeName("the name of a filter"));
    ExprPtr filter = NewParent(ExprKind::kFilter, line, std::move(input));
    filter->filter = FindFilter(name);
    if (filter->filter == nullptr) return Unsupported(line, "the filter '" + name + "'");
    if (Current().IsOperator("(")) RETURN_IF_ERROR(ParseArguments(&filter->arguments));
    ASSIGN_OR_RETURN(input, Finish(std::move(filter)));
  }
  return input;
}

Result<ExprPtr> ExpressionParser::ParseTest(ExprPtr input) {
  const int line = Take().line;
  const bool negated = SkipName("not");
  ASSIGN_OR_RETURN(const std::string name, TakeName("the name of a test"));
  ExprPtr test = NewParent(ExprKind::kTest, line, std::move(input));
  test->test = FindTest(name);
  if (test->test == nullptr) return Unsupported(line, "the test '" + name + "'");
  const Token& token = Current();
  const bool starts_argument =
      token.kind == TokenKind::kString || token.kind == TokenKind::kInteger ||
      token.kind == TokenKind::kFloat || token.IsOperator("[") || token.IsOperator("{") ||
      (token.kind == TokenKind::kName && !token.IsName("else") && !token.IsName("or") &&
       !token.IsName("and"));
  if (token.IsOperator("(")) {
    RETURN_IF_ERROR(ParseArguments(&test->arguments));
  } else if (starts_argument) {
    if (token.IsName("is")) return Fail(line, "tests cannot be chained with 'is'");
    ArgumentExpr argument;
    ASSIGN_OR_RETURN(argument.value, ParsePrimary());
    ASSIGN_OR_RETURN(argument.value, ParsePostfix(std::move(argument.value)));
    test->arguments.push_back(std::move(argument));
  }
  ASSIGN_OR_RETURN(ExprPtr expr, Finish(std::move(test)));
  return negated ? Finish(NewParent(ExprKind::kNot, line, std::move(expr))) : std::move(expr);
}

Result<Target> ExpressionParser::ParseTarget(bool namespaces, std::string_view end_name) {
  const Nested nested(&nesting_);
  if (nesting_ > kNestingMax) return Unexpected("fewer brackets");
  std::vector<Target> parts;
  bool has_comma = false;
  while (true) {
    if (AtTupleEnd(end_name) || Current().IsOperator("=")) break;
    Target part;
    if (SkipOperator("(")) {
      ASSIGN_OR_RETURN(part, ParseTarget(namespaces));
      RETURN_IF_ERROR(ExpectOperator(")"));
    } else {
      const int line = Current().line;
      ASSIGN_OR_RETURN(part.name, TakeName("a name to assign to"));
      static constexpr std::string_view kReserved[] = {"true", "false", "none",
                                                       "True", "False", "None"};
      if (std::find(std::begin(kReserved), std::end(kReserved), part.name) != std::end(kReserved)) {
        return Fail(line, "cannot assign to '" + part.name + "'");
      }
      if (namespaces && SkipOperator(".")) {
        ASSIGN_OR_RETURN(part.attribute, TakeName("the name of an attribute"));
      }
    }
    parts.push_back(std::move(part));
    if (!SkipOperator(",")) break;
    has_comma = true;
  }
  if (parts.empty()) return Unexpected("a name to assign to");
  if (!has_comma) return std::move(parts[0]);
  Target tuple;
  tuple.parts = std::move(parts);
  return tuple;
}

Result<std::vector<Parameter>> ExpressionParser::ParseParameters() {
  RETURN_IF_ERROR(ExpectOperator("("));
  std::vector<Parameter> parameters;
  while (!SkipOperator(")")) {
    if (!parameters.empty()) RETURN_IF_ERROR(ExpectOperator(","));
    Parameter parameter;
    const int line = Current().line;
    ASSIGN_OR_RETURN(parameter.name, TakeName("the name of a parameter"));
    if (SkipOperator("=")) {
      ASSIGN_OR_RETURN(parameter.default_value, ParseExpression());
    } else if (!parameters.empty() && parameters.back().default_value != nullptr) {
      return Fail(line, "a parameter without a default after one with a default");
    }
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

}  // namespace graft::jinja
