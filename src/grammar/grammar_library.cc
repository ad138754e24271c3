#include "grammar/grammar_library.h"

#include <xgrammar/xgrammar.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "grammar/grammar_work.h"

namespace graft {
namespace {

// Its requests wait for one grammar each, and others are compiled at the same time.
constexpr int kThreadsPerGrammar = 1;
// Of a core, for one grammar.
constexpr int64_t kCompileNsMax = 10'000'000'000;
// For one token of one answer, which holds up its step.
constexpr int64_t kTokenNsMax = 1'000'000'000;

// Without the place in the library's sources.
std::string MessageOf(const std::exception& problem) {
  std::string message = problem.what();
  const size_t file = message.find(".cc:");
  const size_t begin = file == std::string::npos ? file : message.find(": ", file);
  if (begin != std::string::npos) message.erase(0, begin + 2);
  while (!message.empty() && message.back() == '\n') message.pop_back();
  return message;
}

class XGrammarMatcher : public GrammarMatcher {
 public:
  explicit XGrammarMatcher(const xgrammar::CompiledGrammar& grammar, int32_t vocab_size)
      : matcher_(grammar), vocab_size_(vocab_size) {}

  bool Accept(int32_t token) override {
    try {
      const GrammarWork work(kTokenNsMax);
      return matcher_.AcceptToken(token);
    } catch (const std::exception&) {
      return false;
    }
  }

  bool FillMask(std::span<uint32_t> words) override {
    try {
      const GrammarWork work(kTokenNsMax);
      int64_t shape[] = {static_cast<int64_t>(words.size())};
      DLTensor tensor = {};
      tensor.data = words.data();
      tensor.device = {kDLCPU, 0};
      tensor.ndim = 1;
      tensor.dtype = xgrammar::GetBitmaskDLType();
      tensor.shape = shape;
      if (matcher_.IsTerminated()) {
        std::fill(words.begin(), words.end(), 0);
      } else if (!matcher_.FillNextTokenBitmask(&tensor)) {
        std::fill(words.begin(), words.end(), ~uint32_t{0});
      }
    } catch (const std::exception&) {
      std::fill(words.begin(), words.end(), 0);
    }
    // It may set bits beyond the vocabulary.
    if (vocab_size_ % 32 != 0) words.back() &= (uint32_t{1} << (vocab_size_ % 32)) - 1;
    return std::any_of(words.begin(), words.end(), [](uint32_t word) { return word != 0; });
  }

 private:
  xgrammar::GrammarMatcher matcher_;
  const int32_t vocab_size_;
};

class XGrammarCompiled : public CompiledGrammar {
 public:
  XGrammarCompiled(xgrammar::CompiledGrammar grammar, int32_t vocab_size)
      : grammar_(std::move(grammar)),
        bytes_(static_cast<int64_t>(grammar_.MemorySizeBytes())),
        vocab_size_(vocab_size) {}

  std::unique_ptr<GrammarMatcher> NewMatcher() const override {
    return std::make_unique<XGrammarMatcher>(grammar_, vocab_size_);
  }
  int64_t bytes() const override { return bytes_; }

 private:
  const xgrammar::CompiledGrammar grammar_;
  const int64_t bytes_;
  const int32_t vocab_size_;
};

class XGrammarCompiler : public GrammarCompiler {
 public:
  explicit XGrammarCompiler(const GrammarVocabulary& vocabulary)
      : info_(vocabulary.token_bytes, xgrammar::VocabType::RAW, vocabulary.vocab_size,
              vocabulary.end_tokens),
        vocab_size_(vocabulary.vocab_size) {}

  std::shared_ptr<const CompiledGrammar> Compile(const std::string& grammar,
                                                 std::string* error) const override {
    try {
      const GrammarWork work(kCompileNsMax);
      xgrammar::GrammarCompiler compiler(info_, kThreadsPerGrammar, /*cache_enabled=*/false);
      return std::make_shared<const XGrammarCompiled>(compiler.CompileStructuralTag(grammar),
                                                      vocab_size_);
    } catch (const std::exception& problem) {
      *error = MessageOf(problem);
      return nullptr;
    }
  }

 private:
  const xgrammar::TokenizerInfo info_;
  const int32_t vocab_size_;
};

class XGrammarLibrary : public GrammarLibrary {
 public:
  std::unique_ptr<GrammarCompiler> NewCompiler(const GrammarVocabulary& vocabulary,
                                               std::string* error) const override {
    try {
      return std::make_unique<XGrammarCompiler>(vocabulary);
    } catch (const std::exception& problem) {
      *error = problem.what();
      return nullptr;
    }
  }
};

}  // namespace
}  // namespace graft

const graft::GrammarLibrary* graft_grammar_library() {
  static const graft::XGrammarLibrary library;
  return &library;
}

int graft_grammar_interface() { return graft::kGrammarInterface; }
