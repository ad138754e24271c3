// TLS on both sides of every connection between machines: each shows a certificate of the same
// authority. gRPC's objects from PEM files. Any thread.
#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "rpc/tls_files.h"

namespace graft {

// Credentials from the files. Without files the connection is unencrypted, for machines that trust
// their network. kInvalidArgument: a file is no PEM, or the key belongs to another certificate.
//
// A server looks at its files again by itself, and uses their new content for later connections. If
// it looks between the change of a key and that of its certificate, it takes no connections until
// it looks again.
Result<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(const TlsFiles& files);
// A channel keeps what the files had.
Result<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(const TlsFiles& files);

// Why a connection failed, as gRPC has it, and what to look at.
std::string DescribeConnectFailure(const std::string& message, const TlsFiles& files);

}  // namespace graft
