#include "runtime/answer_grammars.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "grammar/grammar_loader.h"
#include "text/output/output_format.h"

namespace graft {
namespace {

std::set<std::string_view> AllMarks() {
  std::set<std::string_view> marks;
  for (const ToolFormat format :
       {ToolFormat::kHermes, ToolFormat::kLlama, ToolFormat::kMistral, ToolFormat::kDeepSeek,
        ToolFormat::kPythonic, ToolFormat::kGemma}) {
    for (const std::string_view mark : MarksOf(format)) marks.insert(mark);
  }
  for (const ReasoningFormat format : {ReasoningFormat::kThink, ReasoningFormat::kMistral}) {
    marks.insert(ReasoningOpeningMark(format));
    marks.insert(ReasoningClosingMark(format));
  }
  return marks;
}

Result<std::unique_ptr<GrammarCompiler>> MakeCompiler(const std::string& folder, int32_t vocab_size,
                                                      const std::vector<int32_t>& end_tokens) {
  ASSIGN_OR_RETURN(const GrammarLibrary* const library, LoadGrammarLibrary());
  if (folder.empty()) return UnimplementedError("a model without a tokenizer has no grammars");
  if (end_tokens.empty()) {
    return UnimplementedError(
        "this model has no token that ends an answer (eos_token_id), as answers in a given form "
        "need");
  }
  ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(folder));
  std::string error;
  std::unique_ptr<GrammarCompiler> compiler =
      library->NewCompiler(GrammarVocabularyOf(*tokenizer, vocab_size, end_tokens), &error);
  if (compiler == nullptr) return InternalError("the vocabulary's grammars: " + error);
  return compiler;
}

}  // namespace

GrammarVocabulary GrammarVocabularyOf(const Tokenizer& tokenizer, int32_t vocab_size,
                                      const std::vector<int32_t>& end_tokens) {
  static const std::set<std::string_view> marks = AllMarks();
  GrammarVocabulary vocabulary = {.vocab_size = vocab_size, .end_tokens = end_tokens};
  const int32_t num_tokens = std::min(vocab_size, tokenizer.vocab_size());
  vocabulary.token_bytes.resize(static_cast<size_t>(num_tokens));
  for (int32_t token = 0; token < num_tokens; ++token) {
    if (tokenizer.IsSpecial(token) && !marks.contains(tokenizer.TokenText(token))) continue;
    vocabulary.token_bytes[static_cast<size_t>(token)] = tokenizer.TokenBytes(token);
  }
  return vocabulary;
}

std::unique_ptr<GrammarStore> MakeGrammarStore(const std::string& folder, int32_t vocab_size,
                                               const ModelConfig& config) {
  return std::make_unique<GrammarStore>([folder, vocab_size, end_tokens = config.eos_token_ids] {
    return MakeCompiler(folder, vocab_size, end_tokens);
  });
}

}  // namespace graft
