// Runs a parsed template. One rendering per object; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "text/jinja/ast.h"
#include "text/jinja/value.h"

namespace graft::jinja {

class Interpreter {
 public:
  // `now`: Unix seconds for strftime_now, told in the machine's time zone.
  Interpreter(Heap* heap, int64_t now) : heap_(*heap), now_(now), out_(heap->NewText()) {}

  // The text that `block` gives with `variables` as its outermost names, with its untrusted ranges.
  // Failures name the line.
  Result<TextBuilder> Run(const Block& block,
                          std::vector<std::pair<std::string_view, Value>> variables);

 private:
  enum class Flow : uint8_t { kNext, kBreak, kContinue };

  Status RunBlock(const Block& block, Scope* scope);
  Status RunStatement(const Stmt& stmt, Scope* scope);
  Status RunIf(const Stmt& stmt, Scope* scope);
  Status RunFor(const Stmt& stmt, Scope* scope);
  Status RunWith(const Stmt& stmt, Scope* scope);
  Status RunCallBlock(const Stmt& stmt, Scope* scope);
  Status Emit(const Value& value);
  // Puts out the texts of a sum (+ or ~) one by one, so that no text is made of them. Gives the
  // value that is left to put out.
  Result<Value> EmitTexts(const Expr& expr, Scope* scope);
  // A failure if the output cannot grow by so many bytes.
  Status ChargeOutput(size_t bytes);
  // The text that `run` puts out, instead of its output.
  template <typename Run>
  Result<Value> Capture(Run run) {
    TextBuilder outer = std::exchange(out_, heap_.NewText());
    const Status status = run();
    TextBuilder text = std::exchange(out_, std::move(outer));
    RETURN_IF_ERROR(status);
    return heap_.Text(std::move(text));
  }
  // The same, sent through the filters of a set or filter block.
  Result<Value> CaptureFiltered(const Stmt& stmt, Scope* scope);
  Result<std::vector<Value>> ForItems(const Stmt& stmt, const Value& iterable, Scope* scope);
  // The turns of a loop over `items`, or what stands for none.
  Status RunTurns(const Stmt& stmt, std::vector<Value> items, Scope* scope, int depth0);
  Status Assign(const Target& target, const Value& value, Scope* scope);

  Result<Value> Evaluate(const Expr& expr, Scope* scope);
  Result<Value> EvaluateNode(const Expr& expr, Scope* scope);
  Result<Value> EvaluateName(const Expr& expr, Scope* scope);
  Result<Value> EvaluateItem(const Expr& expr, Scope* scope);
  Result<Value> EvaluateCall(const Expr& expr, Scope* scope);
  Result<Value> EvaluateFilterOrTest(const Expr& expr, Scope* scope);
  Result<Value> EvaluateList(const Expr& expr, Scope* scope);
  Result<Value> EvaluateDict(const Expr& expr, Scope* scope);
  Result<Value> EvaluateUnary(const Expr& expr, Scope* scope);
  // Adds three or more texts at once, and makes one text in place of one for each sign.
  Result<Value> EvaluateSum(const Expr& expr, Scope* scope);
  Result<Value> EvaluateBinary(const Expr& expr, Scope* scope);
  Result<Value> EvaluateConcat(const Expr& expr, Scope* scope);
  Result<Value> EvaluateCompare(const Expr& expr, Scope* scope);
  Result<Value> EvaluateAndOr(const Expr& expr, Scope* scope);
  Result<Value> EvaluateCondition(const Expr& expr, Scope* scope);
  Result<Arguments> EvaluateArguments(const std::vector<ArgumentExpr>& exprs, Scope* scope);
  Status SpreadArgument(const ArgumentExpr& expr, const Value& value, Arguments* arguments);

  Result<Value> Call(const Value& callee, const Arguments& arguments);
  Result<Value> CallLoop(const Loop& loop, const Arguments& arguments);
  Result<Value> CallMacro(const Callable& callable, const Arguments& arguments);
  Status BindMacro(const Stmt& macro, const Arguments& arguments, Scope* scope);
  Result<Value> CallGlobal(std::string_view name, const Arguments& arguments);
  Result<Value> CallStrftime(const Arguments& arguments);

  Heap& heap_;
  const int64_t now_;
  TextBuilder out_;
  // The outermost names: those of the context, of which a client may give many, and those that the
  // template sets, which hide them.
  std::map<std::string_view, Value> context_;
  Scope* root_ = nullptr;
  Flow flow_ = Flow::kNext;
  int line_ = 1;    // of what runs, for errors
  Value captured_;  // what kCaptured stands for
};

}  // namespace graft::jinja
