// Checks of the ops that look at one row alone: embedding, norm, activation, rotation, sampling.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "doctor/op_check.h"
#include "doctor/op_operands.h"
#include "kernels/embedding/embedding.h"
#include "kernels/gated_activation/gated_activation.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rope_kv_write/rope_kv_write.h"
#include "kernels/sampling/sampling.h"

namespace graft {
namespace {

// Silu's and GELU's curves do not rise faster than their argument by more than this.
constexpr double kActivationSlopeMax = 1.2;

double ActivationOf(Activation activation, double x) {
  if (activation == Activation::kSilu) return x / (1.0 + std::exp(-x));
  const double u = std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x);
  return x / (1.0 + std::exp(-2.0 * u));
}

void CompareActivation(Activation activation, DType dtype, Stream& stream, Comparison* found) {
  constexpr int64_t kRows = 5, kN = 168;
  const std::vector<float> gate_up = DrawNumbers(kRows * 2 * kN, 5, DType::kF32, 2.0);
  const Buffer device_gate_up = NumbersOnDevice(gate_up, DType::kF32, stream);
  const DType out_dtype = ActivationsBeside(dtype, stream);
  Buffer out(kRows * kN * DTypeBytes(out_dtype), stream.device);
  GatedActivation({.activation = activation,
                   .gate_up = device_gate_up.as<float>(),
                   .out = out.data(),
                   .out_dtype = out_dtype,
                   .num_tokens = kRows,
                   .n = kN},
                  stream);
  const std::vector<float> actual = NumbersFrom(out, out_dtype, kRows * kN, stream);
  for (int64_t i = 0; i < kRows * kN; ++i) {
    const int64_t at = i / kN * 2 * kN + i % kN;
    const double gate = gate_up[at], up = gate_up[at + kN];
    found->Expect(activation == Activation::kSilu ? "silu" : "gelu", i, actual[i],
                  ActivationOf(activation, gate) * up, kActivationSlopeMax * std::fabs(gate * up));
  }
}

}  // namespace

Comparison CheckEmbedding(DType dtype, Stream& stream) {
  constexpr int32_t kWords = 50;
  constexpr int64_t kN = 96;
  const std::vector<float> table = DrawNumbers(kWords * kN, 1, dtype);
  const std::vector<int32_t> tokens = {49, 0, 7, 7, 23};
  const auto num_tokens = static_cast<int64_t>(tokens.size());
  const Buffer device_table = NumbersOnDevice(table, dtype, stream);
  const Buffer device_tokens = OnDevice(tokens, stream);
  Buffer out(num_tokens * kN * 4, stream.device);
  Embedding({.table = device_table.data(),
             .dtype = dtype,
             .vocab_size = kWords,
             .tokens = device_tokens.as<int32_t>(),
             .out = out.as<float>(),
             .num_tokens = num_tokens,
             .n = kN},
            stream);
  const std::vector<float> actual = NumbersFrom(out, DType::kF32, num_tokens * kN, stream);
  Comparison found(0.0);
  for (int64_t i = 0; i < num_tokens * kN; ++i) {
    const double expected = table[tokens[i / kN] * kN + i % kN];
    found.Expect("element", i, actual[i], expected, 0.0);
  }
  return found;
}

Comparison CheckRmsNorm(DType dtype, Stream& stream) {
  constexpr int64_t kRows = 5, kN = 328;
  constexpr float kEpsilon = 1e-5f;
  const std::vector<float> x = DrawNumbers(kRows * kN, 2, DType::kF32, 3.0);
  const std::vector<float> weight = DrawNumbers(kN, 3, DType::kF32);
  const Buffer device_x = NumbersOnDevice(x, DType::kF32, stream);
  const Buffer device_weight = NumbersOnDevice(weight, DType::kF32, stream);
  const DType out_dtype = ActivationsBeside(dtype, stream);
  Buffer out(kRows * kN * DTypeBytes(out_dtype), stream.device);
  RmsNorm({.x = device_x.as<float>(),
           .x_stride = kN,
           .weight = device_weight.as<float>(),
           .out = out.data(),
           .out_stride = kN,
           .out_dtype = out_dtype,
           .num_tokens = kRows,
           .n = kN,
           .epsilon = kEpsilon},
          stream);
  const std::vector<float> actual = NumbersFrom(out, out_dtype, kRows * kN, stream);
  Comparison found(ToleranceOf(out_dtype));
  for (int64_t row = 0; row < kRows; ++row) {
    double squares = 0.0;
    for (int64_t i = row * kN; i < (row + 1) * kN; ++i) squares += double{x[i]} * x[i];
    const double factor = 1.0 / std::sqrt(squares / kN + kEpsilon);
    for (int64_t i = row * kN; i < (row + 1) * kN; ++i) {
      const double expected = x[i] * factor * weight[i % kN];
      found.Expect("element", i, actual[i], expected, std::fabs(expected));
    }
  }
  return found;
}

Comparison CheckGatedActivation(DType dtype, Stream& stream) {
  Comparison found(ToleranceOf(ActivationsBeside(dtype, stream)));
  CompareActivation(Activation::kSilu, dtype, stream, &found);
  CompareActivation(Activation::kGeluTanh, dtype, stream, &found);
  return found;
}

Comparison CheckRopeKvWrite(DType dtype, Stream& stream) {
  constexpr int32_t kRows = 3, kQHeads = 4, kKvHeads = 2, kHeadDim = 64, kPages = 2, kHalf = 32;
  constexpr int64_t kHeads = kQHeads + 2 * kKvHeads, kRow = kHeads * kHeadDim;
  const KvLayout layout{.num_layers = 1,
                        .num_kv_heads = kKvHeads,
                        .head_dim = kHeadDim,
                        .page_tokens = 16,
                        .dtype = KvBeside(dtype, stream)};
  const std::vector<int32_t> positions = {0, 5, 19}, page = {1, 1, 0}, slot = {0, 5, 3};
  std::vector<float> cos, sin;
  for (int32_t position = 0; position < 20; ++position) {
    for (int32_t i = 0; i < kHalf; ++i) {
      const double angle = position * std::pow(10000.0, -static_cast<double>(i) / kHalf);
      cos.push_back(static_cast<float>(std::cos(angle)));
      sin.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  const std::vector<float> before = DrawNumbers(kRows * kRow, 4, DType::kF32);
  Buffer qkv = NumbersOnDevice(before, DType::kF32, stream);
  Buffer pool(kPages * layout.PageBytes(), stream.device);
  const Buffer device_positions = OnDevice(positions, stream);
  const Buffer device_page = OnDevice(page, stream), device_slot = OnDevice(slot, stream);
  const Buffer device_cos = NumbersOnDevice(cos, DType::kF32, stream);
  const Buffer device_sin = NumbersOnDevice(sin, DType::kF32, stream);
  RopeKvWrite({.qkv = qkv.as<float>(),
               .row_stride = kRow,
               .num_rows = kRows,
               .num_q_heads = kQHeads,
               .positions = device_positions.as<int32_t>(),
               .rotary_dim = kHeadDim,
               .cos = device_cos.as<float>(),
               .sin = device_sin.as<float>(),
               .layout = layout,
               .pool = pool.data(),
               .row_page = device_page.as<int32_t>(),
               .row_slot = device_slot.as<int32_t>()},
              stream);
  const std::vector<float> queries = NumbersFrom(qkv, DType::kF32, kRows * kRow, stream);
  const std::vector<float> pages =
      NumbersFrom(pool, layout.dtype, kPages * layout.PageElements(), stream);
  Comparison found(ToleranceOf(layout.dtype));
  for (int64_t i = 0; i < kRows * kRow; ++i) {
    const int64_t row = i / kRow, head = i % kRow / kHeadDim, dim = i % kHeadDim;
    const bool is_value = head >= kQHeads + kKvHeads;
    const int64_t angle = positions[row] * kHalf + dim % kHalf;
    const double x = before[i], other = before[dim < kHalf ? i + kHalf : i - kHalf];
    const double turned = x * cos[angle] + (dim < kHalf ? -other : other) * sin[angle];
    if (head < kQHeads) {
      found.Expect("query", i, queries[i], turned, std::fabs(x) + std::fabs(other));
      continue;
    }
    const int64_t kv_head = (head - kQHeads) % kKvHeads;
    const int64_t at = layout.KeyOffset(page[row], 0, static_cast<int32_t>(kv_head), slot[row]) +
                       (is_value ? layout.KeyElements() : 0) + dim;
    found.Expect(is_value ? "value" : "key", i, pages[at], is_value ? x : turned,
                 std::fabs(x) + (is_value ? 0.0 : std::fabs(other)));
  }
  return found;
}

// The likeliest token with its log-probability, and a draw that a mask leaves one choice.
Comparison CheckSampling(DType /*dtype*/, Stream& stream) {
  constexpr int32_t kRows = 3, kWords = 1000, kAllowed = 517;
  const std::vector<float> logits = DrawNumbers(kRows * kWords, 6, DType::kF32, 4.0);
  std::vector<uint32_t> mask((kWords + 31) / 32);
  mask[kAllowed / 32] |= 1u << (kAllowed % 32);
  std::vector<SamplingRow> rows(kRows);
  for (SamplingRow& row : rows) row.num_logprobs = 0;
  rows[2].temperature = 0.8f;
  rows[2].mask = mask.data();
  const Buffer device_logits = NumbersOnDevice(logits, DType::kF32, stream);
  SamplingScratch scratch(kRows, kWords, stream.device);
  const PinnedBuffer out(int64_t{kRows} * int64_t{sizeof(SampledToken)}, stream.device);
  std::uninitialized_default_construct_n(out.as<SampledToken>(), kRows);
  Sample({.logits = device_logits.as<float>(),
          .vocab_size = kWords,
          .rows = rows.data(),
          .out = out.as<SampledToken>(),
          .num_rows = kRows,
          .scratch = &scratch},
         stream);
  Synchronize(stream);
  Comparison found(ToleranceOf(DType::kF32));
  for (int64_t row = 0; row < kRows; ++row) {
    const float* begin = logits.data() + row * kWords;
    const auto likeliest = std::max_element(begin, begin + kWords) - begin;
    const int64_t token = row == 2 ? kAllowed : likeliest;
    const double peak = begin[likeliest];
    const double sum = std::accumulate(begin, begin + kWords, 0.0, [&](double so_far, float logit) {
      return so_far + std::exp(logit - peak);
    });
    const SampledToken& drawn = out.as<SampledToken>()[row];
    found.Expect("token of row", row, drawn.token, static_cast<double>(token), 0.0);
    const double logprob = begin[token] - peak - std::log(sum);
    found.Expect("log-probability of row", row, drawn.logprob, logprob,
                 std::fabs(begin[token]) + std::fabs(peak) + 1.0);
  }
  return found;
}

}  // namespace graft
