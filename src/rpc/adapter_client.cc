#include "rpc/adapter_client.h"

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <functional>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>

#include "base/fault.h"
#include "base/sha256.h"
#include "rpc/adapter_proto.h"
#include "rpc/adapter_service.h"
#include "rpc/adapters.grpc.pb.h"
#include "rpc/credentials.h"

namespace graft {
namespace {

// A load reads, hashes and self-tests; a file is as long as a slow network makes it.
constexpr std::chrono::minutes kLoadPatience(5);
constexpr std::chrono::minutes kFetchPatience(30);
// For a content that requests wait for: no longer than they do.
constexpr std::chrono::seconds kRecallPatience(30);
constexpr std::chrono::seconds kDropPatience(30);
constexpr std::chrono::milliseconds kCancelLook(100);
// For a peer that says nothing.
constexpr int kPeerKeepaliveMs = 5000;
constexpr int64_t kAdapterFileBytesMax = int64_t{1} << 40;

Status FromGrpcStatus(const grpc::Status& status, const std::string& address) {
  if (status.ok()) return OkStatus();
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    return UnavailableError(address + " does not answer: " + status.error_message());
  }
  return Status(static_cast<StatusCode>(status.error_code()), status.error_message());
}

Status WriteAll(int fd, const std::string& data, int64_t offset) {
  size_t written = 0;
  while (written < data.size()) {
    const ssize_t bytes = pwrite(fd, data.data() + written, data.size() - written,
                                 offset + static_cast<int64_t>(written));
    if (bytes < 0) return SystemError(errno, "cannot keep an adapter");
    written += static_cast<size_t>(bytes);
  }
  return OkStatus();
}

// A bundle may lack one of its folders. `missing`: the status if the peer has no bundle either.
Status FetchBundle(const std::function<Status(uint32_t)>& fetch, const std::string& folder,
                   const Status& missing) {
  std::error_code error;
  std::filesystem::remove(folder + "/" + kPeftFiles[0], error);  // empty
  for (size_t file = kPeftFiles.size(); file < kFirstTextFile; ++file) {
    const std::filesystem::path path = folder + "/" + AdapterFileName(file);
    std::filesystem::create_directories(path.parent_path(), error);
    if (error) return SystemError(error.value(), "cannot keep an adapter");
    const Status fetched = fetch(static_cast<uint32_t>(file));
    if (fetched.ok()) continue;
    if (fetched.code() != StatusCode::kNotFound) return fetched;
    if (file == kPeftFiles.size()) return missing;
    std::filesystem::remove(path, error);
    std::filesystem::remove(path.parent_path(), error);  // if empty
  }
  return OkStatus();
}

// Each may be missing. A peer that knows of none has hashes without them.
Status FetchTexts(const std::function<Status(uint32_t)>& fetch, const std::string& folder) {
  std::error_code error;
  for (size_t file = kFirstTextFile; file < kAdapterFiles; ++file) {
    const std::filesystem::path path = folder + "/" + AdapterFileName(file);
    std::filesystem::create_directories(path.parent_path(), error);
    if (error) return SystemError(error.value(), "cannot keep an adapter");
    const Status fetched = fetch(static_cast<uint32_t>(file));
    if (fetched.ok()) continue;
    const bool is_missing =
        fetched.code() == StatusCode::kNotFound || fetched.code() == StatusCode::kCancelled;
    if (!is_missing) return fetched;
    std::filesystem::remove(path, error);
    if (path.parent_path() != folder) std::filesystem::remove(path.parent_path(), error);
  }
  return OkStatus();
}

class GrpcAdapterClient : public AdapterClient {
 public:
  GrpcAdapterClient(std::string address,
                    const std::shared_ptr<grpc::ChannelCredentials>& credentials)
      : address_(std::move(address)) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPeerKeepaliveMs);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPeerKeepaliveMs);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    stub_ = rpc::Adapters::NewStub(grpc::CreateCustomChannel(address_, credentials, arguments));
  }

  Result<AdapterInfo> Load(const AdapterLoad& load) override {
    grpc::ClientContext context;
    const Running running(*this, context);
    context.set_deadline(std::chrono::system_clock::now() +
                         (load.hash.empty() ? kLoadPatience : kRecallPatience));
    rpc::LoadAdapter request;
    request.set_name(load.name);
    request.set_path(load.path);
    request.set_tenant(load.tenant);
    request.set_hash(load.hash);
    request.set_fetched_revision(load.fetched_revision);
    rpc::Adapter response;
    RETURN_IF_ERROR(FromGrpcStatus(stub_->Load(&context, request, &response), address_));
    return FromProto(response).info;
  }

  Status FetchSource(const SourceOrder& order, const std::atomic<bool>& is_cancelled,
                     Result<SourceFolder>* answer) override {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kFetchPatience);
    rpc::FetchSource request;
    request.set_source(order.source);
    request.set_rest(order.rest);
    request.set_revision(order.revision);
    request.set_is_tenants(order.is_tenants);
    request.set_tenant(order.tenant);
    request.set_has_tenant_tokens(order.has_tenant_tokens);
    rpc::FetchedSource response;
    grpc::CompletionQueue queue;
    const auto call = stub_->AsyncFetch(&context, request, &queue);
    grpc::Status ended;
    call->Finish(&response, &ended, nullptr);
    void* tag = nullptr;
    bool ok = false;
    while (queue.AsyncNext(&tag, &ok, std::chrono::system_clock::now() + kCancelLook) ==
           grpc::CompletionQueue::TIMEOUT) {
      if (is_cancelled) context.TryCancel();
    }
    queue.Shutdown();
    if (is_cancelled) return CancelledError("the fetch was cancelled");
    RETURN_IF_ERROR(FromGrpcStatus(ended, address_));
    *answer = SourceFolder{.path = response.path(),
                           .revision = response.revision(),
                           .bytes = response.bytes(),
                           .fetched_bytes = response.fetched_bytes()};
    const auto code = static_cast<StatusCode>(response.code());
    if (code != StatusCode::kOk) *answer = Status(code, response.message());
    return OkStatus();
  }

  Status DropSource(const std::string& source, const std::string& path) override {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kDropPatience);
    rpc::DropSource request;
    request.set_source(source);
    request.set_path(path);
    rpc::DroppedSource response;
    return FromGrpcStatus(stub_->Drop(&context, request, &response), address_);
  }

  void Cancel() override {
    std::lock_guard lock(mutex_);
    is_cancelled_ = true;
    for (grpc::ClientContext* const context : running_) context->TryCancel();
  }

  Status Fetch(const std::string& hash, const std::string& folder) override {
    const auto fetch = [&](uint32_t file) {
      return FetchFile(hash, file, folder + "/" + AdapterFileName(file));
    };
    const Status config = fetch(0);
    if (!config.ok() && config.code() != StatusCode::kNotFound) return config;
    RETURN_IF_ERROR(config.ok() ? fetch(1) : FetchBundle(fetch, folder, config));
    return FetchTexts(fetch, folder);
  }

 private:
  Status FetchFile(const std::string& hash, uint32_t file, const std::string& path) {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return SystemError(errno, "cannot keep an adapter");
    const Status status = Receive(hash, file, fd);
    const bool synced = !status.ok() || fsync(fd) == 0;
    const int error_number = errno;
    close(fd);
    return synced ? status : SystemError(error_number, "cannot keep an adapter");
  }

  // A call that Cancel ends.
  class Running {
   public:
    Running(GrpcAdapterClient& client, grpc::ClientContext& context)
        : client_(client), context_(context) {
      std::lock_guard lock(client_.mutex_);
      client_.running_.insert(&context_);
      if (client_.is_cancelled_) context_.TryCancel();
    }
    ~Running() {
      std::lock_guard lock(client_.mutex_);
      client_.running_.erase(&context_);
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    GrpcAdapterClient& client_;
    grpc::ClientContext& context_;
  };

  // What `fd` has was checked when it came.
  Status Receive(const std::string& hash, uint32_t file, int fd) {
    struct stat facts {};
    if (fstat(fd, &facts) != 0) return SystemError(errno, "cannot keep an adapter");
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kFetchPatience);
    rpc::ReadAdapter request;
    request.set_hash(hash);
    request.set_file(file);
    request.set_offset(facts.st_size);
    const auto reader = stub_->Read(&context, request);
    rpc::AdapterChunk chunk;
    int64_t offset = facts.st_size;
    int64_t file_bytes = -1;
    Status failure;
    while (failure.ok() && reader->Read(&chunk)) {
      file_bytes = chunk.file_bytes();
      const bool sane = chunk.offset() == offset && file_bytes <= kAdapterFileBytesMax;
      if (!sane || chunk.sha256() != Sha256Of(chunk.data())) {
        failure = DataLossError(address_ + " sent a part of an adapter that is not what it had");
      } else {
        failure = WriteAll(fd, chunk.data(), offset);
        offset += static_cast<int64_t>(chunk.data().size());
      }
    }
    if (!failure.ok()) context.TryCancel();
    const Status ended = FromGrpcStatus(reader->Finish(), address_);
    RETURN_IF_ERROR(failure);
    RETURN_IF_ERROR(ended);
    if (offset == file_bytes) return OkStatus();
    return DataLossError(address_ + " sent an adapter of another length than it had");
  }

  const std::string address_;
  std::unique_ptr<rpc::Adapters::Stub> stub_;
  std::mutex mutex_;
  std::set<grpc::ClientContext*> running_;
  bool is_cancelled_ = false;
};

}  // namespace

Result<std::unique_ptr<AdapterClient>> AdapterClient::Make(const std::string& address,
                                                           const TlsFiles& tls) {
  ASSIGN_OR_RETURN(const auto credentials, MakeChannelCredentials(tls));
  return std::unique_ptr<AdapterClient>(std::make_unique<GrpcAdapterClient>(address, credentials));
}

}  // namespace graft
