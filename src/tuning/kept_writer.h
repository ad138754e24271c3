// KeptWriter: a teacher that keeps its texts in a folder. Another learner or rank that wants the
// same ones gets them from there, and the base writes nothing. One thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "learn/text_writer.h"

namespace graft {

class KeptWriter : public TextWriter {
 public:
  // `writer` is borrowed. `identity` names all that its texts depend on besides the orders.
  // `on_kept` is called after each Write that put texts into the folder.
  KeptWriter(TextWriter& writer, std::string folder, std::string identity,
             std::function<void()> on_kept = nullptr);

  void Announce(std::string_view what) override { writer_.Announce(what); }
  // A damaged file counts as none. Fails where the writer does. If the folder cannot be written to,
  // the log says so and the texts are not kept.
  Result<std::vector<TaughtText>> Write(std::span<const WriteOrder> orders) override;
  int32_t num_choices() const override { return writer_.num_choices(); }
  size_t orders_at_once() const override { return writer_.orders_at_once(); }

 private:
  std::string PathOf(std::span<const WriteOrder> orders) const;

  TextWriter& writer_;
  const std::string folder_;
  const std::string identity_;
  const std::function<void()> on_kept_;
  bool has_warned_ = false;
};

}  // namespace graft
