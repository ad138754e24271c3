// The small ops around the matrix products, at the shapes of Llama-2-7B (and a q/k norm like
// Qwen3's), for decode and prefill: embedding, rms_norm, rope, kv_write, rope_kv_write,
// gated_activation.
#include "kernels/common/cuda_bench.cuh"
#include "kernels/embedding/embedding.h"
#include "kernels/gated_activation/gated_activation.h"
#include "kernels/kv_write/kv_write.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rope/rope.h"
#include "kernels/rope_kv_write/rope_kv_write.h"

namespace graft::cuda_bench {
namespace {

constexpr int64_t kHidden = 4096, kIntermediate = 11008, kHeadDim = 128, kPageTokens = 16;
constexpr int32_t kHeads = 32, kVocab = 32000, kPositions = 4096, kPages = 4096;

// Row numbers 0, step, 2 step, ... modulo `limit`.
Buffer Numbers(int64_t n, int64_t step, int64_t limit, const Device& device) {
  std::vector<int32_t> values(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) values[i] = static_cast<int32_t>(i * step % limit);
  Buffer buffer(n * 4, device);
  CUDA_CHECK(cudaMemcpy(buffer.data(), values.data(), values.size() * 4, cudaMemcpyHostToDevice));
  return buffer;
}

std::string Rows(const char* op, int64_t rows) {
  return std::string(op) + ", " + std::to_string(rows) + " rows";
}

void BenchEmbedding(int64_t rows, Stream& stream) {
  const int64_t bytes = rows * kHidden * 6;
  const int64_t copies = NumColdCopies(bytes);
  const Buffer table = RandomFloats(int64_t{kVocab} * kHidden / 2, stream.device);
  const Buffer tokens = Numbers(copies * rows, 7919, kVocab, stream.device);
  Buffer out(copies * rows * kHidden * 4, stream.device);
  Report(Rows("embedding 4096 bf16", rows), bytes, stream, [&](int64_t copy) {
    Embedding({.table = table.data(),
               .dtype = DType::kBF16,
               .vocab_size = kVocab,
               .tokens = tokens.as<int32_t>() + copy * rows,
               .out = out.as<float>() + copy * rows * kHidden,
               .num_tokens = rows,
               .n = kHidden},
              stream);
  });
}

void BenchRmsNorm(int64_t rows, int32_t num_heads, int64_t n, Stream& stream) {
  const int64_t elements = rows * num_heads * n;
  const int64_t bytes = elements * 6;
  const int64_t copies = NumColdCopies(bytes);
  const Buffer x = RandomFloats(copies * elements, stream.device);
  const Buffer weight = RandomFloats(n, stream.device);
  Buffer out(copies * elements * 2, stream.device);
  const std::string name =
      "rms_norm " + std::to_string(num_heads) + " x " + std::to_string(n) + " to bf16";
  Report(Rows(name.c_str(), rows), bytes, stream, [&](int64_t copy) {
    RmsNorm({.x = x.as<float>() + copy * elements,
             .x_stride = num_heads * n,
             .weight = weight.as<float>(),
             .out = out.as<Bfloat16>() + copy * elements,
             .out_stride = num_heads * n,
             .out_dtype = DType::kBF16,
             .num_tokens = rows,
             .num_heads = num_heads,
             .n = n},
            stream);
  });
}

void BenchGatedActivation(int64_t rows, Stream& stream) {
  const int64_t elements = rows * kIntermediate;
  const int64_t bytes = elements * 10;
  const int64_t copies = NumColdCopies(bytes);
  const Buffer gate_up = RandomFloats(copies * elements * 2, stream.device);
  Buffer out(copies * elements * 2, stream.device);
  Report(Rows("gated_activation 11008 to bf16", rows), bytes, stream, [&](int64_t copy) {
    GatedActivation({.gate_up = gate_up.as<float>() + copy * elements * 2,
                     .out = out.as<Bfloat16>() + copy * elements,
                     .out_dtype = DType::kBF16,
                     .num_tokens = rows,
                     .n = kIntermediate},
                    stream);
  });
}

// rope, kv_write, and rope_kv_write, which is both in one, on the same rows of q, k and v.
void BenchQkv(int64_t rows, Stream& stream) {
  constexpr int64_t kRow = 3 * kHeads * kHeadDim;
  const int64_t copies = NumColdCopies(rows * kHeads * kHeadDim * 12);
  Buffer qkv = RandomFloats(copies * rows * kRow, stream.device);
  const Buffer angles = RandomFloats(kPositions * kHeadDim / 2, stream.device);
  const Buffer weight = RandomFloats(kHeadDim, stream.device);
  const KvLayout layout{.num_layers = 1,
                        .num_kv_heads = kHeads,
                        .head_dim = kHeadDim,
                        .page_tokens = kPageTokens,
                        .dtype = DType::kBF16};
  const Buffer positions = Numbers(rows, 37, kPositions, stream.device);
  const Buffer pages = Numbers(copies * rows, 1, kPages, stream.device);
  const Buffer slots = Numbers(copies * rows, 5, kPageTokens, stream.device);
  Buffer pool(kPages * layout.PageBytes(), stream.device);
  Report(Rows("rope 64 heads of 128", rows), rows * kHeads * kHeadDim * 16, stream,
         [&](int64_t copy) {
           Rope({.x = qkv.as<float>() + copy * rows * kRow,
                 .x_stride = kRow,
                 .num_tokens = rows,
                 .num_heads = 2 * kHeads,
                 .head_dim = kHeadDim,
                 .rotary_dim = kHeadDim,
                 .positions = positions.as<int32_t>(),
                 .cos = angles.as<float>(),
                 .sin = angles.as<float>()},
                stream);
         });
  Report(Rows("kv_write 32 heads of 128, bf16", rows), rows * kHeads * kHeadDim * 12, stream,
         [&](int64_t copy) {
           const float* k = qkv.as<float>() + copy * rows * kRow + kHeads * kHeadDim;
           KvWrite({.layout = layout,
                    .pool = pool.data(),
                    .k = k,
                    .v = k + kHeads * kHeadDim,
                    .row_stride = kRow,
                    .row_page = pages.as<int32_t>() + copy * rows,
                    .row_slot = slots.as<int32_t>() + copy * rows,
                    .num_rows = static_cast<int32_t>(rows)},
                   stream);
         });
  for (const bool normalizes : {false, true}) {
    const float* norm = normalizes ? weight.as<float>() : nullptr;
    Report(Rows(normalizes ? "rope_kv_write with q/k norm" : "rope_kv_write", rows),
           rows * kHeads * kHeadDim * 24, stream, [&](int64_t copy) {
             RopeKvWrite({.qkv = qkv.as<float>() + copy * rows * kRow,
                          .row_stride = kRow,
                          .num_rows = static_cast<int32_t>(rows),
                          .num_q_heads = kHeads,
                          .q_norm_weight = norm,
                          .k_norm_weight = norm,
                          .positions = positions.as<int32_t>(),
                          .rotary_dim = kHeadDim,
                          .cos = angles.as<float>(),
                          .sin = angles.as<float>(),
                          .layout = layout,
                          .pool = pool.data(),
                          .row_page = pages.as<int32_t>() + copy * rows,
                          .row_slot = slots.as<int32_t>() + copy * rows},
                         stream);
           });
  }
}

void Run() {
  ThreadPool threads(1);
  OwnedStream stream({DeviceKind::kCuda, 0}, &threads);
  for (const int64_t rows : {1, 32, 1024}) {
    BenchEmbedding(rows, stream.get());
    BenchRmsNorm(rows, 1, kHidden, stream.get());
    BenchRmsNorm(rows, kHeads, kHeadDim, stream.get());
    BenchGatedActivation(rows, stream.get());
    BenchQkv(rows, stream.get());
  }
}

}  // namespace
}  // namespace graft::cuda_bench

int main() {
  graft::cuda_bench::Run();
  return 0;
}
