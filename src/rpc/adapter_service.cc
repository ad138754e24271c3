#include "rpc/adapter_service.h"

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "base/fault.h"
#include "base/sha256.h"
#include "rpc/adapter_proto.h"
#include "rpc/adapters.grpc.pb.h"

namespace graft {
namespace {

constexpr int kFetchesMax = 16;
constexpr std::chrono::milliseconds kWatchEvery(50);

grpc::Status ToGrpcStatus(const Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), status.message()};
}

}  // namespace

class AdapterService::Impl : public rpc::Adapters::Service {
 public:
  explicit Impl(Handlers handlers) : handlers_(std::move(handlers)) {}

  grpc::Status Load(grpc::ServerContext*, const rpc::LoadAdapter* request,
                    rpc::Adapter* response) override {
    const Result<AdapterInfo> info =
        handlers_.load({.name = request->name(),
                        .path = request->path(),
                        .tenant = request->tenant(),
                        .hash = request->hash(),
                        .fetched_revision = request->fetched_revision()});
    if (!info.ok()) return ToGrpcStatus(info.status());
    *response = ToProto(ListedAdapter{*info, AdapterState::kHost});
    return grpc::Status::OK;
  }

  grpc::Status Read(grpc::ServerContext*, const rpc::ReadAdapter* request,
                    grpc::ServerWriter<rpc::AdapterChunk>* writer) override {
    const Result<std::string> folder = handlers_.folder_of(request->hash());
    if (!folder.ok()) return ToGrpcStatus(folder.status());
    if (request->file() >= kAdapterFiles) return grpc::Status::CANCELLED;
    const std::string path = AdapterFilePath(*folder, AdapterFileName(request->file()));
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return ToGrpcStatus(SystemError(errno, "cannot read the adapter"));
    const Status allowed = CheckInside(fd);
    const grpc::Status status =
        allowed.ok() ? Send(fd, request->offset(), writer) : ToGrpcStatus(allowed);
    close(fd);
    return status;
  }

  grpc::Status Fetch(grpc::ServerContext* context, const rpc::FetchSource* request,
                     rpc::FetchedSource* response) override {
    const Result<SourceFolder> folder = FetchFor(*context, *request);
    response->set_code(static_cast<uint32_t>(folder.status().code()));
    response->set_message(folder.status().message());
    if (!folder.ok()) return grpc::Status::OK;
    response->set_path(folder->path);
    response->set_revision(folder->revision);
    response->set_bytes(folder->bytes);
    response->set_fetched_bytes(folder->fetched_bytes);
    return grpc::Status::OK;
  }

  grpc::Status Drop(grpc::ServerContext*, const rpc::DropSource* request,
                    rpc::DroppedSource*) override {
    if (handlers_.sources == nullptr) return ToGrpcStatus(NoSources());
    return ToGrpcStatus(handlers_.sources->Drop(request->source(), request->path()));
  }

 private:
  static Status NoSources() {
    return FailedPreconditionError("this machine fetches nothing for others: it has no --source");
  }

  // The call holds one of gRPC's threads while it runs, so there are few.
  Result<SourceFolder> FetchFor(grpc::ServerContext& context, const rpc::FetchSource& request) {
    if (handlers_.sources == nullptr) return NoSources();
    const std::unique_ptr<std::atomic<int>, void (*)(std::atomic<int>*)> place(
        &num_fetches_, [](std::atomic<int>* count) { --*count; });
    if (++num_fetches_ > kFetchesMax) {
      return ResourceExhaustedError("this runner fetches as much for others as it may at once");
    }
    std::atomic<bool> is_cancelled{false};
    const std::jthread watch([&](const std::stop_token& stop) {
      std::mutex mutex;
      std::condition_variable_any never;  // the end of the fetch alone wakes it
      std::unique_lock lock(mutex);
      while (!stop.stop_requested() && !is_cancelled) {
        if (context.IsCancelled()) is_cancelled = true;
        never.wait_for(lock, stop, kWatchEvery, [] { return false; });
      }
    });
    return handlers_.sources->Fetch({.source = request.source(),
                                     .rest = request.rest(),
                                     .revision = request.revision(),
                                     .is_tenants = request.is_tenants(),
                                     .tenant = request.tenant(),
                                     .has_tenant_tokens = request.has_tenant_tokens()},
                                    is_cancelled);
  }

  // Looks at what was opened, which links do not change any more.
  Status CheckInside(int fd) const {
    if (!handlers_.jail.has_value()) return OkStatus();
    std::error_code error;
    const std::filesystem::path opened =
        std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), error);
    if (error) return SystemError(error.value(), "cannot read the adapter");
    if (handlers_.jail->Resolve(opened.string()).ok()) return OkStatus();
    return PermissionDeniedError("a link of the adapter leads out of this machine's folders");
  }

  static grpc::Status Send(int fd, int64_t offset, grpc::ServerWriter<rpc::AdapterChunk>* writer) {
    struct stat facts {};
    if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)) {
      return ToGrpcStatus(NotFoundError("the adapter's file is no file"));
    }
    rpc::AdapterChunk chunk;
    chunk.set_file_bytes(facts.st_size);
    do {
      std::string* data = chunk.mutable_data();
      data->resize(kAdapterChunkBytes);
      const ssize_t bytes = pread(fd, data->data(), data->size(), offset);
      if (bytes < 0) return ToGrpcStatus(SystemError(errno, "cannot read the adapter"));
      data->resize(static_cast<size_t>(bytes));
      chunk.set_offset(offset);
      chunk.set_sha256(Sha256Of(*data));
      // The first tells how large the file is, also where nothing of it is left to send.
      if (!writer->Write(chunk)) return grpc::Status::CANCELLED;
      offset += bytes;
      if (bytes == 0) break;
    } while (offset < facts.st_size);
    return grpc::Status::OK;
  }

  const Handlers handlers_;
  std::atomic<int> num_fetches_{0};
};

AdapterService::AdapterService(Handlers handlers)
    : impl_(std::make_unique<Impl>(std::move(handlers))) {}
AdapterService::~AdapterService() = default;
grpc::Service& AdapterService::grpc_service() { return *impl_; }

}  // namespace graft
