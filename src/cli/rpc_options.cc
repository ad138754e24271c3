#include "cli/rpc_options.h"

#include "base/host_port.h"
#include "base/log.h"

namespace graft {

std::vector<Option> RpcTlsOptionRows(TlsFiles& files) {
  return {{"rpc-cert", Text(files.cert), "PEM certificate chain, between machines"},
          {"rpc-key", Text(files.key), "its PEM private key"},
          {"rpc-ca", Text(files.ca), "PEM certificate of who signed the other machines'"}};
}

void WarnAboutPlainRpc(const TlsFiles& files, const std::string& host, const std::string& what) {
  if (files.is_on() || IsLoopback(host)) return;
  LOG_WARN("whoever reaches {} may {}: --rpc-cert, --rpc-key, --rpc-ca", host, what);
}

}  // namespace graft
