// Opens libgraft_cluster.so. Main thread.
#pragma once

#include "base/status.h"
#include "cluster/cluster_library.h"

namespace graft {

// kUnimplemented, with what to build or install, where it is not there. Stays open for good.
Result<const ClusterLibrary*> LoadClusterLibrary();

}  // namespace graft
