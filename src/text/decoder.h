// The decoder of a tokenizer.json: token texts in, text out. It is written as a stream, so that
// decoding a whole answer and decoding it token by token are the same code. Decoder is immutable,
// for any thread. A DecodeStream belongs to one thread and must not outlive its Decoder.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/pattern.h"
#include "text/utf8.h"

namespace graft {

class Decoder {
 public:
  // `json` may be null: tokens joined by spaces. kUnimplemented names a type that is not supported.
  static Result<Decoder> Parse(const Json& json);
  // What HF makes of a sentencepiece model: U+2581 is a space, <0xNN> are bytes, and the first
  // space goes where `strips_first_space`.
  static Decoder Metaspace(bool strips_first_space);

  // The bytes that one token stands for, without regard to its neighbours.
  std::string TokenBytes(std::string_view token) const;

 private:
  friend class DecodeStream;
  enum class Kind { kByteLevel, kByteFallback, kFuse, kStrip, kReplace, kMetaspace, kJoinBySpace };
  struct Step {
    Kind kind;
    bool fused = false;              // what comes in is one long token in pieces
    std::optional<Pattern> pattern;  // of kReplace
    std::string content;             // of kReplace, kStrip (one code point), kMetaspace
    int64_t start = 0;               // of kStrip: code points to take off at most
    int64_t stop = 0;
    bool strips_first = false;  // of kMetaspace
  };

  Status AddSteps(const Json& json);
  Result<Step> ParseStep(const Json& json, const std::string& type) const;
  static Result<Step> ParseStrip(const Json& json);
  static Result<Step> ParseMetaspace(const Json& json);
  void Add(Step step);

  std::vector<Step> steps_;
  bool fused_ = false;  // whether what leaves the last step is one long token in pieces
};

class DecodeStream {
 public:
  explicit DecodeStream(const Decoder& decoder);

  // Appends the text that has become certain with this token. Always whole code points.
  void Push(std::string_view token, std::string* out);
  // A run of byte tokens ends here, as before any other token: appends its text.
  void EndByteRun(std::string* out);
  // Appends what was held back; the stream starts anew.
  void Flush(std::string* out);

 private:
  struct State {
    Utf8Stream utf8;       // of kByteLevel
    std::string held;      // kByteFallback: bytes; kStrip: what may be stripped at the end
    int64_t stripped = 0;  // of kStrip: code points taken off the start
    bool started = false;
  };

  void Feed(size_t step_idx, std::string token, std::string* out);
  void FlushByteRun(size_t step_idx, std::string* out);
  void FeedStrip(size_t step_idx, std::string token, std::string* out);
  std::string StripStart(const Decoder::Step& step, State* state, std::string token) const;

  const Decoder* decoder_;
  std::vector<State> states_;  // one per step
};

}  // namespace graft
