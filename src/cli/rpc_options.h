// Options of every subcommand that talks to other machines.
#pragma once

#include <string>
#include <vector>

#include "options/option.h"
#include "rpc/tls_files.h"

namespace graft {

std::vector<Option> RpcTlsOptionRows(TlsFiles& files);

// Warns of a port without TLS: each client that reaches it may do `what`. On this machine alone
// that is no mistake.
void WarnAboutPlainRpc(const TlsFiles& files, const std::string& host, const std::string& what);

}  // namespace graft
