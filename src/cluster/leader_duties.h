// What a cluster's leader decides, as functions of its view: how many runners shall have an
// adapter, and how much of each key's budget each frontend may spend. Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cluster/cluster_view.h"
#include "cluster/etcd_client.h"

namespace graft {

// By frontend and key's digest: of the requests a minute that the key allows, the part that this
// frontend may let through. Parts of a key make up its budget. Half of it is for all frontends
// alike, so that one that was asked for nothing can answer at once; the rest follows what they were
// asked.
std::map<std::string, std::map<std::string, double>> LendSlices(const ClusterView& view);

// By adapter's hash: how many runners shall have it, where one is not enough: it is resident on
// runners that are, on the average, over three quarters full. Then one more is wanted.
std::map<std::string, int32_t> WantedCopies(const ClusterView& view);

// What of that differs from the view's, to be written by the leader.
std::vector<EtcdOperation> LeaderWrites(const ClusterView& view);

}  // namespace graft
