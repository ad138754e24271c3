#include "model/adapter_folder.h"

#include <cstdint>

#include "base/sha256.h"
#include "kernels/lora/lora.h"
#include "model/lora_module.h"
#include "model/peft_config.h"
#include "model/safetensors.h"

namespace graft {
namespace {

void HashFile(Sha256& hash, const std::string& bytes) {
  unsigned char length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<unsigned char>(bytes.size() >> (8 * i));
  hash.Update(length, sizeof(length));
  hash.Update(bytes);
}

}  // namespace

int64_t AdapterWeightsBytesMax(const ModelConfig& model) {
  int64_t elements = int64_t{2} * model.vocab_size * model.hidden_size;
  for (const LoraModule module : kAllLoraModules) {
    const LoraModuleShape shape = ShapeOfLoraModule(model, module);
    elements += model.num_layers * (shape.in + shape.out) * kLoraRankMax;
  }
  return kSafetensorsHeaderBytesMax + elements * int64_t{sizeof(float)};
}

Result<AdapterFolder> ReadAdapterFolder(const std::string& path, int64_t weights_bytes_max,
                                        const FileJail& jail) {
  AdapterFolder folder;
  folder.path = path;
  ASSIGN_OR_RETURN(folder.config, jail.Read(path + "/adapter_config.json", kPeftConfigBytesMax));
  const std::string weights = path + "/adapter_model.safetensors";
  if (!FileExists(weights) && FileExists(path + "/adapter_model.bin")) {
    return UnimplementedError(path +
                              ": adapter_model.bin is a pickle, which can run code; save the "
                              "adapter again with safe_serialization=True");
  }
  ASSIGN_OR_RETURN(folder.weights, jail.Read(weights, weights_bytes_max));
  return folder;
}

std::string AdapterHash(const AdapterFolder& folder) {
  Sha256 hash;
  HashFile(hash, folder.config);
  HashFile(hash, folder.weights);
  return hash.HexDigest();
}

}  // namespace graft
