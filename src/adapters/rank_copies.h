// RankCopies: how the other ranks of a model come to their slices of an adapter that this process
// copies. Any thread.
#pragma once

#include <cstdint>

#include "adapters/host_adapter.h"
#include "step/adapter_loader.h"

namespace graft {

class RankCopies {
 public:
  virtual ~RankCopies() = default;

  // The other ranks copy their slices of the adapter, which stays where it is in the host store
  // until they have. Returns the copy's number.
  virtual uint32_t Copy(const CopyOrder& order, const HostAdapter& adapter) = 0;
  // Waits until they have.
  virtual void AwaitCopied(uint32_t number) = 0;
};

}  // namespace graft
