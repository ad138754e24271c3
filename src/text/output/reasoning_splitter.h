// Tells reasoning, which a model writes between marks, from the rest of its output, byte by byte.
// One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace graft {

enum class ReasoningFormat : uint8_t {
  kNone,
  kThink,    // <think>...</think> before all else: DeepSeek R1, Qwen3, QwQ
  kMistral,  // [THINK]...[/THINK] anywhere: Magistral
};

// "" for kNone.
std::string_view ReasoningOpeningMark(ReasoningFormat format);
std::string_view ReasoningClosingMark(ReasoningFormat format);

class ReasoningSplitter {
 public:
  // What becomes of a byte that is certain to be none of a mark.
  using Take = std::function<void(bool is_reasoning, char c)>;

  // `is_open`: the prompt ends with the opening mark, which some models write once more.
  ReasoningSplitter(ReasoningFormat format, bool is_open, Take take);

  void Push(char c);
  // Gives what was held back; no mark goes on with what comes next. So does the text's end.
  void Finish();
  bool is_inside() const { return state_ == State::kOpened || state_ == State::kInside; }

 private:
  enum class State {
    kStart,   // nothing but white space has come
    kOpened,  // inside by the prompt; nothing but white space has come
    kInside,
    kText,
  };

  void PushStart(char c);
  void PushInside(char c);
  void PushText(char c);
  // Gives the first held bytes until the rest begins one of the marks, which the byte may complete.
  void Release(bool is_reasoning, std::initializer_list<std::string_view> marks);
  void GiveHeld(bool is_reasoning);

  const ReasoningFormat format_;
  const std::string_view open_;
  const std::string_view close_;
  const Take take_;
  State state_;
  std::string held_;
  size_t num_blanks_ = 0;  // before the first mark, of held_
};

}  // namespace graft
