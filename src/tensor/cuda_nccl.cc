// The few functions of NCCL that are needed are declared here, because its header is not everywhere
// where the program is built. Their types are part of its stable interface (NCCL 2).
#include <dlfcn.h>

#include <cstring>
#include <string>

#include "tensor/cuda_check.h"
#include "tensor/cuda_memory.h"
#include "tensor/nccl.h"

namespace graft {
namespace {

struct UniqueId {
  char bytes[128];
};
constexpr int kFloat32 = 7;
constexpr int kSum = 0;

}  // namespace

struct Nccl::Library {
  int (*get_unique_id)(UniqueId*) = nullptr;
  int (*init_rank)(void** group, int num_ranks, UniqueId id, int rank) = nullptr;
  int (*destroy)(void* group) = nullptr;
  int (*abort)(void* group) = nullptr;
  int (*all_gather)(const void*, void*, size_t, int, void* group, cudaStream_t) = nullptr;
  int (*all_reduce)(const void*, void*, size_t, int, int, void* group, cudaStream_t) = nullptr;
  const char* (*error_string)(int) = nullptr;

  static Result<const Library*> Open();
  // "" where all is well.
  std::string Problem(int result) const { return result == 0 ? "" : error_string(result); }
};

Result<const Nccl::Library*> Nccl::Library::Open() {
  static Library library;
  void* handle = nullptr;
  for (const char* const name : {"libnccl.so.2", "libnccl.so"}) {
    if (handle == nullptr) handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (handle == nullptr) {
    return FailedPreconditionError(std::string("NCCL is not there (") + dlerror() +
                                   "); put libnccl.so.2 where LD_LIBRARY_PATH says");
  }
  std::string missing;
  const auto find = [&](const char* name, auto* function) {
    void* const found = dlsym(handle, name);
    if (found == nullptr) missing += std::string(" ") + name;
    *reinterpret_cast<void**>(function) = found;
  };
  find("ncclGetUniqueId", &library.get_unique_id);
  find("ncclCommInitRank", &library.init_rank);
  find("ncclCommDestroy", &library.destroy);
  find("ncclCommAbort", &library.abort);
  find("ncclAllGather", &library.all_gather);
  find("ncclAllReduce", &library.all_reduce);
  find("ncclGetErrorString", &library.error_string);
  if (missing.empty()) return &library;
  return FailedPreconditionError("this NCCL lacks" + missing);
}

Result<std::unique_ptr<Nccl>> Nccl::Join(Communicator& communicator, const Device& device) {
  UseDevice(device);
  std::unique_ptr<Nccl> nccl(new Nccl);
  ASSIGN_OR_RETURN(nccl->library_, Library::Open());
  UniqueId id = {};
  if (communicator.rank() == 0) {
    const std::string problem = nccl->library_->Problem(nccl->library_->get_unique_id(&id));
    if (!problem.empty()) return FailedPreconditionError("NCCL: " + problem);
  }
  std::memcpy(communicator.part(), &id, sizeof(id));
  RETURN_IF_ERROR(communicator.Exchange());
  std::memcpy(&id, communicator.part_of(0), sizeof(id));
  const std::string problem = nccl->library_->Problem(
      nccl->library_->init_rank(&nccl->group_, communicator.num_ranks(), id, communicator.rank()));
  if (!problem.empty()) return FailedPreconditionError("NCCL: " + problem);
  return nccl;
}

// Others may have ended: what they do not answer is not waited for.
Nccl::~Nccl() {
  if (group_ != nullptr) library_->abort(group_);
}

void Nccl::AllGather(const float* part, float* all, int64_t n, const Stream& stream) {
  const int result = library_->all_gather(part, all, static_cast<size_t>(n), kFloat32, group_,
                                          CudaStreamOf(stream));
  CHECK(result == 0) << "NCCL: " << library_->Problem(result);
}

void Nccl::AllReduce(const float* part, float* out, int64_t n, const Stream& stream) {
  const int result = library_->all_reduce(part, out, static_cast<size_t>(n), kFloat32, kSum, group_,
                                          CudaStreamOf(stream));
  CHECK(result == 0) << "NCCL: " << library_->Problem(result);
}

}  // namespace graft
