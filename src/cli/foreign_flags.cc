#include "cli/foreign_flags.h"

namespace graft {
namespace {

constexpr ForeignFlag kVllmFlags[] = {
    {"max-model-len", "use --context-tokens-max"},
    {"served-model-name", "use --model-name"},
    {"max-num-seqs", "use --sequences-max"},
    {"max-num-batched-tokens", "use --step-tokens-max"},
    {"performance-mode", "use --goal latency or --goal throughput"},
    {"enable-lora", "leave it out: adapters are served where --adapters DIR names their folder"},
    {"lora-modules",
     "use --adapters DIR: each folder in DIR is an adapter, served by its folder's name"},
    {"max-loras", "use --adapters-max, or leave it out: one batch mixes as many as have requests"},
    {"max-cpu-loras", "use --host-gib, the host's memory for adapters"},
    {"max-lora-rank", "leave it out: adapters of all ranks up to 256 are served together"},
    {"gpu-memory-utilization",
     "use --memory-gib, GiB of the device's memory in all, or --pool-gib, those of keys, values "
     "and "
     "adapters"},
    {"quantization",
     "leave it out: the model's config.json says it, and bitsandbytes' NF4, compressed-tensors' "
     "pack-quantized, GPTQ and AWQ are read (docs/weights.md)"},
    {"tensor-parallel-size", "use --tensor-parallel"},
    {"pipeline-parallel-size", "there is none; --tensor-parallel shares a model out over GPUs"},
    {"data-parallel-size", "use graft runner once a GPU, and graft frontend before them"},
    {"api-key", "use --api-keys FILE, or --admin-key KEY for what an operator does"},
    {"enable-prefix-caching", "leave it out: --prefix-cache is on"},
    {"block-size", "use --tune page-tokens=N"},
    {"kv-cache-dtype", "leave it out: keys and values are in the weights' dtype, fp16 on a CPU"},
    {"chat-template", "put the template into the model's folder, as chat_template.jinja"},
    {"enable-auto-tool-choice", "leave it out; --tool-parser says how the model writes calls"},
    {"tool-call-parser", "use --tool-parser"},
    {"ssl-certfile", "use --tls-cert"},
    {"ssl-keyfile", "use --tls-key"},
    {"allowed-origins", "use --cors-allow-origin"},
    {"disable-log-requests", "use --request-log false"},
    {"uvicorn-log-level", "use --log-level"},
    {"tokenizer", "leave it out: the model's folder has it"},
    {"trust-remote-code", "leave it out: no code of a model is run"},
    {"download-dir",
     "set HF_HOME or HF_HUB_CACHE: --model ORG/NAME is fetched into the hub's cache"},
    {"revision", "use --model ORG/NAME@REVISION"},
    {"hf-token", "set HF_TOKEN: a flag would show it in the list of processes"},
    {"enforce-eager", "leave it out"},
    {"swap-space",
     "leave it out: a request whose pages another one needed is computed again, not swapped"},
    {"speculative-config", "use --speculate, which foresees tokens from the request's own text"}};

}  // namespace

std::span<const ForeignFlag> VllmFlags() { return kVllmFlags; }

}  // namespace graft
