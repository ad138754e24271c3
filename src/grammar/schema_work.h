// SchemaWork: one budget for reading all schemas of a request, so that a request's time and memory
// are linear in its bytes, whatever its schemas refer to. A step is a value or a name that is read,
// copied or compared; each counts as often as that happens. For the reading thread; any thread may
// set `stops`.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "base/unwanted_work.h"

namespace graft {

class SchemaWork {
 public:
  // Some tenths of a second at most; a schema of 250 KB takes a tenth of it.
  static constexpr int64_t kStepsMax = 1'000'000;

  explicit SchemaWork(int64_t steps_max = kStepsMax) : steps_max_(steps_max) {}
  // Reading ends with kCancelled once `*stops` is true: its client has left, say. Borrowed.
  explicit SchemaWork(const std::atomic<bool>* stops) : steps_max_(kStepsMax), stops_(stops) {}

  // kUnimplemented: these were too many. Once it has failed, it always does.
  Status Take(int64_t steps) {
    steps_ += steps;
    if (WorkIsUnwanted() || (stops_ != nullptr && stops_->load(std::memory_order_relaxed))) {
      return CancelledError("the schema: nobody waits for it any more");
    }
    if (steps_ <= steps_max_) return OkStatus();
    return UnimplementedError(
        "the schema: is too large, or refers to its parts too often: each alternative, property "
        "and value counts as often as it is referred to; send a smaller one");
  }
  int64_t steps() const { return steps_; }

 private:
  const int64_t steps_max_;
  const std::atomic<bool>* const stops_ = nullptr;
  int64_t steps_ = 0;
};

constexpr size_t kBytesOfStep = 32;

// The steps that a text counts, and all that is in a value.
inline int64_t StepsOf(std::string_view text) {
  return 1 + static_cast<int64_t>(text.size() / kBytesOfStep);
}
inline int64_t StepsOf(const std::string& text) { return StepsOf(std::string_view(text)); }
inline int64_t StepsOf(const OrderedJson& value) {
  if (value.is_string()) return StepsOf(value.get_ref<const std::string&>());
  int64_t steps = 1;
  if (value.is_array()) {
    for (const OrderedJson& inner : value) steps += StepsOf(inner);
  } else if (value.is_object()) {
    for (const auto& [name, inner] : value.items()) steps += StepsOf(name) + StepsOf(inner);
  }
  return steps;
}

}  // namespace graft
