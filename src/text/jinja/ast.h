// A parsed template: a tree of statements and expressions. Immutable once parsed; values of
// constants point into the tree. Any thread may read it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace graft::jinja {

struct FilterSpec;
struct TestSpec;
struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

enum class ExprKind : uint8_t {
  kConstant,
  kName,       // text
  kAttribute,  // children[0].text
  kItem,       // children[0][children[1]]
  kSlice,      // begin, end, step; each may be null. Only as kItem's second child.
  kCall,       // children[0](arguments)
  kFilter,     // children[0] | filter(arguments)
  kTest,       // children[0] is test(arguments)
  kList,
  kTuple,
  kDict,  // key, value, key, value, ...
  kNot,
  kNegative,
  kPositive,
  kBinary,   // op over two children
  kConcat,   // ~ over all children
  kCompare,  // children joined by comparisons
  kAnd,
  kOr,
  kCondition,  // children[0] if children[1] else children[2] (may be null)
  kCaptured,   // the text that a set block or filter block captured
};

enum class BinaryOp : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower
};
enum class Comparison : uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn
};

enum class ArgumentKind : uint8_t { kPositional, kKeyword, kSpread, kSpreadKeywords };

struct ArgumentExpr {
  ArgumentKind kind = ArgumentKind::kPositional;
  std::string name;
  ExprPtr value;
};

struct Expr {
  ExprKind kind = ExprKind::kConstant;
  int line = 1;
  int height = 1;    // of the tree below, which bounds the interpreter's recursion
  std::string text;  // a name, an attribute, a constant's text
  Value constant;
  BinaryOp op = BinaryOp::kAdd;
  std::vector<ExprPtr> children;
  std::vector<Comparison> comparisons;
  std::vector<ArgumentExpr> arguments;
  const FilterSpec* filter = nullptr;
  const TestSpec* test = nullptr;
};

// What an assignment writes: a name, an attribute of a namespace, or a tuple of targets.
struct Target {
  std::string name;
  std::string attribute;
  std::vector<Target> parts;
};

struct Parameter {
  std::string name;
  ExprPtr default_value;  // may be null
};

enum class StmtKind : uint8_t {
  kText,         // text
  kOutput,       // {{ expr }}
  kIf,           // branches, otherwise
  kFor,          // for target in expr if condition: body, otherwise
  kSet,          // target = expr
  kSetBlock,     // target = body, through expr's filters
  kFilterBlock,  // body through expr's filters
  kMacro,        // text is the name; parameters, body
  kCall,         // expr is the call; parameters and body make its caller
  kWith,         // assignments, body
  kNamedBlock,   // {% block text %}: body
  kGeneration,   // body
  kBreak,
  kContinue,
};

struct Stmt;
using Block = std::vector<Stmt>;

struct Branch {
  ExprPtr condition;
  Block body;
};

struct Stmt {
  StmtKind kind = StmtKind::kText;
  int line = 1;
  std::string text;
  ExprPtr expr;
  ExprPtr condition;
  Target target;
  std::vector<Branch> branches;
  std::vector<Parameter> parameters;
  std::vector<std::pair<Target, ExprPtr>> assignments;
  Block body;
  Block otherwise;
  // A macro's body names these, which lets it take more arguments than its parameters.
  bool uses_varargs = false;
  bool uses_kwargs = false;
  bool uses_caller = false;
  bool recursive = false;  // of kFor
  bool scoped = false;     // of kNamedBlock
};

}  // namespace graft::jinja
