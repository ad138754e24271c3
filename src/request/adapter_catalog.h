// Waist 1, beside Generator: which adapters there are, by name. A name is an alias; the content
// hash is the identity that a Request carries. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/adapter_text.h"
#include "base/status.h"

namespace graft {

// What the names of adapters that tenants have learned begin with.
inline constexpr std::string_view kLearnedPrefix = "ft:";

struct AdapterInfo {
  std::string name;
  std::string hash;        // SHA-256 of config and weights, hexadecimal; "": never read so far
  std::string path;        // the PEFT folder
  std::string base_model;  // as adapter_config.json names it, may be empty
  int32_t rank_max = 0;    // the largest rank of any module; 0: no LoRA, or never read so far
  int32_t num_virtual_tokens = 0;  // in front of every prompt; 0 also if never read
  int64_t bytes = 0;               // weights in the served dtype; 0: never read so far
  std::string tenant;              // that loaded it; "": it was found at start
  int64_t loaded_at = 0;           // Unix seconds
  std::string unread_key;          // stands for the hash until it is known
  // The only tenant that may use it: the one that had it learned. None: any that may use the name.
  std::optional<std::string> owner = std::nullopt;
  // How conversations are written for it and what ends its answers, also where it was never read.
  AdapterTextPtr text = nullptr;
  bool changes_nothing = false;  // the base answers in its place; false where it was never read
  // What its folder asks for or holds and is not served; "": nothing, or it was never read.
  std::string left_out = "";
  // What it was fetched at: a hub's commit, or a store's version. "": it came from no source.
  std::string revision = {};
  // A request's name brought it from a source: AdapterSources says which tenants may use it.
  bool is_looked_up = false;

  // What a Request carries.
  const std::string& key() const { return hash.empty() ? unread_key : hash; }
  bool operator==(const AdapterInfo&) const = default;
};

// What to say of an adapter behind its name.
inline constexpr char kChangesNothing[] =
    "changes nothing: A, B or alpha is zero in all modules, so that the base's answers go by its "
    "name; was it saved before it was trained?";

// Where an adapter's bytes are: the place nearest to the device. The place may have changed by the
// time that this is read.
enum class AdapterState : uint8_t {
  kUnread,    // in its folder, never read so far
  kFolder,    // in its folder, though read before
  kHost,      // in the host's memory
  kLoading,   // on its way to the device, for a request that wants it
  kResident,  // on the device
};
inline constexpr const char* kAdapterStateNames[] = {"unread", "folder", "host", "loading",
                                                     "resident"};
inline const char* AdapterStateName(AdapterState state) {
  return kAdapterStateNames[static_cast<size_t>(state)];
}

// What Load is asked for.
struct AdapterLoad {
  std::string name;
  std::string path;      // the PEFT folder, inside the adapters folder
  bool replace = false;  // the content that the name has, if another
  std::string tenant;    // that asks; remembered, not checked
  // "": whatever the folder has. Else this content: kFailedPrecondition where the folder has other,
  // unless it is loaded already. That needs no folder: `path` may be "" then.
  std::string hash;
  std::optional<std::string> owner = std::nullopt;  // see AdapterInfo; graft serve keeps none
  // Not "": this server, or another of its cluster, fetched the folder from a source, at this
  // revision. No client says so.
  std::string fetched_revision = {};
  bool is_looked_up = false;  // see AdapterInfo
};

class AdapterCatalog {
 public:
  virtual ~AdapterCatalog() = default;

  // Sorted by name: the first `infos_max` after `name` (itself excluded; "": from the start). A
  // long list can be had piece by piece, so that no caller waits for all of it.
  virtual std::vector<AdapterInfo> ListAfter(const std::string& name, size_t infos_max) const = 0;
  // All adapters.
  std::vector<AdapterInfo> List() const;
  // kNotFound. Takes no longer for a name that is not there.
  virtual Result<AdapterInfo> Find(const std::string& name) const = 0;
  // Names, the base model's among them, that `name` may have meant, of those that `allows` lets
  // through (empty: all); ready to read, "" for none. Takes a bounded time.
  using NameFilter = std::function<bool(const std::string&)>;
  virtual std::string NamesNear(const std::string& name, const NameFilter& allows) const = 0;
  virtual AdapterState StateOf(const AdapterInfo& adapter) const = 0;
  // Reads, checks and self-tests the PEFT folder, and serves it under the name. Blocks its caller
  // for the whole load. kAlreadyExists if the name is taken by other content, unless it is to be
  // replaced. In that case new requests get the new content, while requests in flight finish on the
  // old. If the content is already there, it now counts as loaded by the last loader.
  // kFailedPrecondition: this server cannot load (it lists as many as it may, or has no adapters
  // folder).
  virtual Result<AdapterInfo> Load(const AdapterLoad& load) = 0;
  // New requests no longer find the adapter; requests in flight finish. kNotFound.
  virtual Status Unload(const std::string& name, const std::string& tenant) = 0;
};

// kNotFound with the nearest names.
Status NoSuchAdapter(const AdapterCatalog& catalog, const std::string& name);

}  // namespace graft
