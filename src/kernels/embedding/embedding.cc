#include "kernels/embedding/embedding.h"

#include "base/check.h"
#include "kernels/common/cpu_isa.h"

namespace graft {

GRAFT_OP(Embedding, EmbeddingArgs)

namespace {

void CheckArgs(const EmbeddingArgs& args, const Stream& stream) {
  CHECK_GE(args.num_tokens, 0);
  CHECK_GT(args.n, 0);
  CHECK_GT(args.vocab_size, 0);
  if (args.num_tokens == 0) return;
  CHECK(args.table != nullptr && args.tokens != nullptr && args.out != nullptr);
  CHECK(args.is_slice || args.first_word == 0);
  CHECK(!args.accumulate || !args.is_slice) << "ranks would each add their own";
  if (!stream.device.is_cpu() || args.is_slice) return;
  for (int64_t i = 0; i < args.num_tokens; ++i) {
    CHECK(args.tokens[i] >= 0 && args.tokens[i] < args.vocab_size)
        << "token " << args.tokens[i] << " of row " << i << " is not in a vocabulary of "
        << args.vocab_size;
  }
}

}  // namespace

void Embedding(const EmbeddingArgs& args, Stream& stream) {
  CheckArgs(args, stream);
  EmbeddingOnDevice(args, stream);
}

}  // namespace graft
