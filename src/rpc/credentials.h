// TLS on both sides of every connection between machines: each shows a certificate of the same
// authority. gRPC's objects from PEM files.
#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "rpc/tls_files.h"

namespace graft {

// Without files: unencrypted, for machines that trust their network.
Result<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(const TlsFiles& files);
Result<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(const TlsFiles& files);

// Why a connection failed, as gRPC has it, and what to look at.
std::string DescribeConnectFailure(const std::string& message, const TlsFiles& files);

}  // namespace graft
