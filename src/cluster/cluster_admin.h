// What `graft cluster` does with a cluster's etcd. Main thread.
#pragma once

#include <memory>

#include "cluster/cluster_parts.h"

namespace graft {

Result<std::unique_ptr<ClusterAdmin>> MakeClusterAdmin(const EtcdOptions& etcd);

}  // namespace graft
