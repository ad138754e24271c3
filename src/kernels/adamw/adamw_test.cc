#include "kernels/adamw/adamw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/common/op_test_util.h"

namespace graft {
namespace adamw_test {

using testing::Input;
using testing::Output;

// An adapter in memory that every device can read, and what becomes of it in double.
struct State {
  explicit State(int64_t n)
      : start(Input<float>::Normal(n, 9)),
        parameters(start, 0),
        first(Input<float>(n), 0),
        second(Input<float>(n), 0),
        norm(1),
        m(static_cast<size_t>(n)),
        v(static_cast<size_t>(n)) {
    for (int64_t i = 0; i < n; ++i) expected.push_back(start.At(i));
  }

  AdamWItem Item() {
    return {.parameters = parameters.data(),
            .first_moments = first.data(),
            .second_moments = second.data(),
            .n = parameters.size(),
            .norm = norm.data()};
  }

  void Update(const AdamWItem& item, const Input<float>& gradients) {
    double squares = 0.0;
    for (int64_t i = 0; i < item.n; ++i) squares += gradients.At(i) * gradients.At(i);
    EXPECT_NEAR(norm[0], std::sqrt(squares), 1e-9 * std::sqrt(squares));
    const double bound = static_cast<double>(item.norm_max);
    const double clip = bound == 0.0 ? 1.0 : std::min(1.0, bound / (std::sqrt(squares) + 1e-6));
    const double rate = static_cast<double>(item.learning_rate);
    for (size_t i = 0; i < expected.size(); ++i) {
      const double g = gradients.At(static_cast<int64_t>(i)) * clip;
      m[i] = 0.9 * m[i] + 0.1 * g;
      v[i] = 0.999 * v[i] + 0.001 * g * g;
      expected[i] *= 1.0 - rate * static_cast<double>(item.weight_decay);
      expected[i] -= rate * m[i] / (1.0 - std::pow(0.9, item.step)) /
                     (std::sqrt(v[i] / (1.0 - std::pow(0.999, item.step))) + 1e-8);
      ASSERT_NEAR(parameters[static_cast<int64_t>(i)], expected[i], 1e-6);
    }
    EXPECT_TRUE(parameters.GuardsIntact() && first.GuardsIntact() && second.GuardsIntact());
  }

  Input<float> start;
  Output<float> parameters, first, second;
  Output<double> norm;
  std::vector<double> expected, m, v;
};

// Adapters of different sizes, steps, rates and clips, over three updates; more of them than a GPU
// takes in one launch.
TEST(AdamWTest, MatchesReference) {
  testing::ForEachDevice([&](Stream& stream) {
    std::vector<State> states;
    std::vector<AdamWItem> items;
    for (int a = 0; a < 19; ++a) states.emplace_back(a == 1 ? 3001 : 4 + a);
    for (State& state : states) {
      const size_t a = items.size();
      AdamWItem item = state.Item();
      item.learning_rate = a == 0 ? 1e-2f : 1e-3f;
      item.weight_decay = a == 0 ? 0.01f : 0.0f;
      item.norm_max = a == 0 ? 0.0f : 1.0f;
      items.push_back(item);
    }
    const auto num_items = static_cast<int32_t>(items.size());
    Buffer scratch(AdamWScratchDoubles(stream.device, num_items) * int64_t{sizeof(double)},
                   stream.device);
    for (int update = 0; update < 3; ++update) {
      const auto gradients = Input<float>::Normal(3001, 20 + static_cast<uint64_t>(update));
      for (AdamWItem& item : items) {
        item.gradients = gradients.data();
        ++item.step;
      }
      AdamW({items.data(), num_items, scratch.as<double>()}, stream);
      Synchronize(stream);
      for (size_t a = 0; a < items.size(); ++a) states[a].Update(items[a], gradients);
    }
  });
}

}  // namespace adamw_test
}  // namespace graft
