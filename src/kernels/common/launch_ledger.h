// LaunchLedger: what a thread launched last on a stream of a GPU, and what it said would come next.
// A kernel that relies on its neighbour (LoraArgs::follows_product, precedes_product) does not wait
// for the kernels that write its x: the neighbour has done so. If another kernel were launched
// between the two, it could read x too early, and no error would show. So the host CHECKs the order
// at each launch. There is one ledger per thread, as a stream has one thread; launches on other
// streams do not stand between.
#pragma once

#include "base/check.h"

namespace graft {

class LaunchLedger {
 public:
  static LaunchLedger& OfThread() {
    static thread_local LaunchLedger ledger;
    return ledger;
  }

  // A kernel is launched: LaunchKernel says so of each.
  void Launched(const void* stream) {
    CHECK(awaited_.x == nullptr || awaited_.stream != stream)
        << "a shrink promised that the product of its x would be launched next";
    if (product_.stream == stream) product_ = {};
  }

  // The kernel launched last is a product of x, and lets the next one begin only when all kernels
  // before the product have ended.
  void LaunchedProduct(const void* stream, const void* x) { product_ = {stream, x}; }
  // CHECKs that it is.
  void ExpectProductBefore(const void* stream, const void* x) const {
    CHECK(product_.stream == stream && product_.x == x && x != nullptr)
        << "what was launched last is no product of this x";
  }

  // The kernel launched last lets the next one begin when x is there: it must be a product of x.
  void AwaitProduct(const void* stream, const void* x) { awaited_ = {stream, x}; }
  // Here it comes.
  void ExpectAwaited(const void* stream, const void* x) {
    CHECK(awaited_.stream == stream && awaited_.x == x && x != nullptr)
        << "what was launched last is no shrink of this x that awaits a product";
    awaited_ = {};
  }

 private:
  struct Operand {
    const void* stream = nullptr;
    const void* x = nullptr;
  };
  Operand product_;
  Operand awaited_;
};

}  // namespace graft
