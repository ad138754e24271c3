// AdapterTurn: a bounded time in which requests that have room run, while another request finds no
// room for its adapter (docs/inside/adapters-paging.md#turns). A turn begins with the first plan in
// which a request finds no room. When it is over, one plan makes room for that request, and the
// next turn begins. Without such a request there is no turn. Engine thread only.
#pragma once

#include <cstdint>
#include <optional>

namespace graft {

class AdapterTurn {
 public:
  explicit AdapterTurn(int64_t turn_ns) : turn_ns_(turn_ns) {}

  // A plan begins.
  void BeginPlan(int64_t now_ns) {
    is_over_ = begin_ns_.has_value() && now_ns - *begin_ns_ >= turn_ns_;
  }
  // The plan that began at `now_ns` is made: whether a request in it found no room.
  void EndPlan(int64_t now_ns, bool lacks_room) {
    if (!lacks_room) {
      begin_ns_.reset();
    } else if (!begin_ns_.has_value() || is_over_) {
      begin_ns_ = now_ns;
    }
  }

  bool is_running() const { return begin_ns_.has_value(); }
  // This plan ends a turn.
  bool is_over() const { return is_over_; }

 private:
  const int64_t turn_ns_;
  std::optional<int64_t> begin_ns_;
  bool is_over_ = false;
};

}  // namespace graft
