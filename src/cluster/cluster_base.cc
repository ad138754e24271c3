#include "cluster/cluster_base.h"

#include "cluster/cluster_keys.h"
#include "cluster/cluster_records.h"

namespace graft {
namespace {

// Others may write it down at the same time.
constexpr int kBaseTriesMax = 10;

Status CheckBase(const BaseModelId& own, const BaseModelId& clusters, const std::string& etcd) {
  const auto differs = [](const std::string& left, const std::string& right) {
    return !left.empty() && !right.empty() && left != right;
  };
  const bool text = differs(own.text_hash, clusters.text_hash);
  if (!text && !differs(own.weights_hash, clusters.weights_hash)) return OkStatus();
  return FailedPreconditionError(
      etcd + " has a cluster of another base model ('" + clusters.name + "') than this one ('" +
      own.name + "'): " + (text ? "config or tokenizer differ" : "the weights differ") +
      "; start it with the cluster's model folder, or with an etcd of its own; `graft cluster "
      "base --model DIR` gives the cluster another model");
}

}  // namespace

Status JoinBase(ClusterStore& store, const BaseModelId& base) {
  for (int i = 0; i < kBaseTriesMax; ++i) {
    ASSIGN_OR_RETURN(const EtcdOutcome outcome,
                     store.Commit({.then = {EtcdOperation::Get(BaseKey())}}));
    BaseModelId known;
    int64_t mod_revision = 0;
    if (!outcome.found[0].empty()) {
      ASSIGN_OR_RETURN(known, DecodeBaseModel(outcome.found[0][0].value));
      mod_revision = outcome.found[0][0].mod_revision;
    }
    RETURN_IF_ERROR(CheckBase(base, known, store.client().name()));
    // A process without weights does not know their hash.
    const bool says_more = (known.text_hash.empty() && !base.text_hash.empty()) ||
                           (known.weights_hash.empty() && !base.weights_hash.empty());
    if (!says_more) return OkStatus();
    if (known.name.empty()) known.name = base.name;
    if (known.text_hash.empty()) known.text_hash = base.text_hash;
    if (known.weights_hash.empty()) known.weights_hash = base.weights_hash;
    ASSIGN_OR_RETURN(const EtcdOutcome put,
                     store.Commit({.compares = {EtcdCompare::ModRevision(BaseKey(), mod_revision)},
                                   .then = {EtcdOperation::Put(BaseKey(), EncodeRecord(known))}}));
    if (put.succeeded) return OkStatus();
  }
  return Status(StatusCode::kAborted, "others keep changing the cluster's base model: try again");
}

Status ReplaceBase(ClusterStore& store, const BaseModelId& base, const std::string& by) {
  return store
      .Change({.then = {EtcdOperation::Put(BaseKey(), EncodeRecord(base))}},
              {by, "base", base.name, ""})
      .status();
}

}  // namespace graft
