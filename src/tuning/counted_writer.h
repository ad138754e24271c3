// CountedWriter: a teacher with a limit on the memory of all its texts. The size of a document's
// texts is known only once they are written. The writer keeps them within the planned size; only
// texts that are written at the same time may exceed it. One thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <utility>

#include "learn/learner.h"
#include "learn/text_writer.h"
#include "runtime/memory_sum.h"

namespace graft {

class CountedWriter : public TextWriter {
 public:
  // `writer` is borrowed.
  CountedWriter(TextWriter& writer, int64_t bytes_max) : writer_(writer), bytes_max_(bytes_max) {}

  void Announce(std::string_view what) override { writer_.Announce(what); }
  // kResourceExhausted, with what to do about it, once texts take more. Orders for which there may
  // be no room go to the writer in parts.
  Result<std::vector<TaughtText>> Write(std::span<const WriteOrder> orders) override {
    std::vector<TaughtText> texts;
    while (texts.size() < orders.size()) {
      const std::span<const WriteOrder> left = orders.subspan(texts.size());
      const std::span<const WriteOrder> part = left.first(PartOf(left));
      ASSIGN_OR_RETURN(std::vector<TaughtText> written, writer_.Write(part));
      LearnerDataSize size;
      for (const TaughtText& text : written) {
        size.Add(1, 0, static_cast<int64_t>(text.tokens.size()), num_choices() + 1);
      }
      bytes_ += size.bytes;
      if (bytes_ > bytes_max_) {
        return ResourceExhaustedError(
            "what the base writes about the document takes more than the " + BytesText(bytes_max_) +
            " that this server has for it: lower questions, outputs or "
            "output_tokens, or learn the document in parts");
      }
      std::move(written.begin(), written.end(), std::back_inserter(texts));
    }
    return texts;
  }

  int32_t num_choices() const override { return writer_.num_choices(); }
  size_t orders_at_once() const override { return writer_.orders_at_once(); }

 private:
  // As many of them as there is room for whatever is written, or as are written side by side. What
  // a teacher reads before a text is kept by no example, and what a student reads is short.
  size_t PartOf(std::span<const WriteOrder> orders) const {
    LearnerDataSize most;
    for (size_t i = 0; i < orders.size(); ++i) {
      const WriteOrder& order = orders[i];
      most.Add(1, 0,
               order.given.empty() ? order.tokens_max : static_cast<int64_t>(order.given.size()),
               num_choices() + 1);
      if (bytes_ + most.bytes > bytes_max_ && i >= orders_at_once()) return i;
    }
    return orders.size();
  }

  TextWriter& writer_;
  const int64_t bytes_max_;
  int64_t bytes_ = 0;
};

}  // namespace graft
