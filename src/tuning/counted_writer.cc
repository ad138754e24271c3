#include "tuning/counted_writer.h"

#include <string>

#include "learn/learner.h"
#include "runtime/memory_sum.h"

namespace graft {

Result<std::vector<TaughtText>> CountedWriter::Write(std::span<const WriteOrder> orders) {
  ASSIGN_OR_RETURN(std::vector<TaughtText> texts, writer_.Write(orders));
  LearnerDataSize size;
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto prompt = static_cast<int64_t>(orders[i].prompt.size());
    size.Add(1, 0, prompt, static_cast<int64_t>(texts[i].tokens.size()), num_choices() + 1);
  }
  bytes_ += size.bytes;
  if (bytes_ <= bytes_max_) return texts;
  return ResourceExhaustedError("what the base writes about the document takes more than the " +
                                BytesText(bytes_max_) +
                                " that this server has for it: lower questions, outputs or "
                                "output_tokens, or learn the document in parts");
}

}  // namespace graft
