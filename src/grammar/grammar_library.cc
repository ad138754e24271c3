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
// Limits of compiling one grammar: time of a core, and memory meanwhile.
constexpr int64_t kCompileNsMax = 10'000'000'000;
constexpr int64_t kCompileBytesMax = int64_t{256} << 20;
// The limit on a matcher's memory for the tokens of one answer so far.
constexpr int64_t kMatcherBytesMax = int64_t{64} << 20;
// A matcher has so many of these bytes without asking for room. It asks for as many at a time, and
// before it needs them: if it finds none in the middle of a token, it must begin anew.
constexpr int64_t kOwnBytes = int64_t{1} << 20;
constexpr int64_t kPieceBytes = int64_t{4} << 20;

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
  XGrammarMatcher(const xgrammar::CompiledGrammar& grammar, int32_t vocab_size,
                  std::shared_ptr<GrammarRoom> room)
      : matcher_(grammar), vocab_size_(vocab_size), room_(std::move(room)) {}
  ~XGrammarMatcher() override {
    if (num_taken_ > 0) (void)room_->Take(-num_taken_);
  }
  XGrammarMatcher(const XGrammarMatcher&) = delete;
  XGrammarMatcher& operator=(const XGrammarMatcher&) = delete;

  GrammarAnswer Accept(int32_t token, GrammarTime* time) override {
    MakeRoom();
    return Ask(time, GrammarMemory::kKept, [&] { return matcher_.AcceptToken(token); });
  }

  GrammarAnswer FillMask(std::span<uint32_t> words, GrammarTime* time) override {
    const GrammarAnswer answer = Ask(time, GrammarMemory::kNone, [&] {
      Fill(words);
      return true;
    });
    if (answer != GrammarAnswer::kYes) std::fill(words.begin(), words.end(), 0);
    // It may set bits beyond the vocabulary.
    if (vocab_size_ % 32 != 0) words.back() &= (uint32_t{1} << (vocab_size_ % 32)) - 1;
    const bool has_any =
        std::any_of(words.begin(), words.end(), [](uint32_t word) { return word != 0; });
    return answer == GrammarAnswer::kYes && !has_any ? GrammarAnswer::kNo : answer;
  }

 private:
  // An exception of the library, which may have been in the middle of something, is a no, unless
  // it had no more time.
  template <typename Part>
  GrammarAnswer Ask(GrammarTime* time, GrammarMemory memory, const Part& part) {
    const std::atomic<bool>* const stops = time->stops;
    const GrammarWork work(time->left_ns, memory, bytes_max() - bytes_,
                           [stops] { return stops != nullptr && *stops; });
    GrammarAnswer answer = GrammarAnswer::kNo;
    try {
      if (part()) answer = GrammarAnswer::kYes;
    } catch (const std::exception&) {
      if (GrammarWork::is_over()) answer = GrammarAnswer::kOutOfTime;
    }
    bytes_ += GrammarWork::bytes();
    time->left_ns -= work.used_ns();
    return answer;
  }

  int64_t bytes_max() const {
    return room_ == nullptr ? kMatcherBytesMax : std::min(kMatcherBytesMax, kOwnBytes + num_taken_);
  }

  // Most answers never ask.
  void MakeRoom() {
    if (bytes_ < kOwnBytes / 2) return;
    while (bytes_max() < std::min(kMatcherBytesMax, bytes_ + kPieceBytes)) {
      if (!room_->Take(kPieceBytes)) return;
      num_taken_ += kPieceBytes;
    }
  }

  void Fill(std::span<uint32_t> words) {
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
  }

  xgrammar::GrammarMatcher matcher_;
  const int32_t vocab_size_;
  const std::shared_ptr<GrammarRoom> room_;  // shared, since a matcher may be its last user
  int64_t num_taken_ = 0;                    // bytes of it
  int64_t bytes_ = 0;                        // of what was accepted
};

class XGrammarCompiled : public CompiledGrammar {
 public:
  XGrammarCompiled(xgrammar::CompiledGrammar grammar, int32_t vocab_size)
      : grammar_(std::move(grammar)),
        bytes_(static_cast<int64_t>(grammar_.MemorySizeBytes())),
        vocab_size_(vocab_size) {}

  std::unique_ptr<GrammarMatcher> NewMatcher(std::shared_ptr<GrammarRoom> room) const override {
    return std::make_unique<XGrammarMatcher>(grammar_, vocab_size_, std::move(room));
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
                                                 const std::function<bool()>& stops,
                                                 std::string* error) const override {
    try {
      const GrammarWork work(kCompileNsMax, GrammarMemory::kMade, kCompileBytesMax, stops);
      xgrammar::GrammarCompiler compiler(info_, kThreadsPerGrammar, /*cache_enabled=*/false);
      return std::make_shared<const XGrammarCompiled>(compiler.CompileStructuralTag(grammar),
                                                      vocab_size_);
    } catch (const std::exception& problem) {
      *error = stops() ? "" : MessageOf(problem);
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
