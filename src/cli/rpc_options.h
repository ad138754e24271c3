// Options of every subcommand that talks to other machines.
#pragma once

#include <string>
#include <vector>

#include "options/option.h"
#include "rpc/tls_files.h"

namespace graft {

// An address to listen on or a name, kept without the brackets that an IPv6 address may have.
OptionTarget HostTarget(std::string& host);
std::vector<Option> RpcTlsOptionRows(TlsFiles& files);

// Of an open port, and `what` whoever reaches it may do. On this machine alone that is no mistake.
void WarnAboutPlainRpc(const TlsFiles& files, const std::string& host, const std::string& what);

}  // namespace graft
