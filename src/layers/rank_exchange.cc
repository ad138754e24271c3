#include "layers/rank_exchange.h"

#include <algorithm>
#include <cstring>

namespace graft {
namespace {

class HostExchange : public RankExchange {
 public:
  explicit HostExchange(Communicator& communicator) : communicator_(communicator) {}

  int32_t rank() const override { return communicator_.rank(); }
  int32_t num_ranks() const override { return communicator_.num_ranks(); }
  int64_t part_floats() const override { return communicator_.part_floats(); }
  const int32_t* Begin(std::span<const int32_t> tokens, Stream&) override { return tokens.data(); }
  float* part() override { return communicator_.part(); }
  void Sum(int64_t n, bool accumulates, float* sum, Stream& stream) override {
    MustBeWell(communicator_.AllReduce(n, accumulates, sum, *stream.cpu_threads));
  }
  void Gather(int64_t num_rows, int64_t vocab_size, float* out, Stream& stream) override;
  void Skip(int64_t, Stream&) override { MustBeWell(communicator_.Exchange()); }

 private:
  void MustBeWell(const Status& status) const {
    if (!status.ok()) EndRank(rank(), status);
  }

  Communicator& communicator_;
};

void HostExchange::Gather(int64_t num_rows, int64_t vocab_size, float* out, Stream& stream) {
  MustBeWell(communicator_.Exchange());
  if (rank() != 0) return;
  const int64_t words_max = (vocab_size + num_ranks() - 1) / num_ranks();
  stream.cpu_threads->ParallelFor(num_rows, 1, [&](int64_t begin, int64_t end) {
    for (int32_t of = 0; of < num_ranks(); ++of) {
      const int64_t first = of * words_max;
      const int64_t words = std::min(words_max, vocab_size - first);
      const float* const part = communicator_.part_of(of);
      for (int64_t row = begin; row < end; ++row) {
        std::memcpy(out + row * vocab_size + first, part + row * words,
                    static_cast<size_t>(words) * sizeof(float));
      }
    }
  });
}

}  // namespace

std::unique_ptr<RankExchange> MakeHostExchange(Communicator& communicator) {
  return std::make_unique<HostExchange>(communicator);
}

}  // namespace graft
