// What a cluster's leader decides, as functions of its view: how much of each key's budget each
// frontend may spend. Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cluster/cluster_view.h"
#include "etcd/etcd_client.h"

namespace graft {

// By frontend and budget (of a key, by its digest, or of a tenant; requests or tokens a minute):
// the part that this frontend may let through. Parts of a budget make it up. Half of it is for all
// frontends alike, so that one that was asked for nothing can answer at once; the rest follows what
// they were asked.
std::map<std::string, std::map<std::string, double>> LendSlices(const ClusterView& view);

// By budget, what each frontend may let through while no leader lends: equal parts.
std::map<std::string, double> EvenSlice(const ClusterView& view);

// By budget, what this frontend may let through now: its part of what is lent. What was lent
// is over, and parts are equal, while etcd is not heard, when the leader's lease has ended, or when
// the leader may take this frontend for dead (its record does not `stand`) and lend its part to
// others.
std::map<std::string, double> SharesOf(const ClusterView& view, const std::string& frontend,
                                       bool stands);

// What the leader tells of the number of runners, where that differs from the view's, to be written
// under its lease.
std::vector<EtcdOperation> HintWrites(const ClusterView& view, const ScaleHint& hint,
                                      int64_t lease_id);

// What the leader is to write: slices that differ from the view's, under its lease, so that they
// end with its place; and for good, that the cluster asks for keys.
std::vector<EtcdOperation> LeaderWrites(const ClusterView& view, int64_t lease_id);

}  // namespace graft
