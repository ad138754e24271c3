#include "cache/idle_order.h"

#include "base/check.h"

namespace graft {

void IdleOrder::Put(int32_t item, int32_t holder, uint64_t used_at) {
  CHECK(item >= 0 && !Has(item)) << "item " << item;
  CHECK_GE(holder, 0) << "item " << item << " without a holder";
  if (static_cast<size_t>(item) >= nodes_.size()) nodes_.resize(static_cast<size_t>(item) + 1);
  if (static_cast<size_t>(holder) >= lines_.size()) lines_.resize(static_cast<size_t>(holder) + 1);
  Line& line = lines_[static_cast<size_t>(holder)];
  int32_t before = line.newest;
  for (; before >= 0 && at(before).used_at > used_at; ++num_visits_) before = at(before).before;
  const int32_t after = before < 0 ? line.oldest : at(before).after;
  at(item) = {.holder = holder, .before = before, .after = after, .used_at = used_at};
  (before < 0 ? line.oldest : at(before).after) = item;
  (after < 0 ? line.newest : at(after).before) = item;
  ++size_;
}

void IdleOrder::Remove(int32_t item) {
  CHECK(Has(item)) << "item " << item;
  const Node node = at(item);
  Line& line = lines_[static_cast<size_t>(node.holder)];
  (node.before < 0 ? line.oldest : at(node.before).after) = node.after;
  (node.after < 0 ? line.newest : at(node.after).before) = node.before;
  at(item) = Node();
  --size_;
}

Status IdleOrder::CheckIntegrity() const {
  int32_t num_left = size_;
  for (size_t holder = 0; holder < lines_.size(); ++holder) {
    int32_t before = -1;
    for (int32_t item = lines_[holder].oldest; item >= 0; item = at(item).after) {
      if (num_left-- == 0 || at(item).holder != static_cast<int32_t>(holder) ||
          at(item).before != before || (before >= 0 && at(before).used_at > at(item).used_at)) {
        return InternalError("idle items are not in order");
      }
      before = item;
    }
    if (lines_[holder].newest != before) return InternalError("a line of idle items ends early");
  }
  return num_left == 0 ? OkStatus() : InternalError("an idle item is in no line");
}

}  // namespace graft
