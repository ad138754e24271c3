// libgraft_grammar.so's one entry. It is built once, apart from the program (tools/grammar.sh), and
// nothing else includes XGrammar's headers.
#pragma once

#include <memory>

#include "grammar/grammar.h"

namespace graft {

class GrammarLibrary {
 public:
  virtual ~GrammarLibrary() = default;
  // Null: *error says why.
  virtual std::unique_ptr<GrammarCompiler> NewCompiler(const GrammarVocabulary& vocabulary,
                                                       std::string* error) const = 0;
};

// Goes up with every change of these interfaces and of the text: program and library must agree.
inline constexpr int kGrammarInterface = 3;

}  // namespace graft

extern "C" const graft::GrammarLibrary* graft_grammar_library();
extern "C" int graft_grammar_interface();
