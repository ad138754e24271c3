#include "text/jinja/template_parser.h"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <utility>

#include "text/jinja/expression_parser.h"

namespace graft::jinja {
namespace {

class Parser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Result<Block> ParseAll() {
    ASSIGN_OR_RETURN(Block block, ParseBlock(1, {}));
    if (Current().kind != TokenKind::kEnd) return Unexpected("the end of the template");
    return block;
  }

 private:
  using EndNames = std::initializer_list<std::string_view>;

  // Statements up to a tag named in `ends`, of which {% and the name stay; up to the template's end
  // if there are none. `line`: of the tag that opened the block.
  Result<Block> ParseBlock(int line, EndNames ends) {
    Block block;
    ++nesting_;
    if (nesting_ > kNestingMax) return Unexpected("fewer blocks within each other");
    while (Current().kind != TokenKind::kEnd) {
      if (Current().kind == TokenKind::kBlockBegin) {
        const Token& name = Ahead();
        const bool at_end = name.kind == TokenKind::kName &&
                            std::find(ends.begin(), ends.end(), name.text) != ends.end();
        if (at_end) break;
      }
      ASSIGN_OR_RETURN(Stmt stmt, ParseStatement());
      block.push_back(std::move(stmt));
    }
    if (Current().kind == TokenKind::kEnd && ends.size() > 0) {
      return Fail(line,
                  "the block that starts here has no {% " + std::string(*(ends.end() - 1)) + " %}");
    }
    --nesting_;
    return block;
  }

  // The body after a tag's expressions: `%}`, statements, `{% end %}`.
  Status ParseBody(int line, std::string_view end, Block* body) {
    RETURN_IF_ERROR(ExpectBlockEnd());
    ASSIGN_OR_RETURN(*body, ParseBlock(line, {end}));
    Take();
    Take();
    return ExpectBlockEnd();
  }

  Status ExpectBlockEnd() {
    if (Current().kind != TokenKind::kBlockEnd) return Unexpected("'%}'");
    Take();
    return OkStatus();
  }

  Result<Stmt> ParseStatement() {
    Stmt stmt;
    stmt.line = Current().line;
    if (Current().kind == TokenKind::kData) {
      stmt.text = std::move(Take().text);
      return stmt;
    }
    if (Current().kind == TokenKind::kVariableBegin) {
      Take();
      stmt.kind = StmtKind::kOutput;
      ASSIGN_OR_RETURN(stmt.expr, ParseTuple(true));
      if (Current().kind != TokenKind::kVariableEnd) return Unexpected("'}}'");
      Take();
      return stmt;
    }
    Take();
    ASSIGN_OR_RETURN(const std::string tag, TakeName("the name of a tag"));
    RETURN_IF_ERROR(ParseTag(tag, &stmt));
    return stmt;
  }

  Status ParseTag(const std::string& tag, Stmt* stmt) {
    if (tag == "if") return ParseIf(stmt);
    if (tag == "for") return ParseFor(stmt);
    if (tag == "set") return ParseSet(stmt);
    if (tag == "macro") return ParseMacro(stmt);
    if (tag == "call") return ParseCall(stmt);
    if (tag == "with") return ParseWith(stmt);
    if (tag == "filter") return ParseFilterBlock(stmt);
    if (tag == "block") return ParseNamedBlock(stmt);
    if (tag == "generation") {
      stmt->kind = StmtKind::kGeneration;
      return ParseBody(stmt->line, "endgeneration", &stmt->body);
    }
    if (tag == "break" || tag == "continue") {
      stmt->kind = tag == "break" ? StmtKind::kBreak : StmtKind::kContinue;
      if (loops_ == 0) return Fail(stmt->line, "{% " + tag + " %} outside of a loop");
      return ExpectBlockEnd();
    }
    static constexpr std::string_view kClosers[] = {
        "endif",   "else",    "elif",      "endfor",        "endset", "endmacro",
        "endcall", "endwith", "endfilter", "endgeneration", "endraw", "endblock"};
    if (std::find(std::begin(kClosers), std::end(kClosers), tag) != std::end(kClosers)) {
      return Fail(stmt->line, "{% " + tag + " %} belongs to no open block");
    }
    return Unsupported(stmt->line, "the tag '" + tag + "'");
  }

  Status ParseIf(Stmt* stmt) {
    stmt->kind = StmtKind::kIf;
    while (true) {
      Branch branch;
      ASSIGN_OR_RETURN(branch.condition, ParseTuple(false));
      RETURN_IF_ERROR(ExpectBlockEnd());
      ASSIGN_OR_RETURN(branch.body, ParseBlock(stmt->line, {"elif", "else", "endif"}));
      stmt->branches.push_back(std::move(branch));
      Take();
      const std::string next = Take().text;
      if (next == "elif") continue;
      if (next == "else") return ParseBody(stmt->line, "endif", &stmt->otherwise);
      return ExpectBlockEnd();
    }
  }

  Status ParseFor(Stmt* stmt) {
    stmt->kind = StmtKind::kFor;
    ASSIGN_OR_RETURN(stmt->target, ParseTarget(false, "in"));
    RETURN_IF_ERROR(ExpectName("in"));
    ASSIGN_OR_RETURN(stmt->expr, ParseTuple(false, "recursive"));
    if (SkipName("if")) {
      ASSIGN_OR_RETURN(stmt->condition, ParseExpression());
    }
    stmt->recursive = SkipName("recursive");
    RETURN_IF_ERROR(ExpectBlockEnd());
    ++loops_;
    Result<Block> body = ParseBlock(stmt->line, {"else", "endfor"});
    --loops_;
    ASSIGN_OR_RETURN(stmt->body, std::move(body));
    Take();
    if (Take().text == "else") return ParseBody(stmt->line, "endfor", &stmt->otherwise);
    return ExpectBlockEnd();
  }

  static ExprPtr NewCaptured(int line) {
    auto captured = std::make_unique<Expr>();
    captured->kind = ExprKind::kCaptured;
    captured->line = line;
    return captured;
  }

  Status ParseSet(Stmt* stmt) {
    stmt->kind = StmtKind::kSet;
    ASSIGN_OR_RETURN(stmt->target, ParseTarget(true));
    if (SkipOperator("=")) {
      ASSIGN_OR_RETURN(stmt->expr, ParseTuple(true));
      return ExpectBlockEnd();
    }
    stmt->kind = StmtKind::kSetBlock;
    ASSIGN_OR_RETURN(stmt->expr, ParseFilters(NewCaptured(stmt->line), false));
    return ParseBody(stmt->line, "endset", &stmt->body);
  }

  Status ParseFilterBlock(Stmt* stmt) {
    stmt->kind = StmtKind::kFilterBlock;
    ASSIGN_OR_RETURN(stmt->expr, ParseFilters(NewCaptured(stmt->line), true));
    return ParseBody(stmt->line, "endfilter", &stmt->body);
  }

  // Without inheritance a block is what stands in it.
  Status ParseNamedBlock(Stmt* stmt) {
    stmt->kind = StmtKind::kNamedBlock;
    ASSIGN_OR_RETURN(stmt->text, TakeName("the name of a block"));
    if (!block_names_.insert(stmt->text).second) {
      return Fail(stmt->line, "the block '" + stmt->text + "' is defined twice");
    }
    stmt->scoped = SkipName("scoped");
    if (Current().IsName("required")) return Unsupported(stmt->line, "a required block");
    const int outer_loops = std::exchange(loops_, 0);
    RETURN_IF_ERROR(ExpectBlockEnd());
    ASSIGN_OR_RETURN(stmt->body, ParseBlock(stmt->line, {"endblock"}));
    loops_ = outer_loops;
    Take();
    Take();
    SkipName(stmt->text);
    return ExpectBlockEnd();
  }

  // A body that runs later, elsewhere: no loop around it, and it may name the extra arguments.
  Status ParseMacroBody(std::string_view end, Stmt* stmt) {
    const MacroUses outer_uses = std::exchange(uses_, MacroUses());
    const int outer_loops = std::exchange(loops_, 0);
    RETURN_IF_ERROR(ParseBody(stmt->line, end, &stmt->body));
    stmt->uses_varargs = uses_.varargs;
    stmt->uses_kwargs = uses_.kwargs;
    stmt->uses_caller = uses_.caller;
    uses_ = outer_uses;
    loops_ = outer_loops;
    return OkStatus();
  }

  Status ParseMacro(Stmt* stmt) {
    stmt->kind = StmtKind::kMacro;
    ASSIGN_OR_RETURN(stmt->text, TakeName("the name of a macro"));
    ASSIGN_OR_RETURN(stmt->parameters, ParseParameters());
    return ParseMacroBody("endmacro", stmt);
  }

  Status ParseCall(Stmt* stmt) {
    stmt->kind = StmtKind::kCall;
    stmt->text = "caller";
    if (Current().IsOperator("(")) {
      ASSIGN_OR_RETURN(stmt->parameters, ParseParameters());
    }
    ASSIGN_OR_RETURN(stmt->expr, ParseExpression());
    if (stmt->expr->kind != ExprKind::kCall) {
      return Fail(stmt->line, "{% call %} needs the call of a macro");
    }
    return ParseMacroBody("endcall", stmt);
  }

  Status ParseWith(Stmt* stmt) {
    stmt->kind = StmtKind::kWith;
    while (Current().kind != TokenKind::kBlockEnd) {
      if (!stmt->assignments.empty()) RETURN_IF_ERROR(ExpectOperator(","));
      ASSIGN_OR_RETURN(Target target, ParseTarget(false));
      RETURN_IF_ERROR(ExpectOperator("="));
      ASSIGN_OR_RETURN(ExprPtr value, ParseExpression());
      stmt->assignments.emplace_back(std::move(target), std::move(value));
    }
    return ParseBody(stmt->line, "endwith", &stmt->body);
  }

  int loops_ = 0;
  std::set<std::string> block_names_;
};

}  // namespace

Result<Block> ParseTemplate(std::string_view source) {
  ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(source));
  return Parser(std::move(tokens)).ParseAll();
}

}  // namespace graft::jinja
