// Any bytes as a template, with messages that stay the same, and after a zero byte as messages.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/chat/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t zero = input.find('\0');
  const auto chat_template = graft::ChatTemplate::Parse(input.substr(0, zero));
  if (!chat_template.ok()) return 0;
  graft::OrderedJson context = graft::OrderedJson::parse(
      R"({"messages": [{"role": "system", "content": " a "}, {"role": "user", "content": "é🙂",
          "tool_calls": [{"function": {"name": "f", "arguments": {"x": [1, 2.5, null]}}}]}],
          "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>"})");
  if (zero != std::string_view::npos) {
    const auto messages = graft::OrderedJson::parse(input.substr(zero + 1), nullptr, false);
    if (!messages.is_discarded()) context["messages"] = messages;
  }
  graft::RenderOptions options;
  options.now = 0;
  options.work_max = 20'000;
  static_cast<void>(chat_template->Render(context, options).ok());
  return 0;
}
