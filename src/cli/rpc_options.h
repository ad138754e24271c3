// Options of every subcommand that talks to other machines.
#pragma once

#include <string>
#include <vector>

#include "options/option.h"
#include "rpc/tls_files.h"

namespace graft {

std::vector<Option> RpcTlsOptionRows(TlsFiles& files);

// Of an open port, and `what` whoever reaches it may do. On this machine alone that is no mistake.
void WarnAboutPlainRpc(const TlsFiles& files, const std::string& host, const std::string& what);

}  // namespace graft
