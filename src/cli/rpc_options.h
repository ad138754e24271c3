// Options of every subcommand that talks to other machines.
#pragma once

#include <string>
#include <vector>

#include "options/option.h"
#include "rpc/tls_files.h"

namespace graft {

std::vector<Option> RpcTlsOptionRows(TlsFiles& files);

// Whoever reaches an open port may ask for anything. On this machine alone that is no mistake.
void WarnAboutPlainRpc(const TlsFiles& files, const std::string& host);

}  // namespace graft
