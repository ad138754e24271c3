#include "rpc/credentials.h"

#include <algorithm>
#include <initializer_list>

#include "base/file.h"

namespace graft {
namespace {

struct TlsTexts {
  std::string cert, key, ca;
};

Result<TlsTexts> ReadTlsFiles(const TlsFiles& files) {
  if (files.cert.empty() || files.key.empty() || files.ca.empty()) {
    return InvalidArgumentError(
        "TLS between machines needs all three of --rpc-cert, --rpc-key and --rpc-ca");
  }
  const auto read = [](const char* flag, const std::string& path) -> Result<std::string> {
    Result<std::string> text = ReadFile(path, 1 << 20);
    if (!text.ok()) return text.status().WithContext(flag);
    if (text->find("-----BEGIN ") == std::string::npos) {
      return InvalidArgumentError(std::string(flag) + ": " + path + " is no PEM file");
    }
    return text;
  };
  TlsTexts texts;
  ASSIGN_OR_RETURN(texts.cert, read("--rpc-cert", files.cert));
  ASSIGN_OR_RETURN(texts.key, read("--rpc-key", files.key));
  ASSIGN_OR_RETURN(texts.ca, read("--rpc-ca", files.ca));
  return texts;
}

}  // namespace

Result<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(const TlsFiles& files) {
  if (!files.is_on()) return grpc::InsecureServerCredentials();
  ASSIGN_OR_RETURN(TlsTexts texts, ReadTlsFiles(files));
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = std::move(texts.ca);
  options.pem_key_cert_pairs.push_back({std::move(texts.key), std::move(texts.cert)});
  return grpc::SslServerCredentials(options);
}

Result<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(const TlsFiles& files) {
  if (!files.is_on()) return grpc::InsecureChannelCredentials();
  ASSIGN_OR_RETURN(TlsTexts texts, ReadTlsFiles(files));
  return grpc::SslCredentials({.pem_root_certs = std::move(texts.ca),
                               .pem_private_key = std::move(texts.key),
                               .pem_cert_chain = std::move(texts.cert)});
}

std::string DescribeConnectFailure(const std::string& message, const TlsFiles& files) {
  const auto holds = [&message](std::initializer_list<const char*> words) {
    return std::any_of(words.begin(), words.end(), [&message](const char* word) {
      return message.find(word) != std::string::npos;
    });
  };
  if (holds({"Connection refused"})) return "nobody listens there: " + message;
  if (holds({"resol", "No route to host", "unreachable"})) return "it is not reached: " + message;
  if (!files.is_on()) {
    // It took the connection, and ended it or said nothing that is HTTP/2.
    const bool is_odd = holds({"Socket closed", "Connection reset", "Broken pipe", "SETTINGS"});
    return is_odd ? message + " (if it wants TLS: --rpc-cert, --rpc-key, --rpc-ca)" : message;
  }
  if (holds({"CERTIFICATE_VERIFY_FAILED", "certificate verify failed"})) {
    return "the certificate that it shows is not signed by --rpc-ca: " + message;
  }
  if (holds({"Hostname", "name"})) {
    return "its certificate is not for the address that it is called by: " + message;
  }
  return "it does not take this machine's certificate (--rpc-cert; its authority must be the "
         "other's --rpc-ca), or has no TLS: " +
         message;
}

}  // namespace graft
