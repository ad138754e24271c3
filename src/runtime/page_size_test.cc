#include "runtime/page_size.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "model/kv_pool.h"

namespace graft {
namespace {

// Few heads and a wide MLP: a token's KV is much shorter than a row of down_proj's adapter.
ModelConfig WideModel() {
  return *ParseModelConfig(*ParseJson(R"({"architectures": ["LlamaForCausalLM"],
      "model_type": "llama", "hidden_size": 64, "intermediate_size": 8192, "num_hidden_layers": 1,
      "num_attention_heads": 4, "num_key_value_heads": 1, "vocab_size": 100, "rms_norm_eps": 1e-5,
      "max_position_embeddings": 128})"));
}

TEST(PageSizeTest, APageHasRoomForTheLongestRowOfAnAdapter) {
  const ModelConfig config = WideModel();
  const ServedTypes types = {.kv = DType::kF16};
  for (const int32_t asked : {1, 3, 16, 4096}) {
    const int32_t tokens = PageTokens(config, types, asked);
    EXPECT_GE(MakeKvLayout(config, tokens, DType::kF16).PageBytes(), int64_t{8192} * 4) << asked;
    EXPECT_EQ(tokens % asked, 0);
  }
  EXPECT_LT(MakeKvLayout(config, 16, DType::kF16).PageBytes(), int64_t{8192} * 4)
      << "not by chance";
  EXPECT_EQ(PageTokens(config, types, 4096), 4096);
}

}  // namespace
}  // namespace graft
