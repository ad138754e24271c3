#include "tensor/cuda_graph.h"

#include "tensor/cuda_check.h"

namespace graft {

namespace {

// What is being recorded. Ends the recording where `work` or what follows finds no memory.
struct Recording {
  explicit Recording(cudaStream_t of) : stream(of) {
    // Thread-local: other threads load adapters meanwhile.
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    is_open = true;
  }
  ~Recording() {
    if (is_open) cudaStreamEndCapture(stream, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    if (is_open) cudaGetLastError();  // the error of what was cut off is no later call's
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  void End() {
    is_open = false;
    CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
  }

  const cudaStream_t stream;
  bool is_open = false;
  cudaGraph_t graph = nullptr;
};

}  // namespace

struct CapturedGraph::Executable {
  ~Executable() {
    if (graph != nullptr) CUDA_CHECK(cudaGraphExecDestroy(graph));
  }
  cudaGraphExec_t graph = nullptr;
};

CapturedGraph::CapturedGraph(Stream& stream, const std::function<void()>& work)
    : executable_(std::make_unique<Executable>()) {
  CHECK(!stream.device.is_cpu()) << "graphs are for GPUs";
  Recording recording(CudaStreamOf(stream));
  work();
  recording.End();
  CUDA_CHECK(cudaGraphInstantiate(&executable_->graph, recording.graph, 0));
  CUDA_CHECK(cudaGraphUpload(executable_->graph, CudaStreamOf(stream)));
}

CapturedGraph::~CapturedGraph() = default;

void CapturedGraph::Launch(Stream& stream) {
  CUDA_CHECK(cudaGraphLaunch(executable_->graph, CudaStreamOf(stream)));
}

}  // namespace graft
