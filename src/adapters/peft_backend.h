// PeftBackend: PEFT folders into the host's memory. Thread-safe.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "adapters/content_reading.h"
#include "adapters/host_store.h"
#include "adapters/lora_check.h"
#include "adapters/reads_beside.h"
#include "base/file.h"
#include "base/json_fwd.h"
#include "layers/served_types.h"
#include "model/config.h"
#include "step/adapter_loader.h"

namespace graft {

// How to read the text files beside an adapter's weights, which needs the base's own texts. Without
// these functions the files are not read, and are no part of the adapter's content. Called on any
// thread; errors begin with the file's name.
struct AdapterTextHooks {
  std::function<Result<AdapterTextPtr>(const ReadBesideAdapter& read)> read;
  std::function<Status(const ReadBesideAdapter& read)> check_vocabulary;
  // Why a text that was read cannot be used as it should; "": it can. It is served all the same.
  std::function<std::string(const AdapterText& text)> warning;
};

// What is refused that could be served as PEFT serves it.
struct AdapterRules {
  bool strict_targets = false;   // PeftConfig::strict_targets
  std::string base_folder = "";  // of the base's weights, to compare copies with; "": none
};

class PeftBackend : public AdapterBackend {
 public:
  // `store` is borrowed. Adapters are served in `types`, and read only in `jail`. With
  // a `slicer` (several ranks take slices out of the store) an adapter that finds no room there is
  // kResourceExhausted, and one with virtual tokens kUnimplemented. `help` is borrowed.
  PeftBackend(const ModelConfig& config, const ServedTypes& types, HostStore& store,
              FileJail jail = {}, AdapterSlicer slicer = {}, AdapterTextHooks texts = {},
              const AdapterReadHelp& help = {}, AdapterRules rules = {})
      : config_(config),
        types_(types),
        store_(store),
        jail_(std::move(jail)),
        slicer_(std::move(slicer)),
        texts_(std::move(texts)),
        help_(help),
        rules_(std::move(rules)) {}

  Result<std::string> Hash(const std::string& path) override;
  // Errors carry the path and name the key or tensor.
  Result<AdapterFacts> Read(const std::string& path) override;
  Result<std::string> HashAs(const std::string& path, const std::string& hash) override;
  Result<AdapterFacts> ReadAs(const std::string& path, const std::string& hash) override;
  Result<AdapterTextPtr> ReadText(const std::string& path) override;
  bool Has(const std::string& hash) const override { return store_.Has(hash); }
  void SetPriority(const std::string& hash, int32_t priority) override {
    store_.SetPriority(hash, priority);
  }

  // Reads as ReadAs does, unless the store has this hash; `hash` "" accepts any.
  // kFailedPrecondition: the folder has another hash. kResourceExhausted: memory runs out
  // meanwhile. Virtual, because benches have adapters that no folder holds.
  virtual Result<HostStore::Held> Fetch(const std::string& path, const std::string& hash);
  // Bytes of memory that Fetch takes for this folder while it runs, besides the store's: the
  // files', and what they are converted to. By the size of the weights alone; 0 where that cannot
  // be told, or is more than any adapter has.
  virtual int64_t BytesToFetch(const std::string& path) const;
  // Fetch before a request asks, on the caller's thread alone: nothing in the store makes room for
  // it. Held by no store where it found none.
  Result<HostStore::Held> FetchAhead(const std::string& path, const std::string& hash);
  // Fetch for requests that need the adapter. A folder that is broken or not supported is kDataLoss
  // here, so that kInvalidArgument and kUnimplemented are about the request itself. Another machine
  // may have a whole copy.
  Result<HostStore::Held> FetchForRequests(const std::string& path, const std::string& hash);
  // The same of a weighted sum: its parts are fetched, and added up unless the store has the sum.
  // What comes out of a part that was never read is told to `on_read`.
  using OnRead = std::function<void(const std::string& key, const AdapterFacts&)>;
  Result<HostStore::Held> FetchSum(std::vector<AdapterPart> parts, const OnRead& on_read);
  // Both are empty if the store does not have the adapter; to hold it counts as a use.
  virtual std::optional<AdapterFacts> FactsOf(const std::string& hash) const {
    return store_.FactsOf(hash);
  }
  virtual HostStore::Held Find(const std::string& hash) {
    return store_.Has(hash) ? store_.Find(hash) : HostStore::Held();
  }

  // What Read, ReadAs, Hash, HashAs and FetchAhead take while they run, by BytesToFetch.
  ReadsBeside& reads_beside() { return reads_beside_; }

 private:
  // kResourceExhausted where ReadFolder runs out of memory.
  Result<HostStore::Held> TryToRead(const std::string& path, const std::string& hash,
                                    const HostPut& how);
  Result<HostStore::Held> ReadFolder(const std::string& path, const std::string& hash,
                                     const HostPut& how);
  // Reads no file again that is as it was when it was accepted.
  Status CheckVocabularyOnce(const std::string& path);
  // `whole` describes the weights; `what` names it where it finds no room. Nothing finds it before
  // `test` has passed, which is null where there is none.
  Result<HostStore::Held> Keep(const std::string& what, HostAdapter whole, AdapterWeights&& weights,
                               HostPut how, LoraSelfTest* test = nullptr);

  const ModelConfig config_;
  const ServedTypes types_;
  HostStore& store_;
  const FileJail jail_;
  const AdapterSlicer slicer_;  // any rank's: all slices have the same shape
  const AdapterTextHooks texts_;
  const AdapterReadHelp help_;
  const AdapterRules rules_;
  ReadsBeside reads_beside_;
  std::mutex vocabularies_mutex_;
  std::unordered_set<std::string> vocabularies_;  // accepted: folders with their files' stamps
};

// The output of `graft adapters inspect` for a folder that this model can serve: identity, ranks,
// scales and layers per module, virtual tokens, bytes, what is left out, and its texts (also in
// `*text`, if it is not null). Fails with the reason for which a load in `jail` would fail.
Result<OrderedJson> InspectAdapter(const std::string& path, const ModelConfig& config,
                                   const ServedTypes& types, const AdapterTextHooks& texts = {},
                                   const FileJail& jail = {}, AdapterTextPtr* text = nullptr,
                                   AdapterRules rules = {});

}  // namespace graft
