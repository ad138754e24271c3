#include "rpc/credentials.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <initializer_list>

#include "base/file.h"

namespace graft {
namespace {

constexpr int64_t kPemBytesMax = 1 << 20;

struct TlsTexts {
  std::string cert, key, ca;
};

// A key that asks for a passphrase is refused: nothing here can type one.
int NoPassphrase(char* /*text*/, int /*size*/, int /*writes*/, void* /*none*/) { return -1; }

// As TLS takes them: what gRPC itself cannot use fails at each connection, and it does not say why.
Status CheckPair(const TlsFiles& files) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> tls(SSL_CTX_new(TLS_method()),
                                                              SSL_CTX_free);
  SSL_CTX_set_default_passwd_cb(tls.get(), NoPassphrase);
  if (SSL_CTX_use_certificate_chain_file(tls.get(), files.cert.c_str()) != 1) {
    return InvalidArgumentError("--rpc-cert: " + files.cert + " has no certificate in PEM");
  }
  if (SSL_CTX_use_PrivateKey_file(tls.get(), files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return InvalidArgumentError("--rpc-key: " + files.key +
                                " is not the private key, in PEM and without a passphrase, of the "
                                "certificate in " +
                                files.cert);
  }
  if (SSL_CTX_load_verify_locations(tls.get(), files.ca.c_str(), nullptr) != 1) {
    return InvalidArgumentError("--rpc-ca: " + files.ca + " has no certificate in PEM");
  }
  return OkStatus();
}

Result<TlsTexts> ReadTlsFiles(const TlsFiles& files) {
  if (files.cert.empty() || files.key.empty() || files.ca.empty()) {
    return InvalidArgumentError(
        "TLS between machines needs all three of --rpc-cert, --rpc-key and --rpc-ca");
  }
  const auto read = [](const char* flag, const std::string& path) -> Result<std::string> {
    Result<std::string> text = ReadFile(path, kPemBytesMax);
    if (!text.ok()) return text.status().WithContext(flag);
    return text;
  };
  TlsTexts texts;
  ASSIGN_OR_RETURN(texts.cert, read("--rpc-cert", files.cert));
  ASSIGN_OR_RETURN(texts.key, read("--rpc-key", files.key));
  ASSIGN_OR_RETURN(texts.ca, read("--rpc-ca", files.ca));
  RETURN_IF_ERROR(CheckPair(files));
  return texts;
}

}  // namespace

Result<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(const TlsFiles& files) {
  if (!files.is_on()) return grpc::InsecureServerCredentials();
  RETURN_IF_ERROR(ReadTlsFiles(files).status());
  const auto watcher = std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      files.key, files.cert, files.ca, files.reread_s);
  grpc::experimental::TlsServerCredentialsOptions options(watcher);
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  return grpc::experimental::TlsServerCredentials(options);
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
