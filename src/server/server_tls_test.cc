// A real server over TLS: what it negotiates, and the files of its certificate.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/server_testing.h"

namespace graft {
namespace {

const std::string kEndlessStream =
    R"({"model":"demo","prompt":"x","max_tokens":1000,"stream":true})";

// A fresh self-signed certificate and its key, as PEM files.
std::pair<std::string, std::string> MakeCertificate(long serial = 1) {
  EVP_PKEY* key = EVP_RSA_gen(2048);
  X509* certificate = X509_new();
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial);
  X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_pubkey(certificate, key);
  X509_NAME* name = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
  X509_set_issuer_name(certificate, name);
  X509_sign(certificate, key, EVP_sha256());
  const auto pem = [](auto&& write) {
    BIO* memory = BIO_new(BIO_s_mem());
    write(memory);
    char* data = nullptr;
    const long bytes = BIO_get_mem_data(memory, &data);
    std::string text(data, static_cast<size_t>(bytes));
    BIO_free(memory);
    return text;
  };
  const std::string key_pem = pem(
      [&](BIO* out) { PEM_write_bio_PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr); });
  const std::string certificate_pem = pem([&](BIO* out) { PEM_write_bio_X509(out, certificate); });
  X509_free(certificate);
  EVP_PKEY_free(key);
  return {WriteTempFile("cert.pem", certificate_pem), WriteTempFile("key.pem", key_pem)};
}

TEST(ServerTlsTest, ServesOverTls) {
  ServerOptions options;
  std::tie(options.tls_cert_file, options.tls_key_file) = MakeCertificate();
  TestServer test(options);
  ASSERT_TRUE(test.start_status.ok()) << test.start_status.ToString();
  {
    RawClient client(test.port(), /*tls=*/true);
    ASSERT_TRUE(client.connected());
    EXPECT_EQ(client.Get("/health").status, 200);
    const RawResponse stream = client.Post(
        "/v1/completions", R"({"model":"demo","prompt":"x","max_tokens":50,"stream":true})");
    EXPECT_EQ(stream.events().back(), "[DONE]");
    // An error in plain HTTP that closes the connection can be read whole.
    client.Send("nonsense\r\n\r\n");
    EXPECT_EQ(client.Receive().status, 400);
    EXPECT_TRUE(client.WaitForEnd());
  }
  {
    // The client goes away in the middle of a stream.
    test.generator.set_tick(std::chrono::milliseconds(2));
    RawClient client(test.port(), /*tls=*/true);
    client.Send(kPostCompletion + "Content-Length: " + std::to_string(kEndlessStream.size()) +
                "\r\n\r\n" + kEndlessStream);
    ASSERT_TRUE(test.generator.WaitForRunning(1));
    client.Reset();
    EXPECT_TRUE(test.generator.WaitForRunning(0));
  }
  RawClient plain(test.port());
  plain.Send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(plain.WaitForEnd());
  RawClient again(test.port(), /*tls=*/true);
  EXPECT_EQ(again.Get("/health").status, 200);
}

TEST(ServerTlsTest, WhoNeverBeginsToTalkIsNotWaitedFor) {
  ServerOptions options;
  std::tie(options.tls_cert_file, options.tls_key_file) = MakeCertificate();
  options.handshake_timeout = std::chrono::milliseconds(50);
  TestServer test(options);
  RawClient silent(test.port());
  EXPECT_TRUE(silent.WaitForEnd());
}

TEST(ServerTlsTest, BadFilesStopTheStart) {
  const auto [cert_file, key_file] = MakeCertificate();
  ServerOptions only_cert;
  only_cert.tls_cert_file = cert_file;
  EXPECT_FALSE(TestServer(only_cert).start_status.ok());
  ServerOptions wrong_key;
  wrong_key.tls_cert_file = cert_file;
  wrong_key.tls_key_file = cert_file;
  EXPECT_FALSE(TestServer(wrong_key).start_status.ok());
  ServerOptions missing;
  missing.tls_cert_file = "/nonexistent/cert.pem";
  missing.tls_key_file = key_file;
  EXPECT_NE(TestServer(missing).start_status.message().find("/nonexistent/cert.pem"),
            std::string::npos);
}

// What a client offers, and what is negotiated.
struct Offer {
  int version = TLS1_3_VERSION;  // only this version
  const char* ciphers = "ALL";   // of TLS 1.2
  std::string protocols;         // as ALPN sends them
};
struct Agreement {
  bool ok = false;
  std::string protocol;
  long serial = 0;  // the server's certificate's
};

Agreement Negotiate(uint16_t port, const Offer& offer) {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_min_proto_version(context, offer.version);
  SSL_CTX_set_max_proto_version(context, offer.version);
  SSL_CTX_set_security_level(context, 0);
  EXPECT_EQ(SSL_CTX_set_cipher_list(context, offer.ciphers), 1);
  SSL* ssl = SSL_new(context);
  if (!offer.protocols.empty()) {
    SSL_set_alpn_protos(ssl, reinterpret_cast<const unsigned char*>(offer.protocols.data()),
                        static_cast<unsigned int>(offer.protocols.size()));
  }
  SSL_set_fd(ssl, descriptor);
  Agreement agreement{.ok = SSL_connect(ssl) == 1};
  if (agreement.ok) {
    const unsigned char* protocol = nullptr;
    unsigned int bytes = 0;
    SSL_get0_alpn_selected(ssl, &protocol, &bytes);
    agreement.protocol.assign(reinterpret_cast<const char*>(protocol), bytes);
    X509* certificate = SSL_get1_peer_certificate(ssl);
    agreement.serial = ASN1_INTEGER_get(X509_get0_serialNumber(certificate));
    X509_free(certificate);
  }
  SSL_free(ssl);
  SSL_CTX_free(context);
  ::close(descriptor);
  return agreement;
}

TEST(ServerTlsTest, OnlyForwardSecretAuthenticatedCiphers) {
  ServerOptions options;
  std::tie(options.tls_cert_file, options.tls_key_file) = MakeCertificate();
  TestServer test(options);
  const auto agrees = [&](int version, const char* ciphers) {
    return Negotiate(test.port(), {.version = version, .ciphers = ciphers}).ok;
  };
  EXPECT_TRUE(agrees(TLS1_3_VERSION, "ALL"));
  EXPECT_TRUE(agrees(TLS1_2_VERSION, "ECDHE-RSA-AES128-GCM-SHA256"));
  EXPECT_TRUE(agrees(TLS1_2_VERSION, "ECDHE-RSA-CHACHA20-POLY1305"));
  EXPECT_FALSE(agrees(TLS1_2_VERSION, "ECDHE-RSA-AES128-SHA")) << "CBC";
  EXPECT_FALSE(agrees(TLS1_2_VERSION, "ECDHE-RSA-AES256-SHA384")) << "CBC";
  EXPECT_FALSE(agrees(TLS1_2_VERSION, "AES128-GCM-SHA256")) << "RSA key exchange";
  EXPECT_FALSE(agrees(TLS1_1_VERSION, "ALL"));
}

TEST(ServerTlsTest, ClientsThatNameProtocolsGetHttp11) {
  ServerOptions options;
  std::tie(options.tls_cert_file, options.tls_key_file) = MakeCertificate();
  TestServer test(options);
  const std::string h2 = "\x02h2";
  const std::string http11 = "\x08http/1.1";
  EXPECT_EQ(Negotiate(test.port(), {.protocols = h2 + http11}).protocol, "http/1.1");
  EXPECT_FALSE(Negotiate(test.port(), {.protocols = h2}).ok);
  const Agreement unnamed = Negotiate(test.port(), {});
  EXPECT_TRUE(unnamed.ok);
  EXPECT_EQ(unnamed.protocol, "");
}

TEST(ServerTlsTest, CertificatesAreReadAnew) {
  ServerOptions options;
  std::tie(options.tls_cert_file, options.tls_key_file) = MakeCertificate(/*serial=*/1);
  TestServer test(options);
  RawClient before(test.port(), /*tls=*/true);
  EXPECT_EQ(before.Get("/health").status, 200);
  EXPECT_EQ(Negotiate(test.port(), {}).serial, 1);
  WriteTempFile("cert.pem", "none");
  EXPECT_FALSE(test.server->Reload().ok());
  EXPECT_EQ(Negotiate(test.port(), {}).serial, 1) << "what was in force stays so";
  MakeCertificate(/*serial=*/2);
  EXPECT_TRUE(test.server->Reload().ok());
  EXPECT_EQ(Negotiate(test.port(), {}).serial, 2);
  EXPECT_EQ(before.Get("/health").status, 200);
}

}  // namespace
}  // namespace graft
