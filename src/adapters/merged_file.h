// A model's files with a LoRA adapter merged into them: each weight W that it adapts becomes
// W + scale * B A, summed in fp32 and rounded once to the dtype that the file has; all else keeps
// its bytes. Files are mapped, and what is written goes out in blocks of rows, so that no model and
// no whole tensor is in memory. One thread, with a pool's help.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "adapters/lora_weights.h"
#include "adapters/peft_config.h"
#include "base/new_file.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "model/config.h"
#include "model/safetensors.h"

namespace graft {

// What an adapter adds to some rows of a weight: scale * B A.
struct AddedRows {
  int64_t row = 0;  // of the weight, the first
  TensorView a;     // [rank, in]
  TensorView b;     // [rows, rank]
  float scale = 0.0f;
  bool transposed = false;  // all rows, of a weight that is stored [in, rows]
};
// By the weights' names in the model's files, ascending by row.
using AddedToWeights = std::map<std::string, std::vector<AddedRows>, std::less<>>;

// What the adapter in `file` adds; views into it. Errors are MatchLoraTensors', or name the weight
// that `base` lacks or has in another shape or in a dtype that is not summed here.
Result<AddedToWeights> MatchAddedWeights(const SafetensorsFile& file, const PeftConfig& peft,
                                         const ModelConfig& model, const SafetensorsSet& base);

// Called behind each tensor with its name and its bytes.
using MergeProgress = std::function<void(const std::string& tensor, int64_t bytes)>;

// Writes and finishes `to`: `file`, one of `base`, with what is added to the weights that `base`
// takes from it. The header and the order of the tensors stay. kInvalidArgument names a weight with
// a sum that its dtype cannot hold, kUnavailable a file that became shorter meanwhile. (Where that
// happens to a tensor while it is summed, the process ends: see SafetensorsFile::Open.)
Status WriteMergedFile(const SafetensorsSet& base, const SafetensorsFile& file,
                       const AddedToWeights& added, NewFile& to, ThreadPool& threads,
                       const MergeProgress& progress = {});

}  // namespace graft
