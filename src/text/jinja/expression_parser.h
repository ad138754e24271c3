// The expression half of the parser, which the statement half builds on. One per template; one
// thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace graft::jinja {

// Which of the names with a meaning of their own inside macros were read.
struct MacroUses {
  bool varargs = false;
  bool kwargs = false;
  bool caller = false;
};

class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  // `a if b else c` and everything below it; without `with_condition` the `if` is left alone.
  Result<ExprPtr> ParseExpression(bool with_condition = true);
  // Expressions with commas between them are a tuple. `end_name`: a name that ends it.
  Result<ExprPtr> ParseTuple(bool with_condition, std::string_view end_name = "");
  // Filters with a `|` before each, over `input`; `bare_first`: the first has none.
  Result<ExprPtr> ParseFilters(ExprPtr input, bool bare_first);
  Result<Target> ParseTarget(bool namespaces, std::string_view end_name = "");
  Result<std::vector<Parameter>> ParseParameters();

 protected:
  const Token& Current() const { return tokens_[pos_]; }
  const Token& Ahead() const { return tokens_[pos_ + 1 < tokens_.size() ? pos_ + 1 : pos_]; }
  Token& Take() { return tokens_[pos_ + 1 < tokens_.size() ? pos_++ : pos_]; }
  bool SkipOperator(std::string_view op);
  bool SkipName(std::string_view name);
  Status ExpectOperator(std::string_view op);
  Status ExpectName(std::string_view name);
  Result<std::string> TakeName(std::string_view what);
  // A failure at the current token: expected `what`, found something else.
  Status Unexpected(std::string_view what) const;
  Status Fail(int line, const std::string& message) const;
  Status Unsupported(int line, const std::string& what) const;

  MacroUses uses_;
  int nesting_ = 0;

 private:
  Result<ExprPtr> ParseOr();
  Result<ExprPtr> ParseAnd();
  Result<ExprPtr> ParseNot();
  Result<ExprPtr> ParseCompare();
  Result<ExprPtr> ParseSum();
  Result<ExprPtr> ParseConcat();
  Result<ExprPtr> ParseProduct();
  Result<ExprPtr> ParsePower();
  Result<ExprPtr> ParseFactor();
  Result<ExprPtr> ParseUnary(bool with_filters);
  Result<ExprPtr> ParsePrimary();
  Result<ExprPtr> ParseNameOrConstant();
  Result<ExprPtr> ParseParenthesized();
  Result<ExprPtr> ParseListLiteral();
  Result<ExprPtr> ParseDictLiteral();
  Result<ExprPtr> ParsePostfix(ExprPtr expr);
  Result<ExprPtr> ParseFiltersAndTests(ExprPtr expr);
  Result<ExprPtr> ParseAttribute(ExprPtr object);
  Result<ExprPtr> ParseSubscript(ExprPtr object);
  Result<ExprPtr> ParseSubscriptItem();
  Result<ExprPtr> ParseTest(ExprPtr input);
  Status ParseArguments(std::vector<ArgumentExpr>* arguments);
  Result<Comparison> TakeComparison(bool* found);
  bool AtTupleEnd(std::string_view end_name) const;
  // Left-associative levels: operands of `next` with the word, or operators of `rows`, between
  // them.
  Result<ExprPtr> ParseJoined(std::string_view word, ExprKind kind,
                              Result<ExprPtr> (ExpressionParser::*next)());
  struct BinaryRow {
    std::string_view text;
    BinaryOp op;
  };
  template <size_t N>
  Result<ExprPtr> ParseBinary(const BinaryRow (&rows)[N],
                              Result<ExprPtr> (ExpressionParser::*next)());
  // Sets the height from the children; a failure if the tree is too high.
  Result<ExprPtr> Finish(ExprPtr expr) const;

  std::vector<Token> tokens_;
  size_t pos_ = 0;
};

}  // namespace graft::jinja
