#include "kernels/adamw/adamw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/common/test_util.h"

namespace graft {
namespace adamw_test {

using testing::Input;

// Two adapters of different sizes, steps, rates and clips, over three updates.
TEST(AdamWTest, MatchesReference) {
  ThreadPool threads(2);
  Stream stream{.device = {}, .cpu_threads = &threads};
  struct State {
    std::vector<float> parameters, first, second;
    std::vector<double> expected, m, v;
  };
  const int64_t sizes[] = {5, 3001};
  State states[2];
  double norms[2] = {};
  AdamWItem items[2];
  for (int a = 0; a < 2; ++a) {
    const auto start = Input<float>::Normal(sizes[a], 9);
    State& state = states[a];
    for (int64_t i = 0; i < sizes[a]; ++i) {
      state.parameters.push_back(start[i]);
      state.expected.push_back(start.At(i));
    }
    state.first.resize(state.parameters.size());
    state.second.resize(state.parameters.size());
    state.m.resize(state.parameters.size());
    state.v.resize(state.parameters.size());
    items[a] = {.parameters = state.parameters.data(),
                .first_moments = state.first.data(),
                .second_moments = state.second.data(),
                .n = sizes[a],
                .learning_rate = a == 0 ? 1e-2f : 1e-3f,
                .weight_decay = a == 0 ? 0.01f : 0.0f,
                .norm_max = a == 0 ? 0.0f : 1.0f,
                .norm = &norms[a]};
  }
  for (int update = 0; update < 3; ++update) {
    const auto gradients = Input<float>::Normal(3001, 20 + static_cast<uint64_t>(update));
    for (AdamWItem& item : items) {
      item.gradients = gradients.data();
      ++item.step;
    }
    AdamW({items, 2}, stream);
    for (int a = 0; a < 2; ++a) {
      double squares = 0.0;
      for (int64_t i = 0; i < sizes[a]; ++i) squares += gradients.At(i) * gradients.At(i);
      EXPECT_NEAR(norms[a], std::sqrt(squares), 1e-9 * std::sqrt(squares));
      const double clip = a == 0 ? 1.0 : std::min(1.0, 1.0 / (std::sqrt(squares) + 1e-6));
      const double rate = static_cast<double>(items[a].learning_rate);
      for (size_t i = 0; i < states[a].expected.size(); ++i) {
        const double g = gradients.At(static_cast<int64_t>(i)) * clip;
        double& m = states[a].m[i];
        double& v = states[a].v[i];
        m = 0.9 * m + 0.1 * g;
        v = 0.999 * v + 0.001 * g * g;
        double& p = states[a].expected[i];
        p *= 1.0 - rate * static_cast<double>(items[a].weight_decay);
        p -= rate * m / (1.0 - std::pow(0.9, update + 1)) /
             (std::sqrt(v / (1.0 - std::pow(0.999, update + 1))) + 1e-8);
        ASSERT_NEAR(states[a].parameters[i], p, 1e-6);
      }
    }
  }
}

}  // namespace adamw_test
}  // namespace graft
