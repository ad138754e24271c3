// How many bytes of request bodies all connections together may hold, so that no number of clients
// takes the machine's memory. Thread-safe; a lease belongs to one request.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "server/shared_places.h"

namespace graft {

// A body up to here needs no lease: connections_max bounds what such bodies take together, and the
// small requests of everybody go on while large ones have used the budget up.
inline constexpr int64_t kUncountedBodyBytes = 64 << 10;

class BodyBudget {
 public:
  BodyBudget(int64_t bytes_max, const Clock& clock) : bytes_(bytes_max, clock) {}

  int64_t bytes_max() const { return bytes_.places_max(); }
  int64_t bytes() const { return bytes_.num_taken(); }

  // Whether memory that bodies have left may be handed back to the system: none is held, and
  // `bytes_min` or more were since the last time this was true.
  bool TakeRelease(int64_t bytes_min) {
    if (peak_bytes_ < bytes_min || bytes() != 0) return false;
    return peak_bytes_.exchange(0) >= bytes_min;
  }

 private:
  friend class BodyLease;

  bool Take(int64_t bytes) {
    const int64_t now = bytes_.TryTake(bytes);
    if (now < 0) return false;
    int64_t peak = peak_bytes_;
    while (peak < now && !peak_bytes_.compare_exchange_weak(peak, now)) {
    }
    return true;
  }

  SharedPlaces bytes_;
  std::atomic<int64_t> peak_bytes_{0};
};

// The bytes that one request's body has taken of the budget, given back at its end.
class BodyLease {
 public:
  BodyLease() = default;
  BodyLease(const BodyLease&) = delete;
  BodyLease& operator=(const BodyLease&) = delete;
  ~BodyLease() { Clear(); }

  // The body has so many bytes now. False if the budget has no room for that.
  bool Grow(BodyBudget* budget, int64_t body_bytes) {
    const int64_t more = body_bytes - bytes_;
    if (body_bytes <= kUncountedBodyBytes || more <= 0) return true;
    CHECK(budget_ == nullptr || budget_ == budget) << "a lease is of one budget";
    if (!budget->Take(more)) return false;
    budget_ = budget;
    bytes_ = body_bytes;
    return true;
  }
  void Clear() {
    if (budget_ != nullptr) budget_->bytes_.Free(std::exchange(bytes_, 0));
    budget_ = nullptr;
  }
  // Gives up what it holds, for which there was no room; seconds until there will be for a body of
  // so many bytes.
  int32_t Refuse(BodyBudget* budget, int64_t body_bytes) {
    budget_ = nullptr;
    return budget->bytes_.RetryAfterS(std::exchange(bytes_, 0), body_bytes);
  }

 private:
  BodyBudget* budget_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace graft
