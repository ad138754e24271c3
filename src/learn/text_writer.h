// TextWriter: the base model as a teacher, which writes texts and says what else it might have
// written. The engine is one (tuning/engine_writer.h): it shares the prompts' beginnings, and what
// it says costs no pass of its own. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace graft {

struct WriteOrder {
  std::vector<int32_t> prompt;
  // What is read behind the prompt; empty: it is written, up to tokens_max of it.
  std::vector<int32_t> given;
  int32_t tokens_max = 0;
  uint64_t seed = 0;
  float temperature = 1.0f;  // 0: the likeliest token each time
  float top_p = 0.8f;
};

// What was written or read, and for each of its tokens the likeliest ones in its place.
struct TaughtText {
  std::vector<int32_t> tokens;
  std::vector<int32_t> ids;          // [tokens, num_choices]
  std::vector<float> probabilities;  // likewise; the rest is not shared out
};

// Of a token, at most.
inline constexpr int32_t kTextChoicesMax = 20;

class TextWriter {
 public:
  virtual ~TextWriter() = default;
  // What the orders of the next Write are, for people who watch: "questions".
  virtual void Announce(std::string_view /*what*/) {}
  // In the orders' order.
  virtual Result<std::vector<TaughtText>> Write(std::span<const WriteOrder> orders) = 0;
  // Of all texts.
  virtual int32_t num_choices() const = 0;
  // How many are written side by side: whoever orders much fewer at a time leaves places empty.
  virtual size_t orders_at_once() const { return 256; }
};

}  // namespace graft
