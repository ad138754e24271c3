// Options of the subcommands that take part in a cluster. Main thread.
#pragma once

#include <string>
#include <vector>

#include "cluster/cluster_library.h"
#include "options/option.h"
#include "rpc/tls_files.h"

namespace graft {

// Where etcd is, and how to sign in.
struct EtcdFlags {
  EtcdOptions options;  // no endpoints: no etcd
  std::string password_file;
};

std::vector<Option> EtcdOptionRows(EtcdFlags& flags);
// The same, and options for this process's own address and view.
std::vector<Option> ClusterPlaceRows(EtcdFlags& flags, ClusterPlace& place);
std::vector<Option> RpcTlsOptionRows(TlsFiles& files);
// Warns of a port without TLS: each client that reaches it may do `what`. On this machine alone
// that is no mistake.
void WarnAboutPlainRpc(const TlsFiles& files, const std::string& host, const std::string& what);
Result<EtcdOptions> ReadEtcdFlags(const EtcdFlags& flags);
// Whether etcd answers and has a cluster, or is to be done without for a start by the view on disk.
Status CheckEtcd(const ClusterLibrary& library, const EtcdFlags& flags, const ClusterPlace& place);
// kInvalidArgument: it listens on all addresses and does not say by which it is reached.
Status CheckReachable(const ClusterPlace& place, const std::string& host);

}  // namespace graft
