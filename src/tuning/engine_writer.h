// EngineWriter: the server's engine as a teacher that writes texts, or as a pupil that is asked.
// Its requests share steps and the pages of common prompt beginnings, and get the likeliest tokens
// with each token. The texts do not depend on what else the engine serves. A text for which the
// engine has no room is ordered again once it has. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "learn/text_writer.h"
#include "request/generator.h"

namespace graft {

struct WriterSettings {
  // The tenant that the engine counts the requests to, and its share of the engine.
  std::string tenant;
  float tenant_weight = 1.0f;
  size_t orders_at_once = 256;
  uint64_t first_id = 1;
  std::string adapter = {};  // the key of one that answers; "": the base
  // After each text; false: to be given up.
  std::function<bool(int64_t done, int64_t total)> on_text = {};
  // Waits so long where the engine has no room; false: to be given up. Empty: it sleeps.
  std::function<bool(std::chrono::seconds time)> wait = {};
  // What the next texts are (TextWriter::Announce).
  std::function<void(std::string_view what)> on_stage = {};
};

class EngineWriter : public TextWriter {
 public:
  // Borrows the generator. Its base model writes, or the adapter of the settings.
  EngineWriter(Generator& generator, WriterSettings settings);

  void Announce(std::string_view what) override {
    if (settings_.on_stage) settings_.on_stage(what);
  }
  // kCancelled: given up. kInternal: the engine never takes such an order, which is no fault of the
  // document.
  Result<std::vector<TaughtText>> Write(std::span<const WriteOrder> orders) override;
  int32_t num_choices() const override;
  size_t orders_at_once() const override { return settings_.orders_at_once; }

 private:
  struct Pending {
    RequestId id = 0;
    std::shared_ptr<TokenStream> stream;  // the engine's end, too
  };

  Result<Pending> Submit(const WriteOrder& order);
  // As many of the orders from `next` on as there is room for.
  Status SubmitMore(std::span<const WriteOrder> orders, size_t* next);
  Status WaitForRoom();
  Result<TaughtText> Collect(const WriteOrder& order, TokenStream& stream) const;
  Result<std::vector<TaughtText>> WriteAll(std::span<const WriteOrder> orders);

  Generator& generator_;
  const WriterSettings settings_;
  uint64_t next_id_;
  std::deque<Pending> pending_;
};

}  // namespace graft
