#include "layers/attention_layer.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/attention/attention.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rms_norm_backward/rms_norm_backward.h"
#include "kernels/rope_kv_write/rope_kv_write.h"
#include "layers/norm.h"

namespace graft {
namespace {

constexpr double kForwardEffort = 5.0, kBackwardEffort = 20.0;

}  // namespace

AttentionLayer::AttentionLayer(LayerContext& context, int32_t layer, int32_t kv_layer,
                               const LayerSpec& spec, const LayerWeights& weights,
                               const RopeAngles& rope)
    : context_(context),
      kv_layer_(kv_layer),
      spec_(spec),
      weights_(weights),
      rope_(rope),
      qkv_(context, layer, LayerProduct::kQkv, weights.qkv, weights.qkv_bias),
      o_(context, layer, LayerProduct::kO, weights.o, weights.o_bias) {}

void AttentionLayer::Run(const void* x, const ResidualTarget& target, const LayerStep& step,
                         const AttentionKept* kept) const {
  LayerScratch& scratch = context_.scratch;
  qkv_.Run({.x = x, .target = {scratch.qkv.as<float>()}}, step);
  if (spec_.norms_among_ranks(context_.exchanges.has_ranks())) NormAmongRanks(step);
  {
    const StreamTimer::Scope scope = step.Time(&ForwardTimes::attention_ns);
    BeforeAttention(kForwardEffort, step);
    Attend(step, kept);
  }
  o_.Run({.x = kept == nullptr ? scratch.attended.data() : kept->attended, .target = target}, step);
}

DType AttentionLayer::Back(const AttentionBack& back, const LayerStep& step) const {
  BackScratch& room = step.learning->room;
  const DType d_dtype = o_.Back({.d_y = back.d_y, .d_x = room.d_attended.data()}, step);
  o_.AddGradients(back.kept.attended, back.d_y, step);
  BeforeAttention(kBackwardEffort, step);
  AttendBack(back, d_dtype, step);
  return qkv_.Back({.d_y = room.d_qkv.data(), .d_x = back.d_x, .may_round = back.may_round}, step);
}

void AttentionLayer::AddGradients(const void* x, const LayerStep& step) const {
  qkv_.AddGradients(x, step.learning->room.d_qkv.data(), step);
}

void AttentionLayer::BeforeAttention(double effort, const LayerStep& step) const {
  if (step.learning == nullptr) return;
  const int32_t all = step.batch.kv_tokens_max;
  const int32_t seen = spec_.window > 0 ? std::min(spec_.window, all) : all;
  step.learning->pieces.BeforeWork(effort * static_cast<double>(step.num_rows()) *
                                   static_cast<double>(context_.shape.q_size()) * seen);
}

void AttentionLayer::Attend(const LayerStep& step, const AttentionKept* kept) const {
  const bool is_normed = spec_.norms_among_ranks(context_.exchanges.has_ranks());
  if (spec_.qk_norm && spec_.qk_norm_across_heads && !is_normed) NormAcrossHeads(step, kept);
  PlaceKeysAndValues(step, kept);
  AttendPages(step, kept == nullptr ? context_.scratch.attended.data() : kept->attended);
}

void AttentionLayer::AttendBack(const AttentionBack& back, DType d_dtype,
                                const LayerStep& step) const {
  const ModelShape& shape = context_.shape;
  BackScratch& room = step.learning->room;
  const DeviceBatch& batch = step.batch;
  AttentionBackward({.row_begin = batch.row_begin.data(),
                     .num_sequences = static_cast<int32_t>(batch.kv_tokens.size()),
                     .num_heads = shape.num_heads,
                     .num_kv_heads = shape.num_kv_heads,
                     .head_dim = shape.head_dim,
                     .scale = spec_.attention_scale,
                     .score_cap = spec_.score_cap,
                     .window = spec_.window,
                     .dtype = context_.activations,
                     .qkv = back.kept.qkv,
                     .qkv_stride = shape.qkv_size(),
                     .d_out = room.d_attended.data(),
                     .d_dtype = d_dtype,
                     .d_qkv = room.d_qkv.data(),
                     .prefixes = back.prefixes,
                     .scratch = room.attention.as<float>(),
                     .num_rows = static_cast<int32_t>(step.num_rows()),
                     .sequence_rows_max = batch.sequence_rows_max,
                     .prefix_tokens_max = batch.virtual_run_tokens_max,
                     .out = back.kept.attended,
                     .rotary_dim = shape.num_rotary(),
                     .interleaved = shape.rope_interleaved,
                     .positions = batch.positions.data(),
                     .cos = rope_.cos,
                     .back_sin = rope_.back_sin,
                     .query_scale = rope_.query_scale},
                    step.stream);
  AddKvRows(ArgsOf(back.memory, room.d_qkv.data()), step.stream);
  if (spec_.qk_norm) BackThroughNorms(back.kept, step);
}

void AttentionLayer::TakeMemory(const KvMemory& memory, const AttentionKept& kept,
                                const LayerStep& step) const {
  TakeKvRows(ArgsOf(memory, kept.qkv), step.stream);
}

KvRowsArgs AttentionLayer::ArgsOf(const KvMemory& memory, void* qkv) const {
  const ModelShape& shape = context_.shape;
  return {.rows = memory.rows,
          .num_rows = memory.num_rows,
          .token_offset = memory.token_offset,
          .num_kv_heads = shape.num_kv_heads,
          .head_dim = shape.head_dim,
          .rotary_dim = shape.num_rotary(),
          .interleaved = shape.rope_interleaved,
          .cos = rope_.cos,
          .sin = rope_.sin,
          .dtype = context_.activations,
          .keys_values = qkv,
          .stride = shape.qkv_size(),
          .key_column = shape.q_size()};
}

void AttentionLayer::BackThroughNorms(const AttentionKept& kept, const LayerStep& step) const {
  const ModelShape& shape = context_.shape;
  const DType dtype = context_.activations;
  const auto from = [&](void* rows, int64_t column) {
    return static_cast<char*>(rows) + column * DTypeBytes(dtype);
  };
  const auto norm = [&](const Buffer& weight, int64_t column, int64_t columns) {
    void* const d_x = from(step.learning->room.d_qkv.data(), column);
    const int64_t n = spec_.qk_norm_across_heads ? columns : shape.head_dim;
    RmsNormBackward({.x = from(kept.unnormed, column),
                     .x_stride = shape.q_size() + shape.kv_size(),
                     .x_dtype = dtype,
                     .weight = weight.as<float>(),
                     .d_out = d_x,
                     .d_out_stride = shape.qkv_size(),
                     .d_dtype = dtype,
                     .d_x_stride = shape.qkv_size(),
                     .num_rows = step.num_rows(),
                     .num_heads = static_cast<int32_t>(columns / n),
                     .n = n,
                     .epsilon = shape.rms_norm_epsilon,
                     .d_x_copy = d_x},
                    step.stream);
  };
  norm(weights_.q_norm, 0, shape.q_size());
  norm(weights_.k_norm, shape.q_size(), shape.kv_size());
}

const float* AttentionLayer::HeadNormOf(const Buffer& weight) const {
  return spec_.qk_norm_across_heads ? nullptr : weight.as<float>();
}

bool AttentionLayer::CountsKeys() const {
  const int32_t copies = context_.exchanges.num_ranks() / context_.shape.whole_kv_heads;
  return copies <= 1 || context_.exchanges.rank() % copies == 0;
}

// The ranks' sums of squares are summed, and each norms its own columns by the sum of all.
void AttentionLayer::NormAmongRanks(const LayerStep& step) const {
  const ModelShape& shape = context_.shape;
  StepExchanges& exchanges = context_.exchanges;
  struct Columns {
    const Buffer& weight;
    int64_t begin, n;
    int64_t counted;  // of n, by this rank
    int64_t n_whole;
  };
  const Columns both[] = {
      {weights_.q_norm, 0, shape.q_size(), shape.q_size(),
       int64_t{shape.whole_heads} * shape.head_dim},
      {weights_.k_norm, shape.q_size(), shape.kv_size(), CountsKeys() ? shape.kv_size() : 0,
       int64_t{shape.whole_kv_heads} * shape.head_dim}};
  const ResidualTarget squares = {context_.scratch.squares.as<float>()};
  float* const qkv = context_.scratch.qkv.as<float>();
  {
    const StreamTimer::Scope scope = step.Time(&ForwardTimes::ranks_ns);
    float* part = exchanges.PartOf(squares).y;
    for (const Columns& one : both) {
      SumSquares({.x = qkv + one.begin,
                  .x_stride = shape.qkv_size(),
                  .sums = part++,
                  .sums_stride = 2,
                  .num_tokens = step.num_rows(),
                  .n = one.counted},
                 step.stream);
    }
    exchanges.Sum(2 * step.num_rows(), squares, step.stream);
  }
  const StreamTimer::Scope scope = step.Time(&ForwardTimes::attention_ns);
  const float* sums = squares.y;
  for (const Columns& one : both) {
    RmsNorm({.x = qkv + one.begin,
             .x_stride = shape.qkv_size(),
             .weight = one.weight.as<float>(),
             .out = qkv + one.begin,
             .out_stride = shape.qkv_size(),
             .num_tokens = step.num_rows(),
             .n = one.n,
             .epsilon = shape.rms_norm_epsilon,
             .squares = sums++,
             .squares_stride = 2,
             .n_whole = one.n_whole},
            step.stream);
  }
}

void AttentionLayer::NormAcrossHeads(const LayerStep& step, const AttentionKept* kept) const {
  const ModelShape& shape = context_.shape;
  const DType dtype = context_.activations;
  const auto norm = [&](const Buffer& weight, int64_t column, int64_t n) {
    void* const to =
        kept == nullptr ? nullptr : static_cast<char*>(kept->unnormed) + column * DTypeBytes(dtype);
    Norm(weight, n, shape.rms_norm_epsilon)
        .RunInPlace(context_.scratch.qkv.as<float>() + column, shape.qkv_size(), step.num_rows(),
                    step.stream, to, dtype, shape.q_size() + shape.kv_size());
  };
  norm(weights_.q_norm, 0, shape.q_size());
  norm(weights_.k_norm, shape.q_size(), shape.kv_size());
}

void AttentionLayer::PlaceKeysAndValues(const LayerStep& step, const AttentionKept* kept) const {
  const ModelShape& shape = context_.shape;
  const bool norms = spec_.qk_norm && !spec_.qk_norm_across_heads;
  RopeKvWrite({.qkv = context_.scratch.qkv.as<float>(),
               .row_stride = shape.qkv_size(),
               .num_rows = static_cast<int32_t>(step.num_rows()),
               .num_q_heads = shape.num_heads,
               .q_norm_weight = HeadNormOf(weights_.q_norm),
               .k_norm_weight = HeadNormOf(weights_.k_norm),
               .norm_epsilon = shape.rms_norm_epsilon,
               .positions = step.batch.positions.data(),
               .rotary_dim = shape.num_rotary(),
               .interleaved = shape.rope_interleaved,
               .cos = rope_.cos,
               .sin = rope_.sin,
               .query_scale = rope_.query_scale,
               .layout = context_.layout,
               .layer = kv_layer_,
               .pool = context_.pool,
               .row_page = step.batch.row_page.data(),
               .row_slot = step.batch.row_slot.data(),
               .copy = kept == nullptr ? nullptr : kept->qkv,
               .unnormed = kept == nullptr || !norms ? nullptr : kept->unnormed},
              step.stream);
}

void AttentionLayer::AttendPages(const LayerStep& step, void* out) const {
  const DeviceBatch& batch = step.batch;
  const DeviceBatch::Splits& splits = spec_.window > 0 ? batch.window_splits : batch.full_splits;
  Attention({.layout = context_.layout,
             .layer = kv_layer_,
             .pool = context_.pool,
             .pages = batch.pages.data(),
             .page_begin = batch.page_begin.data(),
             .row_begin = batch.row_begin.data(),
             .kv_tokens = batch.kv_tokens.data(),
             .num_sequences = static_cast<int32_t>(batch.kv_tokens.size()),
             .num_heads = context_.shape.num_heads,
             .q = context_.scratch.qkv.as<float>(),
             .q_stride = context_.shape.qkv_size(),
             .out = out,
             .out_dtype = context_.activations,
             .scale = spec_.attention_scale,
             .score_cap = spec_.score_cap,
             .window = spec_.window,
             .num_given = batch.num_given,
             .splits = splits.splits,
             .num_splits = splits.count,
             .rows_max = static_cast<int32_t>(step.num_rows()),
             .sequence_rows_max = batch.sequence_rows_max,
             .kv_tokens_max = batch.kv_tokens_max,
             .scratch = context_.scratch.attention.as<float>(),
             .next_starts_late = step.layer_plan().attention_holds_next},
            step.stream);
}

}  // namespace graft
