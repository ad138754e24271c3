// A Llama in doubles, forward only and as plain as its formulas: what gradients of training are
// compared with, by central differences. Reads an fp32 folder. For tests only.
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "learn/test_model.h"

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
};

class ReferenceModel {
 public:
  ReferenceModel(const std::string& dir, const ModelConfig& config)
      : config_(config), file_(*SafetensorsFile::Open(dir + "/model.safetensors")) {}

  Rows Embed(const std::vector<int32_t>& tokens) const {
    const Row& table = Weight("model.embed_tokens.weight");
    const auto n = static_cast<size_t>(config_.hidden_size);
    Rows rows;
    for (const int32_t token : tokens) {
      const double* from = table.data() + static_cast<size_t>(token) * n;
      rows.emplace_back(from, from + n);
    }
    return rows;
  }

  // The final norm's output for these inputs of the first layer.
  Rows Forward(Rows rows, const ReferenceContext& context) const {
    for (int32_t layer = 0; layer < config_.num_layers; ++layer) {
      const std::string name = "model.layers." + std::to_string(layer) + ".";
      Attend(layer, name, context, rows);
      for (Row& row : rows) {
        const Row normed = Norm(row, name + "post_attention_layernorm.weight");
        Row gate = Project(layer, LoraModule::kGate, name + "mlp.gate_proj", normed, context);
        const Row up = Project(layer, LoraModule::kUp, name + "mlp.up_proj", normed, context);
        for (size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1.0 + std::exp(-gate[i]));
        Add(Project(layer, LoraModule::kDown, name + "mlp.down_proj", gate, context), row);
      }
    }
    for (Row& row : rows) row = Norm(row, "model.norm.weight");
    return rows;
  }

  // The loss as Trainer computes it. The example's rows count from `before`.
  double Loss(const Rows& normed, const TrainingExample& example, int32_t before) const {
    double sum = 0.0;
    const auto k = static_cast<size_t>(example.num_choices);
    for (size_t i = 0; i < example.rows.size(); ++i) {
      const Row& row = normed[static_cast<size_t>(example.rows[i] + before)];
      const Row logits = Times("lm_head.weight", row);
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
  const Row& Weight(const std::string& name) const {
    Row& values = weights_[name];
    if (values.empty()) {
      const auto read = GoldenValues<float>(file_, name);
      values.assign(read.begin(), read.end());
    }
    return values;
  }

  static void Add(const Row& from, Row& to) {
    for (size_t i = 0; i < to.size(); ++i) to[i] += from[i];
  }

  Row Times(const std::string& weight, const Row& x) const {
    const Row& values = Weight(weight);
    Row y(values.size() / x.size());
    const double* value = values.data();
    for (double& sum : y) {
      for (const double factor : x) sum += *value++ * factor;
    }
    return y;
  }

  Row Norm(const Row& x, const std::string& weight) const {
    const Row& scale = Weight(weight);
    double squares = 0.0;
    for (const double value : x) squares += value * value;
    const double factor =
        1.0 / std::sqrt(squares / static_cast<double>(x.size()) + double{config_.rms_norm_epsilon});
    Row y = x;
    for (size_t i = 0; i < y.size(); ++i) y[i] *= factor * scale[i];
    return y;
  }

  Row Project(int32_t layer, LoraModule module, const std::string& name, const Row& x,
              const ReferenceContext& context) const {
    Row y = Times(name + ".weight", x);
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

  void Turn(Row& heads, size_t position) const {
    const auto dim = static_cast<size_t>(config_.head_dim);
    for (size_t head = 0; head < heads.size(); head += dim) {
      for (size_t i = 0; i < dim / 2; ++i) {
        const double angle =
            static_cast<double>(position) *
            std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
        const double x = heads[head + i], y = heads[head + i + dim / 2];
        heads[head + i] = x * std::cos(angle) - y * std::sin(angle);
        heads[head + i + dim / 2] = y * std::cos(angle) + x * std::sin(angle);
      }
    }
  }

  void Attend(int32_t layer, const std::string& name, const ReferenceContext& context,
              Rows& rows) const {
    const auto dim = static_cast<size_t>(config_.head_dim);
    const auto kv_size = static_cast<size_t>(config_.kv_size());
    const size_t columns = 2 * kv_size * static_cast<size_t>(config_.num_layers);
    Rows keys, values;
    for (size_t at = 0; at < context.keys_values.size(); at += columns) {
      const double* row =
          context.keys_values.data() + at + 2 * kv_size * static_cast<size_t>(layer);
      keys.emplace_back(row, row + kv_size);
      values.emplace_back(row + kv_size, row + 2 * kv_size);
    }
    for (Row& row : rows) {
      const Row normed = Norm(row, name + "input_layernorm.weight");
      const std::string attention = name + "self_attn.";
      Row query = Project(layer, LoraModule::kQ, attention + "q_proj", normed, context);
      keys.push_back(Project(layer, LoraModule::kK, attention + "k_proj", normed, context));
      values.push_back(Project(layer, LoraModule::kV, attention + "v_proj", normed, context));
      Turn(query, keys.size() - 1);
      Turn(keys.back(), keys.size() - 1);
      const size_t group = query.size() / kv_size;
      Row out(query.size());
      for (size_t head = 0; head < query.size() / dim; ++head) {
        const size_t of = head / group * dim;
        Row weights;
        double total = 0.0;
        for (const Row& key : keys) {
          double score = 0.0;
          for (size_t i = 0; i < dim; ++i) score += query[head * dim + i] * key[of + i];
          weights.push_back(std::exp(score / std::sqrt(static_cast<double>(dim))));
          total += weights.back();
        }
        for (size_t s = 0; s < keys.size(); ++s) {
          for (size_t i = 0; i < dim; ++i) {
            out[head * dim + i] += weights[s] / total * values[s][of + i];
          }
        }
      }
      Add(Project(layer, LoraModule::kO, attention + "o_proj", out, context), row);
    }
  }

  const ModelConfig config_;
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
