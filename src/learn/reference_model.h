// A transformer in doubles, forward only and as plain as its formulas: what gradients of training
// are compared with, by central differences. Reads the folder of a model with projections that
// lie apart. It knows both norms, MLPs with a gate and without one, layers in parallel, windows,
// biases, and positions that turn heads (in part, too), scale queries or are learned. For tests
// only.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "learn/test_model.h"
#include "model/family.h"

namespace graft::testing {

using Row = std::vector<double>;
using Rows = std::vector<Row>;

// LoRA's numbers, in a TrainedLora's order.
struct ReferenceLora {
  TrainedLora* shape = nullptr;  // places, rank and scale
  std::vector<double> numbers;
};

// What a sequence reads, besides its own rows.
struct ReferenceContext {
  const ReferenceLora* lora = nullptr;
  const ReferenceLora* second = nullptr;
  // [tokens][layers][2 (k, v)][kv size], as a TrainedPrompt has them.
  std::vector<double> keys_values;
  // Where the keys and values of these rows go, in that order, with keys at the given positions.
  struct Taken {
    int32_t row = 0;
    int32_t position = 0;
  };
  std::vector<Taken> takes;
  std::vector<double>* taken = nullptr;
};

class ReferenceModel {
 public:
  ReferenceModel(const std::string& dir, const ModelConfig& config)
      : config_(config),
        family_(FamilyOf(config.architecture)),
        file_(*SafetensorsFile::Open(dir + "/model.safetensors")) {
    CHECK(!HasFusedProjections(config) && !config.rope_interleaved && !config.scales_embeddings);
    for (const LayerSpec& layer : config.layers) CHECK(!layer.has_branch() && !layer.qk_norm);
  }

  // Rows of the first layer without what positions add.
  Rows Embed(const std::vector<int32_t>& tokens) const {
    Rows rows;
    for (const int32_t token : tokens) rows.push_back(TableRow(family_.paths.embedding, token));
    return rows;
  }

  // The final norm's output for these inputs.
  Rows Forward(Rows rows, const ReferenceContext& context) const {
    if (config_.num_positions > 0) {
      const size_t before = context.keys_values.size() / PrefixColumns();
      for (size_t i = 0; i < rows.size(); ++i) {
        Add(TableRow(family_.paths.positions, static_cast<int32_t>(before + i)), rows[i]);
      }
    }
    for (int32_t layer = 0; layer < config_.num_layers; ++layer) {
      const LayerSpec& spec = config_.layers[static_cast<size_t>(layer)];
      const Rows attended = Attend(layer, context, rows);
      for (size_t i = 0; i < rows.size(); ++i) {
        const Row before = rows[i];
        Add(attended[i], rows[i]);
        Add(Mlp(layer, spec.parallel ? before : rows[i], context), rows[i]);
      }
    }
    for (Row& row : rows) row = Norm(row, std::string(family_.paths.final_norm));
    return rows;
  }

  // The loss as Trainer computes it. The example's rows count from `before`.
  double Loss(const Rows& normed, const TrainingExample& example, int32_t before) const {
    double sum = 0.0;
    const auto k = static_cast<size_t>(example.num_choices);
    const auto& head = config_.tied_embeddings ? family_.paths.embedding : family_.paths.head;
    for (size_t i = 0; i < example.rows.size(); ++i) {
      const Row& row = normed[static_cast<size_t>(example.rows[i] + before)];
      const Row logits = Times(std::string(head), row);
      double total = 0.0;
      for (const double logit : logits) total += std::exp(logit);
      for (size_t j = i * k; j < (i + 1) * k; ++j) {
        const double logit = logits[static_cast<size_t>(example.ids[j])];
        sum += example.probabilities[j] * (std::log(total) - logit);
      }
    }
    return sum / static_cast<double>(example.rows.size());
  }

 private:
  size_t PrefixColumns() const {
    return 2 * static_cast<size_t>(config_.kv_size()) * static_cast<size_t>(config_.num_layers);
  }

  // Empty where the file has no such tensor.
  const Row& Weight(const std::string& name) const {
    const auto [found, is_new] = weights_.try_emplace(name);
    if (is_new && file_.Contains(name)) {
      const TensorView view = *file_.Tensor(name);
      std::vector<float> read(static_cast<size_t>(view.num_elements()));
      ConvertElements(view.dtype, view.data, DType::kF32, read.data(), view.num_elements());
      found->second.assign(read.begin(), read.end());
    }
    return found->second;
  }

  Row TableRow(std::string_view table, int32_t index) const {
    const double* const from = Weight(std::string(table) + ".weight").data() +
                               static_cast<int64_t>(index) * config_.hidden_size;
    return {from, from + config_.hidden_size};
  }

  static void Add(const Row& from, Row& to) {
    for (size_t i = 0; i < from.size(); ++i) to[i] += from[i];
  }

  Row Times(const std::string& module, const Row& x) const {
    const Row& values = Weight(module + ".weight");
    Row y(values.size() / x.size());
    const double* value = values.data();
    for (double& sum : y) {
      for (const double factor : x) sum += *value++ * factor;
    }
    Add(Weight(module + ".bias"), y);
    return y;
  }

  Row Norm(const Row& x, const std::string& module) const {
    const Row& scale = Weight(module + ".weight");
    const auto n = static_cast<double>(x.size());
    double mean = 0.0, squares = 0.0;
    if (config_.norm == NormKind::kLayer) {
      for (const double value : x) mean += value / n;
    }
    for (const double value : x) squares += (value - mean) * (value - mean);
    const double factor = 1.0 / std::sqrt(squares / n + double{config_.rms_norm_epsilon});
    Row y = x;
    for (size_t i = 0; i < y.size(); ++i) y[i] = (y[i] - mean) * factor * scale[i];
    Add(Weight(module + ".bias"), y);
    return y;
  }

  Row LayerNormOf(int32_t layer, std::string_view norm, const Row& x) const {
    return Norm(
        x, std::string(family_.paths.layers) + std::to_string(layer) + "." + std::string(norm));
  }

  Row Project(int32_t layer, LoraModule module, const Row& x,
              const ReferenceContext& context) const {
    Row y = Times(LoraModulePath(config_, layer, module), x);
    for (const ReferenceLora* lora : {context.lora, context.second}) {
      if (lora == nullptr) continue;
      const TrainedLora::Place a = lora->shape->place(layer, module, LoraSide::kA);
      const TrainedLora::Place b = lora->shape->place(layer, module, LoraSide::kB);
      for (int32_t j = 0; j < lora->shape->rank(); ++j) {
        double h = 0.0;
        for (int64_t i = 0; i < a.n; ++i) {
          h +=
              lora->numbers[static_cast<size_t>(a.begin + j * a.n + i)] * x[static_cast<size_t>(i)];
        }
        for (int64_t o = 0; o < b.n; ++o) {
          y[static_cast<size_t>(o)] += double{lora->shape->scale()} * h *
                                       lora->numbers[static_cast<size_t>(b.begin + j * b.n + o)];
        }
      }
    }
    return y;
  }

  static double Activated(Activation activation, double x) {
    switch (activation) {
      case Activation::kSilu:
        return x / (1.0 + std::exp(-x));
      case Activation::kGeluTanh:
        return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
      case Activation::kGelu:
        return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
      case Activation::kRelu:
        return std::max(x, 0.0);
    }
    return 0.0;
  }

  // The module before the last two, or the last but one, and the last one.
  Row Mlp(int32_t layer, const Row& x, const ReferenceContext& context) const {
    const LayerSpec& spec = config_.layers[static_cast<size_t>(layer)];
    const std::string_view norm = spec.shares_norm ? family_.norms.attention : family_.norms.mlp;
    const Row normed = LayerNormOf(layer, norm, x);
    const auto module = [](int i) { return static_cast<LoraModule>(i); };
    const int first = static_cast<int>(LoraModule::kGate);
    Row middle = Project(layer, module(first), normed, context);
    for (double& value : middle) value = Activated(spec.activation, value);
    if (!config_.gated_mlp) return Project(layer, module(first + 1), middle, context);
    const Row up = Project(layer, module(first + 1), normed, context);
    for (size_t i = 0; i < up.size(); ++i) middle[i] *= up[i];
    return Project(layer, module(first + 2), middle, context);
  }

  void Turn(const RopeConfig& rope, Row& heads, int64_t position) const {
    if (rope.scaling == RopeScaling::kNoRotation) return;
    const auto dim = static_cast<size_t>(config_.head_dim);
    const auto turned = static_cast<size_t>(config_.num_rotary());
    for (size_t head = 0; head < heads.size(); head += dim) {
      for (size_t i = 0; i < turned / 2; ++i) {
        const double angle =
            static_cast<double>(position) *
            std::pow(rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(turned));
        const double x = heads[head + i], y = heads[head + i + turned / 2];
        heads[head + i] = x * std::cos(angle) - y * std::sin(angle);
        heads[head + i + turned / 2] = y * std::cos(angle) + x * std::sin(angle);
      }
    }
  }

  static void ScaleQuery(const RopeConfig& rope, Row& query, size_t position) {
    if (rope.query_beta == 0.0) return;
    const size_t stretches = position / static_cast<size_t>(rope.original_tokens);
    const double scale = 1.0 + rope.query_beta * std::log(1.0 + static_cast<double>(stretches));
    for (double& value : query) value *= scale;
  }

  // What a query's head sees of these keys and values, the last of which are its own.
  void AttendHead(const LayerSpec& spec, const double* query, const Rows& keys, const Rows& values,
                  size_t of, double* out) const {
    const auto dim = static_cast<size_t>(config_.head_dim);
    const auto window = static_cast<size_t>(spec.window);
    const size_t first = window > 0 && keys.size() > window ? keys.size() - window : 0;
    Row weights(keys.size());
    double total = 0.0;
    for (size_t s = first; s < keys.size(); ++s) {
      double score = 0.0;
      for (size_t i = 0; i < dim; ++i) score += query[i] * keys[s][of + i];
      weights[s] = std::exp(score * double{spec.attention_scale});
      total += weights[s];
    }
    for (size_t s = first; s < keys.size(); ++s) {
      for (size_t i = 0; i < dim; ++i) out[i] += weights[s] / total * values[s][of + i];
    }
  }

  // Keeps a row's key, as it is before its turn, and its value.
  void Take(int32_t layer, const ReferenceContext& context, int32_t row, const RopeConfig& rope,
            Row key, const Row& value) const {
    if (context.taken == nullptr) return;
    context.taken->resize(context.takes.size() * PrefixColumns());
    for (size_t i = 0; i < context.takes.size(); ++i) {
      if (context.takes[i].row != row) continue;
      Row turned = key;
      Turn(rope, turned, context.takes[i].position);
      double* to =
          context.taken->data() + i * PrefixColumns() + 2 * key.size() * static_cast<size_t>(layer);
      std::copy(turned.begin(), turned.end(), to);
      std::copy(value.begin(), value.end(), to + key.size());
    }
  }

  // What attention adds to each row.
  Rows Attend(int32_t layer, const ReferenceContext& context, const Rows& rows) const {
    const LayerSpec& spec = config_.layers[static_cast<size_t>(layer)];
    const RopeConfig& rope = config_.ropes[static_cast<size_t>(spec.rope)];
    const auto dim = static_cast<size_t>(config_.head_dim);
    const auto kv_size = static_cast<size_t>(config_.kv_size());
    Rows keys, values, added;
    for (size_t at = 0; at < context.keys_values.size(); at += PrefixColumns()) {
      const double* row =
          context.keys_values.data() + at + 2 * kv_size * static_cast<size_t>(layer);
      keys.emplace_back(row, row + kv_size);
      values.emplace_back(row + kv_size, row + 2 * kv_size);
    }
    for (const Row& row : rows) {
      const Row normed = LayerNormOf(layer, family_.norms.attention, row);
      Row query = Project(layer, LoraModule::kQ, normed, context);
      keys.push_back(Project(layer, LoraModule::kK, normed, context));
      values.push_back(Project(layer, LoraModule::kV, normed, context));
      Take(layer, context, static_cast<int32_t>(added.size()), rope, keys.back(), values.back());
      Turn(rope, query, std::ssize(keys) - 1);
      ScaleQuery(rope, query, keys.size() - 1);
      Turn(rope, keys.back(), std::ssize(keys) - 1);
      const size_t group = query.size() / kv_size;
      Row out(query.size());
      for (size_t head = 0; head < query.size() / dim; ++head) {
        AttendHead(spec, query.data() + head * dim, keys, values, head / group * dim,
                   out.data() + head * dim);
      }
      added.push_back(Project(layer, LoraModule::kO, out, context));
    }
    return added;
  }

  const ModelConfig config_;
  const ModelFamily& family_;
  const SafetensorsFile file_;
  mutable std::map<std::string, Row> weights_;  // those needed so far
};

// The largest difference of a gradient from central differences of `loss`, divided by the largest
// of these. `loss` depends on `numbers`, of which every `stride`th is moved.
inline double WorstDifference(std::span<const float> gradient, std::vector<double>& numbers,
                              size_t stride, const std::function<double()>& loss) {
  double largest = 0.0, error = 0.0;
  for (size_t i = 0; i < numbers.size(); i += stride) {
    const double at = numbers[i];
    numbers[i] = at + 1e-5;
    const double above = loss();
    numbers[i] = at - 1e-5;
    const double below = loss();
    numbers[i] = at;
    const double expected = (above - below) / 2e-5;
    largest = std::max(largest, std::fabs(expected));
    error = std::max(error, std::fabs(expected - double{gradient[i]}));
  }
  return error / largest;
}

}  // namespace graft::testing
