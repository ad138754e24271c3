#include "kernels/token_loss/token_loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/common/test_util.h"

namespace graft {
namespace token_loss_test {

using testing::Input;
using testing::Output;

// One token, and three whose probabilities leave some to others.
TEST(TokenLossTest, MatchesReference) {
  ThreadPool threads(2);
  Stream stream{.device = {}, .cpu_threads = &threads};
  for (const int64_t vocab : {3, 17, 1000}) {
    for (const int32_t num_choices : {1, 3}) {
      constexpr int64_t kRows = 21;
      const auto logits = Input<float>::Normal(kRows * vocab, 1, 0, 3.0);
      std::vector<int32_t> ids;
      std::vector<float> probabilities, weights;
      for (int32_t row = 0; row < kRows; ++row) {
        for (int32_t k = 0; k < num_choices; ++k) {
          ids.push_back(static_cast<int32_t>((row * 7 + k) % vocab));
          probabilities.push_back(num_choices == 1 ? 1.0f : 0.5f / static_cast<float>(1 + k));
        }
        weights.push_back(0.25f * static_cast<float>(row % 4));
      }
      Output<float> gradients(logits, 0);
      std::vector<double> losses(kRows);
      TokenLoss({gradients.data(), kRows, vocab, num_choices, ids.data(), probabilities.data(),
                 weights.data(), losses.data()},
                stream);
      EXPECT_TRUE(gradients.GuardsIntact());
      for (int64_t row = 0; row < kRows; ++row) {
        double sum = 0.0;
        for (int64_t i = 0; i < vocab; ++i) sum += std::exp(logits.At(row * vocab + i));
        std::vector<double> wanted(static_cast<size_t>(vocab));
        double loss = 0.0, probability = 0.0;
        for (int32_t k = 0; k < num_choices; ++k) {
          const auto at = static_cast<size_t>(row * num_choices + k);
          const auto p = static_cast<double>(probabilities[at]);
          wanted[static_cast<size_t>(ids[at])] += p;
          probability += p;
          loss += p * (std::log(sum) - logits.At(row * vocab + ids[at]));
        }
        EXPECT_NEAR(losses[static_cast<size_t>(row)], loss, 1e-5);
        for (int64_t i = 0; i < vocab; ++i) {
          const double softmax = std::exp(logits.At(row * vocab + i)) / sum;
          ASSERT_NEAR(gradients[row * vocab + i],
                      static_cast<double>(weights[static_cast<size_t>(row)]) *
                          (probability * softmax - wanted[static_cast<size_t>(i)]),
                      1e-6);
        }
      }
    }
  }
}

}  // namespace token_loss_test
}  // namespace graft
