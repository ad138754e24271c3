// CapturedGraph: the launches of a piece of work, recorded once and replayed as one launch. Replays
// use the addresses and grid sizes of the recording; the data at the addresses may change. One
// stream at a time; GPUs only.
#pragma once

#include <functional>
#include <memory>

#include "tensor/stream.h"

namespace graft {

class CapturedGraph {
 public:
  // Records what `work` launches on the stream, which must be idle; nothing runs. `work` neither
  // allocates device memory nor waits. OutOfMemory where the recording finds no room.
  CapturedGraph(Stream& stream, const std::function<void()>& work);
  ~CapturedGraph();
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;

  // In order on the stream.
  void Launch(Stream& stream);

 private:
  struct Executable;
  std::unique_ptr<Executable> executable_;
};

}  // namespace graft
