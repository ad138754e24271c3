#include "etcd/etcd_client.h"

#include <algorithm>
#include <functional>
#include <thread>
#include <utility>

#include "base/file.h"
#include "etcd/etcd.grpc.pb.h"
#include "etcd/etcd_channel.h"

namespace graft {
namespace {

using std::chrono::milliseconds;
using std::chrono::system_clock;

constexpr int64_t kCertificateBytesMax = 1 << 20;

// etcd itself ends connections of clients that ask more often than every 5 s whether it is there.
constexpr int kKeepaliveMs = 6000;
constexpr int kKeepaliveTimeoutMs = 3000;

// For a channel that failed and is about to try again.
constexpr milliseconds kReconnectPatience(300);

// Metadata of every call: a member that has lost its leader refuses it at once, or ends it, instead
// of answering from what it last knew. Both words are etcd's, as is the refusal.
constexpr char kNeedsLeader[] = "hasleader";
constexpr char kNoLeader[] = "etcdserver: no leader";
// Before the members are asked again that are electing one.
constexpr milliseconds kElectionPause(50);

grpc::ChannelArguments EtcdChannelArguments() {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(-1);  // all keys of a prefix come in one message
  return arguments;
}

Result<std::string> ReadPem(const std::string& path) {
  if (path.empty()) return std::string();
  return ReadFile(path, kCertificateBytesMax);
}

Result<std::shared_ptr<grpc::ChannelCredentials>> EtcdCredentials(const EtcdOptions& options) {
  if (options.ca_file.empty()) {
    if (!options.cert_file.empty() || !options.key_file.empty()) {
      return InvalidArgumentError(
          "etcd: a certificate was given without the CA that etcd's own is checked with");
    }
    return grpc::InsecureChannelCredentials();
  }
  if (options.cert_file.empty() != options.key_file.empty()) {
    return InvalidArgumentError("etcd: a certificate and its key must be given together");
  }
  grpc::SslCredentialsOptions tls;
  ASSIGN_OR_RETURN(tls.pem_root_certs, ReadPem(options.ca_file));
  ASSIGN_OR_RETURN(tls.pem_cert_chain, ReadPem(options.cert_file));
  ASSIGN_OR_RETURN(tls.pem_private_key, ReadPem(options.key_file));
  return grpc::SslCredentials(tls);
}

// "host:port" of an endpoint, which may be a URL.
Result<std::string> EtcdAddress(std::string endpoint, bool tls) {
  const std::string given = endpoint;
  for (const std::string scheme : {"http://", "https://"}) {
    if (endpoint.rfind(scheme, 0) != 0) continue;
    if ((scheme == "https://") != tls) {
      return InvalidArgumentError("etcd's endpoint " + given +
                                  (tls ? " is not https, though a CA was given"
                                       : " is https: give the CA that its certificate is from"));
    }
    endpoint.erase(0, scheme.size());
  }
  while (!endpoint.empty() && endpoint.back() == '/') endpoint.pop_back();
  const size_t colon = endpoint.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == endpoint.size()) {
    return InvalidArgumentError("etcd's endpoint '" + given + "' is not host:port");
  }
  return endpoint;
}

bool IsConnectionFault(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
}

// It was refused before anything was done.
bool LacksLeader(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE &&
         status.error_message() == kNoLeader;
}

// One try: `call` gets the channel and a context with its deadline. True: done, whatever came out.
using EtcdCall =
    std::function<grpc::Status(const std::shared_ptr<grpc::Channel>&, grpc::ClientContext*)>;

// Tries until one endpoint has answered. `repeatable`: asking twice changes nothing.
Status CallEtcd(EtcdChannels& etcd, const std::string& what, bool repeatable,
                const EtcdCall& call) {
  const EtcdDeadline deadline = system_clock::now() + milliseconds(etcd.options.deadline_ms);
  const milliseconds share(etcd.options.deadline_ms / static_cast<int>(etcd.channels.size()));
  bool renewed_token = false;
  while (true) {
    ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, etcd.Connect(deadline));
    grpc::ClientContext context;
    context.set_deadline(std::min(deadline, system_clock::now() + share));
    const Status prepared = etcd.Prepare(channel, &context);
    if (prepared.code() == StatusCode::kUnavailable && system_clock::now() < deadline) {
      etcd.Leave(channel);  // nothing was asked yet: another endpoint may let it sign in
      std::this_thread::sleep_for(kElectionPause);
      continue;
    }
    RETURN_IF_ERROR(prepared);
    const grpc::Status status = call(channel, &context);
    if (status.ok()) return OkStatus();
    const bool stale_token = status.error_code() == grpc::StatusCode::UNAUTHENTICATED;
    if (stale_token && !renewed_token && !etcd.options.user.empty()) {
      renewed_token = true;
      etcd.ForgetToken();
      continue;
    }
    if (!IsConnectionFault(status)) return etcd.Explain(status, what);
    etcd.Leave(channel);
    if (LacksLeader(status)) {
      std::this_thread::sleep_for(kElectionPause);
    } else if (!repeatable) {
      return etcd.Explain(status, what);
    }
    if (system_clock::now() < deadline) continue;
    return UnavailableError(etcd.name +
                            (LacksLeader(status) ? " has no leader: are most of its members away? ("
                                                 : " does not answer (") +
                            what + ")");
  }
}

etcdserverpb::Compare ToProto(const EtcdCompare& compare) {
  etcdserverpb::Compare proto;
  proto.set_key(compare.key);
  if (compare.relation == EtcdCompare::Relation::kGreater) {
    proto.set_result(etcdserverpb::Compare::GREATER);
  }
  switch (compare.target) {
    case EtcdCompare::Target::kCreateRevision:
      proto.set_target(etcdserverpb::Compare::CREATE);
      proto.set_create_revision(compare.number);
      break;
    case EtcdCompare::Target::kModRevision:
      proto.set_target(etcdserverpb::Compare::MOD);
      proto.set_mod_revision(compare.number);
      break;
    case EtcdCompare::Target::kValue:
      proto.set_target(etcdserverpb::Compare::VALUE);
      proto.set_value(compare.value);
      break;
  }
  return proto;
}

etcdserverpb::RequestOp ToProto(const EtcdOperation& operation) {
  using Kind = EtcdOperation::Kind;
  etcdserverpb::RequestOp proto;
  switch (operation.kind) {
    case Kind::kGet:
    case Kind::kGetPrefix: {
      auto* range = proto.mutable_request_range();
      range->set_key(operation.key);
      if (operation.kind == Kind::kGetPrefix) range->set_range_end(EtcdPrefixEnd(operation.key));
      range->set_limit(operation.keys_max);
      range->set_keys_only(operation.keys_max > 0);
      break;
    }
    case Kind::kPut: {
      auto* put = proto.mutable_request_put();
      put->set_key(operation.key);
      put->set_value(operation.value);
      put->set_lease(operation.lease);
      break;
    }
    case Kind::kDelete:
    case Kind::kDeletePrefix: {
      auto* range = proto.mutable_request_delete_range();
      range->set_key(operation.key);
      if (operation.kind == Kind::kDeletePrefix) range->set_range_end(EtcdPrefixEnd(operation.key));
      break;
    }
  }
  return proto;
}

bool OnlyReads(const std::vector<EtcdOperation>& operations) {
  return std::all_of(operations.begin(), operations.end(), [](const EtcdOperation& operation) {
    return operation.kind == EtcdOperation::Kind::kGet ||
           operation.kind == EtcdOperation::Kind::kGetPrefix;
  });
}

EtcdOutcome ToOutcome(const etcdserverpb::TxnResponse& response) {
  EtcdOutcome outcome;
  outcome.succeeded = response.succeeded();
  outcome.revision = response.header().revision();
  for (const etcdserverpb::ResponseOp& operation : response.responses()) {
    std::vector<EtcdKeyValue> found;
    for (const etcdserverpb::KeyValue& item : operation.response_range().kvs()) {
      found.push_back(
          {item.key(), item.value(), item.create_revision(), item.mod_revision(), item.lease()});
    }
    outcome.found.push_back(std::move(found));
  }
  return outcome;
}

}  // namespace

std::string EtcdPrefixEnd(const std::string& prefix) {
  std::string end = prefix;
  while (!end.empty() && static_cast<unsigned char>(end.back()) == 0xff) end.pop_back();
  if (end.empty()) return std::string(1, '\0');  // etcd's word for: to the last key
  ++end.back();
  return end;
}

namespace {

// "etcdserver: authentication failed, invalid user ID or password", "user name is empty", ... and
// not "request is too large" or "duplicate key given in txn request".
bool IsAboutSigningIn(const std::string& message) {
  for (const char* const word : {"auth", "user", "role", "password", "permission"}) {
    if (message.find(word) != std::string::npos) return true;
  }
  return false;
}

// "etcdserver: request is too large", or gRPC's "received message larger than max".
std::string HintOnSize(const std::string& message) {
  const bool is_large = message.find("too large") != std::string::npos ||
                        message.find("larger than max") != std::string::npos;
  return is_large ? "; etcd's --max-request-bytes says how large a change may be" : "";
}

}  // namespace

Result<std::shared_ptr<grpc::Channel>> EtcdChannels::Connect(EtcdDeadline deadline) {
  const milliseconds share(options.deadline_ms / static_cast<int>(channels.size()));
  for (size_t i = 0; i < channels.size(); ++i) {
    const std::shared_ptr<grpc::Channel> channel = channels[current % channels.size()];
    const EtcdDeadline turn = std::min(deadline, system_clock::now() + share);
    const EtcdDeadline patience = std::min(turn, system_clock::now() + kReconnectPatience);
    grpc_connectivity_state state = channel->GetState(true);
    while (state != GRPC_CHANNEL_READY && state != GRPC_CHANNEL_SHUTDOWN) {
      // A channel makes progress only while a call waits, so a failed one is waited for, too.
      const bool failed = state == GRPC_CHANNEL_TRANSIENT_FAILURE;
      if (!channel->WaitForStateChange(state, failed ? patience : turn)) break;
      state = channel->GetState(true);
      if (system_clock::now() >= patience && state == GRPC_CHANNEL_TRANSIENT_FAILURE) break;
    }
    if (state == GRPC_CHANNEL_READY) return channel;
    Leave(channel);
  }
  return UnavailableError(name + " does not answer: is it running, and reachable from here?" +
                          (options.ca_file.empty() ? "" : " Do its certificate and the CA match?"));
}

void EtcdChannels::Leave(const std::shared_ptr<grpc::Channel>& failed) {
  size_t idx = current;
  if (channels[idx % channels.size()] == failed) current.compare_exchange_strong(idx, idx + 1);
}

Status EtcdChannels::Prepare(const std::shared_ptr<grpc::Channel>& channel,
                             grpc::ClientContext* context) {
  context->AddMetadata(kNeedsLeader, "true");
  if (options.user.empty()) return OkStatus();
  std::lock_guard lock(token_mutex);
  if (token.empty()) {
    grpc::ClientContext login;
    login.set_deadline(system_clock::now() + milliseconds(options.deadline_ms));
    login.AddMetadata(kNeedsLeader, "true");
    etcdserverpb::AuthenticateRequest request;
    request.set_name(options.user);
    request.set_password(options.password);
    etcdserverpb::AuthenticateResponse response;
    const grpc::Status status =
        etcdserverpb::Auth::NewStub(channel)->Authenticate(&login, request, &response);
    const std::string what = "cannot sign in as '" + options.user + "'";
    if (IsConnectionFault(status)) {
      return UnavailableError(name + ": " + what + ": " + status.error_message());
    }
    if (!status.ok()) return Explain(status, what);
    token = response.token();
  }
  context->AddMetadata("token", token);
  return OkStatus();
}

void EtcdChannels::ForgetToken() {
  std::lock_guard lock(token_mutex);
  token.clear();
}

Status EtcdChannels::Explain(const grpc::Status& status, const std::string& what) const {
  const std::string message = name + ": " + what + ": " + status.error_message();
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return DeadlineExceededError(message + "; whether it was done is not known");
    case grpc::StatusCode::INVALID_ARGUMENT:
      // etcd's word for a wrong password, and for a request that is wrong in itself.
      if (!IsAboutSigningIn(status.error_message())) {
        return InvalidArgumentError(message + HintOnSize(status.error_message()));
      }
      [[fallthrough]];
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::PERMISSION_DENIED:
      return Status(static_cast<StatusCode>(status.error_code()),
                    message + "; check etcd's user, its password and its role");
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      if (const std::string hint = HintOnSize(status.error_message()); !hint.empty()) {
        return InvalidArgumentError(message + hint);
      }
      return ResourceExhaustedError(message + "; is etcd's space spent (`etcdctl alarm list`)?");
    default:
      return Status(static_cast<StatusCode>(status.error_code()), message);
  }
}

namespace {

class GrpcEtcdClient : public EtcdClient {
 public:
  explicit GrpcEtcdClient(std::unique_ptr<EtcdChannels> channels)
      : channels_(std::move(channels)) {}

  Result<EtcdOutcome> Commit(const EtcdTransaction& transaction) override;
  Result<EtcdLeaseGrant> GrantLease(int64_t ttl_s) override;
  Result<int64_t> RenewLease(int64_t id) override;
  Status RevokeLease(int64_t id) override;
  Result<std::unique_ptr<EtcdWatchStream>> Watch(const std::string& prefix) override {
    return OpenEtcdWatch(*channels_, prefix);
  }
  const std::string& name() const override { return channels_->name; }
  EtcdChannels& channels() { return *channels_; }

 private:
  const std::unique_ptr<EtcdChannels> channels_;
};

}  // namespace

EtcdChannels& ChannelsOf(EtcdClient& client) {
  return static_cast<GrpcEtcdClient&>(client).channels();
}

Result<std::unique_ptr<EtcdClient>> EtcdClient::Make(const EtcdOptions& options) {
  if (options.endpoints.empty()) return InvalidArgumentError("etcd: no endpoint was given");
  auto channels = std::make_unique<EtcdChannels>();
  channels->options = options;
  channels->name = "etcd at ";
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::ChannelCredentials> credentials,
                   EtcdCredentials(options));
  for (const std::string& endpoint : options.endpoints) {
    ASSIGN_OR_RETURN(const std::string address, EtcdAddress(endpoint, !options.ca_file.empty()));
    channels->name += (channels->channels.empty() ? "" : ", ") + address;
    channels->channels.push_back(
        grpc::CreateCustomChannel(address, credentials, EtcdChannelArguments()));
  }
  return std::unique_ptr<EtcdClient>(std::make_unique<GrpcEtcdClient>(std::move(channels)));
}

Result<EtcdOutcome> GrpcEtcdClient::Commit(const EtcdTransaction& transaction) {
  etcdserverpb::TxnRequest request;
  for (const EtcdCompare& compare : transaction.compares) {
    *request.add_compare() = ToProto(compare);
  }
  for (const EtcdOperation& operation : transaction.then) {
    *request.add_success() = ToProto(operation);
  }
  for (const EtcdOperation& operation : transaction.otherwise) {
    *request.add_failure() = ToProto(operation);
  }
  const bool reads = OnlyReads(transaction.then) && OnlyReads(transaction.otherwise);
  etcdserverpb::TxnResponse response;
  RETURN_IF_ERROR(CallEtcd(*channels_, reads ? "reading" : "a change", reads,
                           [&](const auto& channel, grpc::ClientContext* context) {
                             return etcdserverpb::KV::NewStub(channel)->Txn(context, request,
                                                                            &response);
                           }));
  return ToOutcome(response);
}

Result<EtcdOutcome> EtcdClient::ReadPrefix(const std::string& prefix) {
  return Commit({.then = {EtcdOperation::GetPrefix(prefix)}});
}

Result<EtcdLeaseGrant> GrpcEtcdClient::GrantLease(int64_t ttl_s) {
  etcdserverpb::LeaseGrantRequest request;
  request.set_ttl(ttl_s);
  etcdserverpb::LeaseGrantResponse response;
  // The call may be repeated: if an answer is lost, its lease ends by itself.
  RETURN_IF_ERROR(
      CallEtcd(*channels_, "a lease", true, [&](const auto& channel, grpc::ClientContext* context) {
        return etcdserverpb::Lease::NewStub(channel)->LeaseGrant(context, request, &response);
      }));
  return EtcdLeaseGrant{response.id(), response.ttl()};
}

Result<int64_t> GrpcEtcdClient::RenewLease(int64_t id) {
  etcdserverpb::LeaseKeepAliveRequest request;
  request.set_id(id);
  etcdserverpb::LeaseKeepAliveResponse response;
  RETURN_IF_ERROR(CallEtcd(
      *channels_, "renewing a lease", true, [&](const auto& channel, grpc::ClientContext* context) {
        const auto stub = etcdserverpb::Lease::NewStub(channel);
        const auto stream = stub->LeaseKeepAlive(context);
        const bool answered = stream->Write(request) && stream->Read(&response);
        // etcd does not end the stream when we do: it is cancelled once it has answered.
        if (answered) context->TryCancel();
        const grpc::Status status = stream->Finish();
        return answered ? grpc::Status::OK : status;
      }));
  return response.ttl();
}

Status GrpcEtcdClient::RevokeLease(int64_t id) {
  etcdserverpb::LeaseRevokeRequest request;
  request.set_id(id);
  etcdserverpb::LeaseRevokeResponse response;
  const Status status = CallEtcd(
      *channels_, "ending a lease", true, [&](const auto& channel, grpc::ClientContext* context) {
        return etcdserverpb::Lease::NewStub(channel)->LeaseRevoke(context, request, &response);
      });
  return status.code() == StatusCode::kNotFound ? OkStatus() : status;
}

}  // namespace graft
