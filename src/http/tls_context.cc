#include "http/tls_context.h"

#include <openssl/ssl.h>

#include <string_view>

namespace graft {
namespace {

using Context = boost::asio::ssl::context;
using boost::system::error_code;

// TLS 1.3 has no others than these kinds.
constexpr char kCiphers12[] = "ECDHE+AESGCM:ECDHE+CHACHA20";
// A protocol's name with its length before it, as ALPN sends them.
constexpr std::string_view kHttp11 = "\x08http/1.1";

// A client that names protocols, and not ours among them, would not understand the answers.
int SelectProtocol(SSL*, const unsigned char** out, unsigned char* out_bytes,
                   const unsigned char* offered, unsigned int offered_bytes, void*) {
  unsigned char* selected = nullptr;
  const int result = SSL_select_next_proto(
      &selected, out_bytes, reinterpret_cast<const unsigned char*>(kHttp11.data()),
      static_cast<unsigned int>(kHttp11.size()), offered, offered_bytes);
  *out = selected;
  return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

Status Restrict(Context& tls) {
  error_code error;
  tls.set_options(Context::default_workarounds | Context::no_sslv2 | Context::no_sslv3 |
                      Context::no_tlsv1 | Context::no_tlsv1_1,
                  error);
  SSL_CTX* context = tls.native_handle();
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
  if (error || SSL_CTX_set_cipher_list(context, kCiphers12) != 1) {
    return InternalError("this OpenSSL has no cipher of " + std::string(kCiphers12));
  }
  SSL_CTX_set_alpn_select_cb(context, SelectProtocol, nullptr);
  return OkStatus();
}

}  // namespace

Result<std::shared_ptr<Context>> LoadTlsContext(const std::string& cert_file,
                                                const std::string& key_file) {
  if (cert_file.empty() && key_file.empty()) {
    return std::shared_ptr<Context>();
  }
  if (cert_file.empty() || key_file.empty()) {
    return InvalidArgumentError("TLS needs both a certificate file and a key file");
  }
  auto tls = std::make_shared<Context>(Context::tls_server);
  RETURN_IF_ERROR(Restrict(*tls));
  error_code error;
  tls->use_certificate_chain_file(cert_file, error);
  if (error) {
    return InvalidArgumentError("the TLS certificate " + cert_file + ": " + error.message());
  }
  tls->use_private_key_file(key_file, Context::pem, error);
  if (error) {
    return InvalidArgumentError("the TLS key " + key_file + ": " + error.message());
  }
  return tls;
}

}  // namespace graft
