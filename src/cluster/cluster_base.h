// The one base model of a cluster: the first process to come records which it is, and all others
// must have the same. Any thread; calls block as EtcdClient's do.
#pragma once

#include <string>

#include "base/status.h"
#include "cluster/cluster_store.h"
#include "rpc/protocol.h"

namespace graft {

// kFailedPrecondition, with what to start instead: the cluster is another model's. Other failures
// are etcd's.
Status JoinBase(ClusterStore& store, const BaseModelId& base);
// The cluster is this model's from now on; those that serve it as it was go on until they end.
Status ReplaceBase(ClusterStore& store, const BaseModelId& base, const std::string& by);

}  // namespace graft
