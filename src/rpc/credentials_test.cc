// Certificates of a test's own authority, shown over the loopback.
#include "rpc/credentials.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>

#include "rpc/runner.grpc.pb.h"
#include "rpc/runner_link.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kTlsPatience(60);  // only against hangs

// Hears why a link does not come up.
class Downs : public RunnerListener {
 public:
  Status OnUp(size_t, RunnerFacts) override { return OkStatus(); }
  void OnEvents(size_t, uint64_t, std::vector<TokenEvent>) override {}
  void OnState(size_t, const RunnerLoad&, bool) override {}
  void OnDown(size_t, const Status& why) override {
    std::lock_guard lock(mutex_);
    why_ = why.message();
    changed_.notify_all();
  }
  bool WaitFor(const std::string& words) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kTlsPatience,
                             [&] { return why_.find(words) != std::string::npos; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string why_;
};

// In place of a runner.
class Doorkeeper : public rpc::Runner::Service {
 public:
  using Stream = grpc::ServerReaderWriter<rpc::RunnerMessage, rpc::FrontendMessage>;
  grpc::Status Connect(grpc::ServerContext*, Stream*) override {
    return {grpc::StatusCode::FAILED_PRECONDITION, "is let in"};
  }
};

class CredentialsTest : public testing::Test {
 protected:
  CredentialsTest() {
    std::string pattern = fs::temp_directory_path() / "graft_tls_XXXXXX";
    CHECK(mkdtemp(pattern.data()) != nullptr);
    folder_ = pattern;
    Make("ca", "");
    Sign("machine", "ca");
  }
  ~CredentialsTest() override { fs::remove_all(folder_); }

  std::string File(const std::string& name) const { return folder_ + "/" + name; }
  TlsFiles Files(const std::string& name) const {
    return {.cert = File(name + ".pem"),
            .key = File(name + ".key"),
            .ca = File("ca.pem"),
            .reread_s = 1};
  }
  // NAME.pem for this machine and NAME.key.
  void Sign(const std::string& name, const std::string& authority) {
    Make(name, " -addext subjectAltName=IP:127.0.0.1 -CA " + File(authority + ".pem") + " -CAkey " +
                   File(authority + ".key"));
  }
  void Make(const std::string& name, const std::string& more) {
    const std::string make =
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "
        "/CN=" +
        name + more + " -keyout " + File(name + ".key") + " -out " + File(name + ".pem") +
        " 2>/dev/null";
    CHECK_EQ(std::system(make.c_str()), 0);
  }
  // Replaces the files as a renewal of certificates does.
  void Replace(const std::string& name, const std::string& by) {
    for (const char* const part : {".key", ".pem"}) fs::rename(File(by + part), File(name + part));
  }

  // Answers health checks.
  void Serve(const TlsFiles& files) {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", *MakeServerCredentials(files), &port_);
    builder.RegisterService(&runner_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }
  std::shared_ptr<grpc::Channel> Connect() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
    return grpc::CreateCustomChannel(Address(), *MakeChannelCredentials(Files("machine")),
                                     arguments);
  }
  std::string Address() const { return "127.0.0.1:" + std::to_string(port_); }
  // The name in the certificate of the server that answers there; "": none answers.
  static std::string NameBehind(const std::shared_ptr<grpc::Channel>& channel) {
    grpc::GenericStub stub(channel);
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + kTlsPatience);
    grpc::CompletionQueue queue;
    const grpc::Slice nothing("");
    const auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check",
                                            grpc::ByteBuffer(&nothing, 1), &queue);
    grpc::ByteBuffer answer;
    grpc::Status status;
    void* tag = nullptr;
    bool ok = false;
    call->StartCall();
    call->Finish(&answer, &status, &tag);
    queue.Next(&tag, &ok);
    if (!status.ok()) return "";
    const auto names = context.auth_context()->FindPropertyValues("x509_common_name");
    return names.empty() ? "" : std::string(names[0].begin(), names[0].end());
  }

  std::string folder_;
  int port_ = 0;
  Doorkeeper runner_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(CredentialsTest, AServersRenewedCertificateIsThatOfLaterConnections) {
  Sign("first", "ca");
  Sign("second", "ca");
  Serve(Files("first"));
  const auto before = Connect();
  ASSERT_EQ(NameBehind(before), "first");
  Replace("first", "second");
  std::string name;
  for (const auto end = std::chrono::steady_clock::now() + kTlsPatience;
       name != "second" && std::chrono::steady_clock::now() < end;) {
    name = NameBehind(Connect());
  }
  EXPECT_EQ(name, "second");
  EXPECT_EQ(NameBehind(before), "first") << "a connection that is there stays";
}

TEST_F(CredentialsTest, AFrontendsRenewedCertificateIsThatOfItsNextTry) {
  Make("stranger", "");
  Sign("frontend", "stranger");
  Sign("renewed", "ca");
  Serve(Files("machine"));
  Downs downs;
  const auto link =
      StartGrpcLink({.address = Address(), .tls = Files("frontend")}, 0, downs).value();
  ASSERT_TRUE(downs.WaitFor("does not take this machine's certificate"));
  fs::remove(File("frontend.pem"));  // for a moment there is none
  Replace("frontend", "renewed");
  EXPECT_TRUE(downs.WaitFor("is let in"));
}

TEST_F(CredentialsTest, WhatIsNoPairIsRefusedAtTheStart) {
  const auto refusal = [](const TlsFiles& files) {
    const Status server = MakeServerCredentials(files).status();
    EXPECT_EQ(server.message(), MakeChannelCredentials(files).status().message());
    return server.message();
  };
  EXPECT_EQ(refusal(Files("machine")), "");
  TlsFiles files = Files("machine");
  files.key = File("ca.key");
  EXPECT_NE(refusal(files).find("--rpc-key: " + files.key + " is not the private key"),
            std::string::npos);
  files = Files("machine");
  std::ofstream(File("text")) << "-----BEGIN nothing";
  files.cert = File("text");
  EXPECT_NE(refusal(files).find("--rpc-cert: "), std::string::npos);
  files = Files("machine");
  files.ca = File("text");
  EXPECT_NE(refusal(files).find("--rpc-ca: "), std::string::npos);
  files.ca = "";
  EXPECT_NE(refusal(files).find("all three"), std::string::npos);
}

}  // namespace
}  // namespace graft
