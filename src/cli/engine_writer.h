// EngineWriter: the server's engine as a teacher that writes. Its requests share steps and the
// pages of their prompts' beginnings; the likeliest tokens come with each token. Main thread.
#pragma once

#include <memory>

#include "learn/text_writer.h"
#include "runtime/progress.h"
#include "runtime/runtime.h"

namespace graft {

class EngineWriter : public TextWriter {
 public:
  // Starts an engine for the base model, which is borrowed.
  static Result<std::unique_ptr<EngineWriter>> Create(const RuntimeOptions& options,
                                                      LoadedModel& model, bool quiet);

  Result<std::vector<TaughtText>> Write(std::span<const WriteOrder> orders) override;
  int32_t num_choices() const override;

 private:
  explicit EngineWriter(bool quiet) : quiet_(quiet) {}
  Result<TaughtText> Collect(const WriteOrder& order, TokenStream& stream) const;

  const bool quiet_;
  std::unique_ptr<Runtime> runtime_;
  uint64_t num_requests_ = 0;
};

}  // namespace graft
