// A checkpoint's weights written as codes, in the forms that other programs read too: integers as
// compressed-tensors packs them, NF4 as bitsandbytes saves it. One thread, with a pool's help.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "base/new_file.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "kernels/gemm/weight_format.h"
#include "model/config.h"
#include "model/safetensors.h"

namespace graft {

// Whether a new checkpoint is to have codes of 8 or 4 bits, or NF4.
enum class WrittenCodes : uint8_t { kInt8, kInt4, kNf4 };

struct CodesOfFiles {
  WeightFormat format = DType::kF32;
  // The weights that become codes, by their names in the files: the projections of all layers.
  std::set<std::string, std::less<>> weights;
  std::string head;  // the module of the head, which stays as it is
  // And what a wrapper's files have beside its text: "vision_tower", without a "model." before it.
  std::set<std::string, std::less<>> towers = {};
};

// How the weights of a model are written, given its files. kInvalidArgument: a weight is not in the
// files, or its inputs are no multiple of 32, or, of NF4, of 64; kUnimplemented: weights are stored
// [in, out].
Result<CodesOfFiles> PlanCodesOfFiles(const ModelConfig& config, const SafetensorsSet& files,
                                      WrittenCodes codes);

// The quantization_config of the new config.json.
Json QuantizationConfigOf(const CodesOfFiles& plan);

// Called behind each of the base's tensors, with its name and its bytes.
using WriteProgress = std::function<void(const std::string& tensor, int64_t bytes)>;

// What `file`, one of `base`, becomes: its bytes, with the header.
Result<int64_t> BytesOfCodesFile(const SafetensorsSet& base, const SafetensorsFile& file,
                                 const CodesOfFiles& plan);
// Writes and finishes `to`, and adds the tensors' names to `written`. Errors name a tensor: of no
// dtype that is read, or one that holds NaN or Inf.
Status WriteCodesFile(const SafetensorsSet& base, const SafetensorsFile& file,
                      const CodesOfFiles& plan, NewFile& to, ThreadPool& threads,
                      std::set<std::string>& written, const WriteProgress& progress = {});

}  // namespace graft
