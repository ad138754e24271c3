#include "tensor/cuda_graph.h"

#include "tensor/cuda_check.h"

namespace graft {

struct CapturedGraph::Executable {
  cudaGraphExec_t graph = nullptr;
};

CapturedGraph::CapturedGraph(Stream& stream, const std::function<void()>& work)
    : executable_(std::make_unique<Executable>()) {
  CHECK(!stream.device.is_cpu()) << "graphs are for GPUs";
  cudaGraph_t recording = nullptr;
  // Thread-local: other threads load adapters meanwhile.
  CUDA_CHECK(cudaStreamBeginCapture(CudaStreamOf(stream), cudaStreamCaptureModeThreadLocal));
  work();
  CUDA_CHECK(cudaStreamEndCapture(CudaStreamOf(stream), &recording));
  CUDA_CHECK(cudaGraphInstantiate(&executable_->graph, recording, 0));
  CUDA_CHECK(cudaGraphDestroy(recording));
  CUDA_CHECK(cudaGraphUpload(executable_->graph, CudaStreamOf(stream)));
}

CapturedGraph::~CapturedGraph() { CUDA_CHECK(cudaGraphExecDestroy(executable_->graph)); }

void CapturedGraph::Launch(Stream& stream) {
  CUDA_CHECK(cudaGraphLaunch(executable_->graph, CudaStreamOf(stream)));
}

}  // namespace graft
