// Which files of a repository are fetched: those that are read of a model or of an adapter.
// Pickles, other formats and second copies of the weights are left out. Pure functions, but for
// folders.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "sources/hub_client.h"

namespace graft {

enum class HubKind : uint8_t {
  kModel,
  kAdapter,
  kEither,  // whichever it is
};

// A kEither is a kAdapter where it has an adapter's config and no model's, else a kModel.
HubKind KindOfTree(const HubTree& tree, HubKind wanted);

// Why a repository gives no adapter. These words have nothing of the repository's in them: clients
// may be told them.
inline constexpr char kIsBaseModel[] = "it is a base model, not an adapter";
inline constexpr char kHasNoConfig[] =
    "it has no adapter_config.json at its top, so it is no adapter";
inline constexpr char kHasNoSafetensors[] =
    "it has adapter_config.json and no adapter_model.safetensors; pickles (.bin) are not fetched: "
    "save it again with safe_serialization=True";
inline constexpr const char* kWhyNoAdapter[] = {kIsBaseModel, kHasNoConfig, kHasNoSafetensors};

// All files but the shards that an index names. kUnimplemented: no such repository is served; says
// what it is.
Result<HubTree> ChooseHubFiles(const HubTree& tree, HubKind kind);
// kOutOfRange: the chosen files are of more bytes than `bytes_max`; 0: any may be.
Status CheckBytes(const HubTree& chosen, int64_t bytes_max);
// The one of the chosen files without which they are no model and no adapter.
std::string ConfigOf(const HubTree& chosen, HubKind kind);
// Whether the weights are in the shards of an index, which is among the files chosen.
bool HasShards(const HubTree& chosen);
// The shards, by the index's text. kDataLoss: it names a file that cannot be, or that is not there.
Result<HubTree> ShardsOfIndex(const HubTree& tree, const std::string& index_text);

// Names that clients look for at the repository's top; those that it lacks are remembered as such.
std::vector<std::string> OptionalHubFiles(HubKind kind);

// Whether a folder has all that is read of it. kNotFound names what is missing.
Status CheckHubFolder(const std::string& folder, HubKind kind);

}  // namespace graft
