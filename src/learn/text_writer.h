// TextWriter: the base model as a teacher. It writes texts and says what else it might have
// written. The engine is one (tuning/engine_writer.h): there texts share the beginnings of their
// prompts, and the likeliest tokens cost no pass of their own. One thread.
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
  // A text that is read behind the prompt. Empty: a text of up to tokens_max tokens is written.
  std::vector<int32_t> given;
  int32_t tokens_max = 0;
  uint64_t seed = 0;
  float temperature = 1.0f;  // 0: the likeliest token each time
  float top_p = 0.8f;
};

// What was written or read, with the likeliest tokens in each token's place.
struct TaughtText {
  std::vector<int32_t> tokens;
  std::vector<int32_t> ids;          // [tokens, num_choices]
  std::vector<float> probabilities;  // [tokens, num_choices]; their sum may be less than 1
};

// The largest num_choices.
inline constexpr int32_t kTextChoicesMax = 20;

class TextWriter {
 public:
  virtual ~TextWriter() = default;
  // Says what the next Write's orders are, for people who watch: "questions".
  virtual void Announce(std::string_view /*what*/) {}
  // Returns texts in the orders' order.
  virtual Result<std::vector<TaughtText>> Write(std::span<const WriteOrder> orders) = 0;
  // How many likeliest tokens each token of a text has.
  virtual int32_t num_choices() const = 0;
  // How many texts are written side by side. Much smaller orders leave places empty.
  virtual size_t orders_at_once() const { return 256; }
};

}  // namespace graft
