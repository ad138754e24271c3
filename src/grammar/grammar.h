// What an answer may be, token by token. Interfaces in front of the library that knows
// (grammar_library.h), without its headers: it is opened where a request first asks for it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace graft {

// How much of a core calls may take; each takes its own from it. One thread.
struct GrammarTime {
  int64_t left_ns = 0;
  // Once it is true a call ends as if it had taken all. Borrowed; null: it never is.
  const std::atomic<bool>* stops = nullptr;
};

// kOutOfTime: the answer is not known, and the matcher is of no use any more.
enum class GrammarAnswer : uint8_t { kYes, kNo, kOutOfTime };

// Memory for states of matchers, which answers share. Any thread.
class GrammarRoom {
 public:
  virtual ~GrammarRoom() = default;
  // Below 0: gives so much back. False: there is not so much, and nothing is taken.
  virtual bool Take(int64_t bytes) = 0;
};

// Where one answer stands in its grammar. One thread at a time.
class GrammarMatcher {
 public:
  virtual ~GrammarMatcher() = default;
  // The token joins the answer. kNo: it may not come here, and nothing changes.
  virtual GrammarAnswer Accept(int32_t token, GrammarTime* time) = 0;
  // The tokens that may come next, as NumMaskWords(vocab_size) words (base/token_mask.h); an end
  // token is among them where the answer may end. kNo: none may.
  virtual GrammarAnswer FillMask(std::span<uint32_t> words, GrammarTime* time) = 0;
};

// Immutable; any thread.
class CompiledGrammar {
 public:
  virtual ~CompiledGrammar() = default;
  // Shared with the matcher, which takes what it needs beyond a small part of its own; null: it
  // takes as much as one may have.
  virtual std::unique_ptr<GrammarMatcher> NewMatcher(std::shared_ptr<GrammarRoom> room) const = 0;
  virtual int64_t bytes() const = 0;
};

// Any thread, several at a time.
class GrammarCompiler {
 public:
  virtual ~GrammarCompiler() = default;
  // Compiles a text that grammar_text.h made. Null: *error says what is wrong with it, or is empty:
  // `stops`, which is asked now and then, became true.
  virtual std::shared_ptr<const CompiledGrammar> Compile(const std::string& grammar,
                                                         const std::function<bool()>& stops,
                                                         std::string* error) const = 0;
};

struct GrammarVocabulary {
  int32_t vocab_size = 0;                // of the model: ids that its logits have
  std::vector<std::string> token_bytes;  // by id; "": in no grammar
  std::vector<int32_t> end_tokens;       // end an answer, and are nothing else
};

}  // namespace graft
