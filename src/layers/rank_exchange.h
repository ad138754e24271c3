// RankExchange: how the ranks of a model bring together what each of them has computed. All ranks
// make the same calls in the same order; on a GPU calls are launches, which a CapturedGraph may
// record. Sums are formed in the order of the ranks, element by element: their bits depend on the
// number of ranks alone. Where another rank fails, the process ends (EndRank). Engine thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "tensor/communicator.h"
#include "tensor/stream.h"

namespace graft {

class RankExchange {
 public:
  virtual ~RankExchange() = default;

  virtual int32_t rank() const = 0;
  virtual int32_t num_ranks() const = 0;
  // The most that a part has.
  virtual int64_t part_floats() const = 0;

  // Comes before a step's exchanges. Returns where this rank finds rank 0's tokens; others' need
  // not be the same yet.
  virtual const int32_t* Begin(std::span<const int32_t> tokens, Stream& stream) = 0;
  // Where this rank writes its part of the next exchange, once the one before was called for.
  virtual float* part() = 0;
  // sum = or (where it `accumulates`) += n floats of part of rank 0 + those of rank 1 and so on.
  virtual void Sum(int64_t n, bool accumulates, float* sum, Stream& stream) = 0;
  // On rank 0: out [num_rows, vocab_size] of parts [num_rows, words of the rank], which are cut as
  // VocabularyOf has it. Others' `out` is not written.
  virtual void Gather(int64_t num_rows, int64_t vocab_size, float* out, Stream& stream) = 0;
  // Takes part in a Sum of n floats, or in a Gather (0), with whatever its part holds.
  virtual void Skip(int64_t n, Stream& stream) = 0;
  // When the device has done a step: ends the process where one of the ranks failed in it.
  virtual void CheckAfterStep() {}
};

// Through memory that processes of a machine share, for ranks on the CPU. Borrows the communicator.
std::unique_ptr<RankExchange> MakeHostExchange(Communicator& communicator);

}  // namespace graft
