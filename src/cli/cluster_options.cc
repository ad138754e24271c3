#include "cli/cluster_options.h"

#include "base/file.h"
#include "base/host_port.h"
#include "base/log.h"

namespace graft {

std::vector<Option> EtcdOptionRows(EtcdFlags& flags) {
  return {{"etcd", Addresses(flags.options.endpoints), "the cluster's etcd"},
          {"etcd-ca", Text(flags.options.ca_file), "PEM certificate of who signed etcd's: TLS"},
          {"etcd-cert", Text(flags.options.cert_file), "PEM certificate for etcd"},
          {"etcd-key", Text(flags.options.key_file), "its PEM private key"},
          {"etcd-user", Text(flags.options.user), "whom etcd knows us as"},
          {"etcd-password-file", Text(flags.password_file), "file with that user's password"}};
}

std::vector<Option> ClusterPlaceRows(EtcdFlags& flags, ClusterPlace& place) {
  std::vector<Option> rows = EtcdOptionRows(flags);
  rows.push_back(
      {"advertise", Address(place.address), "what others reach this one by", "where it listens"});
  rows.push_back({"view-file", Text(place.view_file),
                  "keeps what is known of the cluster, for a start while etcd is away"});
  return rows;
}

Status CheckReachable(const ClusterPlace& place, const std::string& host) {
  if (!place.address.empty() || (host != "0.0.0.0" && host != "::")) return OkStatus();
  return InvalidArgumentError("others cannot reach it by " + host +
                              ": say by what, --advertise HOST:PORT");
}

std::vector<Option> RpcTlsOptionRows(TlsFiles& files) {
  return {{"rpc-cert", Text(files.cert), "PEM certificate chain, between machines"},
          {"rpc-key", Text(files.key), "its PEM private key"},
          {"rpc-ca", Text(files.ca), "PEM certificate of who signed the other machines'"}};
}

void WarnAboutPlainRpc(const TlsFiles& files, const std::string& host, const std::string& what) {
  if (files.is_on() || IsLoopback(host)) return;
  LOG_WARN("whoever reaches {} may {}: --rpc-cert, --rpc-key, --rpc-ca", host, what);
}

Result<EtcdOptions> ReadEtcdFlags(const EtcdFlags& flags) {
  EtcdOptions options = flags.options;
  if (options.endpoints.empty()) return InvalidArgumentError("which etcd? --etcd HOST:PORT");
  if (flags.password_file.empty()) return options;
  constexpr int64_t kPasswordBytesMax = 4096;
  ASSIGN_OR_RETURN(options.password, ReadFile(flags.password_file, kPasswordBytesMax));
  while (!options.password.empty() && options.password.back() == '\n') options.password.pop_back();
  return options;
}

Status CheckEtcd(const ClusterLibrary& library, const EtcdFlags& flags, const ClusterPlace& place) {
  ASSIGN_OR_RETURN(const EtcdOptions options, ReadEtcdFlags(flags));
  const bool has_view = !place.view_file.empty() && FileExists(place.view_file);
  const Status status = library.CheckEtcd(options, !has_view);
  // Without a cluster in it, etcd may have lost its data, and the view is no way around that.
  if (has_view && status.code() != StatusCode::kFailedPrecondition) return OkStatus();
  return status;
}

}  // namespace graft
