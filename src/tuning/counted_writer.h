// CountedWriter: a teacher with a bound on the memory of all its texts. How much a document's texts
// take is known once they are written: this keeps them within what was planned, but for as many as
// are written side by side. One thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "learn/text_writer.h"

namespace graft {

class CountedWriter : public TextWriter {
 public:
  // `writer` is borrowed.
  CountedWriter(TextWriter& writer, int64_t bytes_max) : writer_(writer), bytes_max_(bytes_max) {}

  void Announce(std::string_view what) override { writer_.Announce(what); }
  // kResourceExhausted, with what to do about it, once texts take more. Orders for which there may
  // be no room go to the writer in parts.
  Result<std::vector<TaughtText>> Write(std::span<const WriteOrder> orders) override;
  int32_t num_choices() const override { return writer_.num_choices(); }
  size_t orders_at_once() const override { return writer_.orders_at_once(); }

 private:
  size_t PartOf(std::span<const WriteOrder> orders) const;

  TextWriter& writer_;
  const int64_t bytes_max_;
  int64_t bytes_ = 0;
};

}  // namespace graft
