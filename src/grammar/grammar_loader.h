// Opens libgraft_grammar.so. Any thread.
#pragma once

#include <string>

#include "base/status.h"
#include "grammar/grammar_library.h"

namespace graft {

// kUnimplemented, with the command that builds it, where it is not there. Stays open for good.
// `path`: of the library; "": beside the program or where packages and builds keep it.
Result<const GrammarLibrary*> LoadGrammarLibrary(const std::string& path = "");

}  // namespace graft
