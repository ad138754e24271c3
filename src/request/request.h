// Waist 1, downwards: what a client wants, as plain data. Made on HTTP threads, owned by the engine
// thread after Submit, and able to cross an RPC border field by field.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/shared_text.h"
#include "base/token_set.h"

namespace graft {

// The frontend that asked, and its own count: unique among all frontends of a cluster.
struct RequestId {
  uint64_t frontend = 0;  // 0: the process that has the engine
  uint64_t number = 0;

  RequestId() = default;
  RequestId(uint64_t own_number) : number(own_number) {}  // NOLINT: implicit by design
  RequestId(uint64_t of_frontend, uint64_t its_number)
      : frontend(of_frontend), number(its_number) {}
  auto operator<=>(const RequestId&) const = default;
};

std::string ToString(const RequestId& id);

// How the next token is drawn. Ranges are checked by ValidateSamplingParams; order of application:
// repetition, frequency and presence penalties, logit_bias, temperature, top_k, top_p, min_p.
struct SamplingParams {
  float temperature = 1.0f;         // >= 0; 0 is greedy
  float top_p = 1.0f;               // (0, 1]
  int32_t top_k = 0;                // 0: off
  float min_p = 0.0f;               // [0, 1]; share of the likeliest token's probability
  uint64_t seed = 0;                // the front end draws one where the client gave none
  float repetition_penalty = 1.0f;  // > 0, over prompt and output (as HF)
  float frequency_penalty = 0.0f;   // [-2, 2], over output tokens
  float presence_penalty = 0.0f;    // [-2, 2], over output tokens
  std::vector<std::pair<int32_t, float>> logit_bias;  // (token id, [-100, 100])
  int32_t num_logprobs = -1;  // -1: none; 0: the chosen token's; k: and the k likeliest (k <= 20)
  bool prompt_logprobs = false;  // also for every prompt token, with num_logprobs alternatives
  int32_t tokens_max = 16;       // output tokens
  int32_t tokens_min = 0;        // EOS and stop ids are not drawn before this many
  std::vector<int32_t> stop_token_ids;
  TokenSet allowed_token_ids;                   // nothing else is drawn; empty: all are
  std::vector<std::vector<int32_t>> bad_words;  // runs of tokens that are not drawn to their end
  bool ignore_eos = false;
};

// An adapter of a request, and how much of it is added.
struct AdapterUse {
  // Content hash, or what AdapterInfo::key() gives before the adapter was first read.
  std::string hash;
  float weight = 1.0f;
};

// Reasoning, which a model writes between two tokens, has an end after so many at the latest: the
// closing token is drawn then, unless the answer's grammar forbids it there.
struct ReasoningBound {
  int32_t tokens_max = -1;  // of an answer; -1: as many as it likes
  int32_t opening = -1;     // tokens
  int32_t closing = -1;
  bool is_open = false;  // the prompt ends within reasoning

  bool is_bound() const { return tokens_max >= 0; }
  bool operator==(const ReasoningBound&) const = default;
};

// What a request wants of its prompt's last hidden states (behind the final norm) as one vector.
enum class Pooling : int32_t { kNone, kLast, kMean };

struct Request {
  RequestId id;
  std::string tenant;  // "" without keys
  // Requests share pages of prompts with those of their tenant that have the same.
  std::string cache_salt;
  // Empty: the base model. Several, or one with a weight other than 1: their weighted sum acts.
  std::vector<AdapterUse> adapters;
  std::vector<int32_t> prompt_tokens;
  // What another engine has drawn for it so far. It goes on as if it had been drawn here: events
  // come for the tokens after it alone, tokens_max and usage count it.
  std::vector<int32_t> output_tokens;
  SamplingParams sampling;
  Pooling pooling = Pooling::kNone;  // else nothing is drawn: tokens_max is 0
  int64_t age_ns = 0;                // since it was accepted, when it is submitted
  // Shares no step with others until it has drawn: it was there whenever its engines died.
  bool runs_alone = false;

  // The adapter acts on the tokens from here on; 0: as its config says, which is on all of them or,
  // of an activated LoRA, from its invocation in the prompt on.
  int32_t activation_position = 0;
  // Tokens that are foreseen in a step, at most; -1: as the engine likes. No token depends on it.
  int32_t draft_tokens_max = -1;
  SharedText grammar;  // what the answer must be of, see grammar/grammar_text.h; "": anything
  ReasoningBound reasoning;

  // The order of requests (docs/fair-shares.md). tenant_weight, above 0, is the tenant's share of
  // the engine. key_id, the first digits of a key's digest, tells its keys apart. Among a key's
  // requests the larger priority goes first.
  float tenant_weight = 1.0f;
  std::string key_id;
  int32_t priority = 0;

  // Where the request came from, for logs; no answer depends on these fields.
  std::string log_id;       // the request's name in the logs of all machines
  std::string traceparent;  // W3C's trace context

  // At most so many adapters, each by a weight of at most this and at least its negative, not 0.
  static constexpr size_t kAdaptersMax = 8;
  static constexpr float kAdapterWeightMax = 100.0f;

  bool adds_adapters() const {
    return adapters.size() > 1 || (adapters.size() == 1 && adapters.front().weight != 1.0f);
  }
  // The hash of the only adapter, or of the first of several; "": the base model.
  std::string adapter_hash() const { return adapters.empty() ? "" : adapters.front().hash; }
  // A word that tells the adapter, or the sum of adapters, from any other; "": the base model.
  std::string adapter_key() const {
    if (!adds_adapters()) return adapter_hash();
    std::string key;
    for (const AdapterUse& use : adapters) {
      key += (key.empty() ? "" : "+") + std::to_string(use.weight) + "*" + use.hash;
    }
    return key;
  }
  // "": the base model.
  void UseAdapter(std::string hash) {
    adapters.clear();
    if (!hash.empty()) adapters.push_back({.hash = std::move(hash)});
  }
};

}  // namespace graft

template <>
struct std::hash<graft::RequestId> {
  size_t operator()(const graft::RequestId& id) const {
    return std::hash<uint64_t>()(id.number ^ (id.frontend * 0x9E3779B97F4A7C15ull));
  }
};
