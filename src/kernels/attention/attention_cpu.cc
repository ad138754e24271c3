// One tile at a time (attention_tile.h): its keys and values are walked in blocks of kBlock
// positions, aligned in the sequence. A block is copied out of its pages once, keys transposed, and
// then serves every query of the tile through one small matrix product for q k^T and one for p v.
//
// A row's result is the same bits in any tile: a score is one accumulator over head_dim ascending;
// a block's maximum and sum go through fixed lanes; the output is one accumulator over positions
// ascending, to which masked positions add zero.
#include "kernels/attention/attention.h"
#include "kernels/attention/attention_tile.h"
#include "kernels/common/simd.h"
#include "kernels/common/unroll.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

constexpr int kLanes = Vec::kLanes;
constexpr int kBlock = 64;
static_assert(kBlock % kLanes == 0);

#if defined(GRAFT_ISA_AVX512)
constexpr int kVecs = 4;  // columns of a register tile; kRows below are its rows
#elif defined(GRAFT_ISA_AVX2)
constexpr int kVecs = 2;
#else
constexpr int kVecs = 4;
#endif
constexpr int kRows = 4;
constexpr int kPrefetchParts = 8;  // of a block, asked for between the steps of the one before

// Products run over steps: one float, or a pair of bf16 in the same four bytes. Steps are kept in
// arrays of float whatever they hold.
struct Scratch {
  alignas(64) float queries[kTileQueries * kAttentionHeadDimMax];  // [query][query_stride]
  alignas(64) float keys[kAttentionHeadDimMax * kBlock];           // [step of head_dim][position]
  alignas(64) float values[kBlock * kAttentionHeadDimMax];  // [step of positions][padded_dim]
  alignas(64) float scores[kTileQueries * kBlock];  // [query][position], then [step of positions]
  alignas(64) float outputs[kTileQueries * kAttentionHeadDimMax];  // [query][padded_dim]
  float maxima[kTileQueries];                                      // of the scores so far
  float sums[kTileQueries];                                        // of exp(score - maximum) so far
  const void* key_rows[2][kBlock];  // where the block lies in the pool, and the next one
};

struct FloatProduct {
  static inline Vec MultiplyAdd(Vec a, Vec b, Vec sum) { return Fma(a, b, sum); }
};

// Float arithmetic for any element type.
template <typename T>
struct FloatMath {
  using Element = T;
  using Product = FloatProduct;
  static constexpr int kTerms = 1;  // elements of one step

  static inline Vec LoadSteps(const T* row, int step, int n) {
    return n < kLanes ? Vec::LoadPartial(row + step, n) : Vec::Load(row + step);
  }
  static inline void StoreSteps(const Vec* values, int step, float* out) {
    values[0].Store(out + step);
  }
  // Values of one position.
  static inline void JoinRows(const T* row, const T*, int dim, float* out) {
    for (int d = 0; d < dim; d += kLanes) LoadSteps(row, d, dim - d).Store(out + d);
  }
};

#if defined(GRAFT_ISA_AVX512)
struct PairProduct {
  static inline Vec MultiplyAdd(Vec a, Vec b, Vec sum) {
    return DotBf16(_mm512_castps_si512(a.v), _mm512_castps_si512(b.v), sum);
  }
};

// Pairs of bf16 by vdpbf16ps: q and p are rounded to bf16, sums are float.
struct PairMath {
  using Element = Bfloat16;
  using Product = PairProduct;
  static constexpr int kTerms = 2;

  static inline Vec LoadSteps(const Bfloat16* row, int step, int n) {
    const float* pairs = reinterpret_cast<const float*>(row) + step;
    return n < kLanes ? Vec::LoadPartial(pairs, n) : Vec::Load(pairs);
  }
  static inline void StoreSteps(const Vec* values, int step, float* out) {
    _mm512_storeu_si512(out + step, NarrowToBf16(values[0], values[1]));
  }
  // Values of an even position in the low halves, of the odd one after it in the high halves.
  static inline void JoinRows(const Bfloat16* even, const Bfloat16* odd, int dim, float* out) {
    const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40,
                                         8, 39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    for (int d = 0; d < dim; d += 2 * kLanes) {
      const int left = dim - d;
      const __mmask32 mask = left < 2 * kLanes ? (1u << left) - 1u : ~0u;
      const __m512i a = _mm512_maskz_loadu_epi16(mask, even + d);
      const __m512i b = _mm512_maskz_loadu_epi16(mask, odd + d);
      _mm512_storeu_si512(out + d, _mm512_permutex2var_epi16(a, low, b));
      if (left > kLanes) {
        _mm512_storeu_si512(out + d + kLanes, _mm512_permutex2var_epi16(a, high, b));
      }
    }
  }
};
#endif

// rows[i] lane j <- rows[j] lane i.
#if defined(GRAFT_ISA_AVX512)
inline void Transpose(Vec* rows) {
  __m512 pairs[16];
  Unroll<8>([&](auto i) {
    pairs[2 * i] = _mm512_unpacklo_ps(rows[2 * i].v, rows[2 * i + 1].v);
    pairs[2 * i + 1] = _mm512_unpackhi_ps(rows[2 * i].v, rows[2 * i + 1].v);
  });
  __m512 quads[16];
  Unroll<4>([&](auto i) {
    Unroll<2>([&](auto half) {
      const __m512d low = _mm512_castps_pd(pairs[4 * i + half]);
      const __m512d high = _mm512_castps_pd(pairs[4 * i + 2 + half]);
      quads[4 * i + 2 * half] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
      quads[4 * i + 2 * half + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
    });
  });
  // quads[4 i + j] holds column j + 4 l of rows 4 i ... 4 i + 3 in its 128-bit lane l.
  Unroll<4>([&](auto j) {
    const __m512 even_01 = _mm512_shuffle_f32x4(quads[j], quads[4 + j], 0x88);
    const __m512 odd_01 = _mm512_shuffle_f32x4(quads[j], quads[4 + j], 0xdd);
    const __m512 even_23 = _mm512_shuffle_f32x4(quads[8 + j], quads[12 + j], 0x88);
    const __m512 odd_23 = _mm512_shuffle_f32x4(quads[8 + j], quads[12 + j], 0xdd);
    rows[j].v = _mm512_shuffle_f32x4(even_01, even_23, 0x88);
    rows[8 + j].v = _mm512_shuffle_f32x4(even_01, even_23, 0xdd);
    rows[4 + j].v = _mm512_shuffle_f32x4(odd_01, odd_23, 0x88);
    rows[12 + j].v = _mm512_shuffle_f32x4(odd_01, odd_23, 0xdd);
  });
}
#elif defined(GRAFT_ISA_AVX2)
inline void Transpose(Vec* rows) {
  __m256 pairs[8];
  Unroll<4>([&](auto i) {
    pairs[2 * i] = _mm256_unpacklo_ps(rows[2 * i].v, rows[2 * i + 1].v);
    pairs[2 * i + 1] = _mm256_unpackhi_ps(rows[2 * i].v, rows[2 * i + 1].v);
  });
  __m256 quads[8];
  Unroll<2>([&](auto i) {
    Unroll<2>([&](auto half) {
      const __m256d low = _mm256_castps_pd(pairs[4 * i + half]);
      const __m256d high = _mm256_castps_pd(pairs[4 * i + 2 + half]);
      quads[4 * i + 2 * half] = _mm256_castpd_ps(_mm256_unpacklo_pd(low, high));
      quads[4 * i + 2 * half + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(low, high));
    });
  });
  Unroll<4>([&](auto j) {
    rows[j].v = _mm256_permute2f128_ps(quads[j], quads[4 + j], 0x20);
    rows[4 + j].v = _mm256_permute2f128_ps(quads[j], quads[4 + j], 0x31);
  });
}
#else
inline void Transpose(Vec*) {}  // one lane
#endif

// Assembly, because gcc 12 takes a loop of __builtin_prefetch alone for one without effect and
// removes it.
inline void Prefetch(const char* p) {
#if defined(__x86_64__)
  asm volatile("prefetcht0 (%0)" : : "r"(p));
#else
  __builtin_prefetch(p);
#endif
}

// The positions of a block that any query of the tile sees: [begin, end) of [0, kBlock).
struct Span {
  int begin;
  int end;
};

// c (+)= a b with a [kRowCount, num_steps], b [num_steps, kVecCount * kLanes] in registers.
template <typename Product, bool kAdd, int kRowCount, int kVecCount>
inline void MultiplyRegisters(const float* a, int a_stride, const float* b, int b_stride,
                              int num_steps, float* c, int c_stride) {
  Vec sums[kRowCount][kVecCount];
  Unroll<kRowCount>([&](auto r) {
    Unroll<kVecCount>([&](auto v) {
      sums[r][v] = kAdd ? Vec::Load(c + r * c_stride + v * kLanes) : Vec::Zero();
    });
  });
  for (int step = 0; step < num_steps; ++step) {
    Vec columns[kVecCount];
    Unroll<kVecCount>([&](auto v) { columns[v] = Vec::Load(b + step * b_stride + v * kLanes); });
    Unroll<kRowCount>([&](auto r) {
      const Vec row = Vec::Set(a[r * a_stride + step]);
      Unroll<kVecCount>(
          [&](auto v) { sums[r][v] = Product::MultiplyAdd(row, columns[v], sums[r][v]); });
    });
  }
  Unroll<kRowCount>([&](auto r) {
    Unroll<kVecCount>([&](auto v) { sums[r][v].Store(c + r * c_stride + v * kLanes); });
  });
}

// One strip of kVecCount vectors for all rows.
template <typename Product, bool kAdd, int kVecCount>
void MultiplyStrip(const float* a, int a_stride, int num_rows, const float* b, int b_stride,
                   int num_steps, float* c, int c_stride) {
  int row = 0;
  for (; row + kRows <= num_rows; row += kRows) {
    MultiplyRegisters<Product, kAdd, kRows, kVecCount>(a + row * a_stride, a_stride, b, b_stride,
                                                       num_steps, c + row * c_stride, c_stride);
  }
  for (; row < num_rows; ++row) {
    MultiplyRegisters<Product, kAdd, 1, kVecCount>(a + row * a_stride, a_stride, b, b_stride,
                                                   num_steps, c + row * c_stride, c_stride);
  }
}

// c (+)= a b over num_vecs vectors of columns.
template <typename Product, bool kAdd>
void Multiply(const float* a, int a_stride, int num_rows, const float* b, int b_stride,
              int num_vecs, int num_steps, float* c, int c_stride) {
  int v = 0;
  for (; v + kVecs <= num_vecs; v += kVecs) {
    MultiplyStrip<Product, kAdd, kVecs>(a, a_stride, num_rows, b + v * kLanes, b_stride, num_steps,
                                        c + v * kLanes, c_stride);
  }
  for (; v < num_vecs; ++v) {
    MultiplyStrip<Product, kAdd, 1>(a, a_stride, num_rows, b + v * kLanes, b_stride, num_steps,
                                    c + v * kLanes, c_stride);
  }
}

// What is constant over a tile.
template <typename Math>
class TileRunner {
  using Element = typename Math::Element;

 public:
  TileRunner(const AttentionArgs& args, const AttentionTile& tile, Scratch& scratch)
      : args_(args),
        tile_(tile),
        scratch_(scratch),
        dim_(args.layout.head_dim),
        dim_steps_(dim_ / Math::kTerms),
        query_stride_((dim_steps_ + kLanes - 1) / kLanes * kLanes),
        padded_dim_((dim_ + kLanes - 1) / kLanes * kLanes),
        num_queries_(tile.num_rows * tile.num_heads) {}

  void Run() {
    const int32_t end = tile_.position + tile_.num_rows;
    const int32_t begin = FirstVisible(tile_.position);
    int32_t block = begin / kBlock * kBlock;
    const auto span_of = [&](int32_t at) {
      return Span{begin > at ? begin - at : 0, end - at < kBlock ? end - at : kBlock};
    };
    Span span = span_of(block);
    FindRows(block, span);
    for (int part = 0; part < kPrefetchParts; ++part) PrefetchPart();
    LoadQueries();
    while (true) {
      rows_ = next_rows_;
      const int32_t next = block + kBlock;
      Span next_span{0, 0};
      if (next < end) {
        next_span = span_of(next);
        FindRows(next, next_span);
        prefetch_part_ = 0;
      }
      AddBlock(block, span);
      if (next >= end) break;
      block = next;
      span = next_span;
    }
    StoreOutputs();
  }

 private:
  // The first position that a row at `position` sees.
  int32_t FirstVisible(int32_t position) const {
    const bool cut = args_.window > 0 && position >= args_.window;
    return cut ? position - args_.window + 1 : 0;
  }

  // Scales the queries, so that scores need not be.
  void LoadQueries() {
    const Vec scale = Vec::Set(args_.scale);
    constexpr int kStepElements = kLanes * Math::kTerms;
    for (int query = 0; query < num_queries_; ++query) {
      const int row = tile_.row_begin + query / tile_.num_heads;
      const int head = tile_.head_begin + query % tile_.num_heads;
      const float* q = args_.q + row * args_.q_stride + int64_t{head} * dim_;
      alignas(64) float padded[kStepElements];
      float* out = scratch_.queries + query * query_stride_;
      for (int i = 0; i < dim_; i += kStepElements) {
        const int left = dim_ - i < kStepElements ? dim_ - i : kStepElements;
        for (int j = 0; j < kStepElements; ++j) padded[j] = j < left ? q[i + j] : 0.0f;
        Vec scaled[Math::kTerms];
        for (int t = 0; t < Math::kTerms; ++t) scaled[t] = Vec::Load(padded + t * kLanes) * scale;
        Math::StoreSteps(scaled, i / Math::kTerms, out);
      }
      for (int i = 0; i < padded_dim_; i += kLanes) {
        Vec::Zero().Store(scratch_.outputs + query * padded_dim_ + i);
      }
      scratch_.maxima[query] = -__builtin_inff();
      scratch_.sums[query] = 0.0f;
    }
  }

  // Finds the block's keys. A visible position stands in for those that no query sees.
  void FindRows(int32_t block, Span span) {
    const KvLayout& layout = args_.layout;
    const int32_t* pages = args_.pages + args_.page_begin[tile_.sequence];
    const Element* pool = static_cast<const Element*>(args_.pool);
    next_rows_ = rows_ == scratch_.key_rows[0] ? scratch_.key_rows[1] : scratch_.key_rows[0];
    int32_t page = (block + span.begin) / layout.page_tokens;
    int32_t slot = (block + span.begin) % layout.page_tokens;
    for (int i = span.begin; i < span.end; ++page, slot = 0) {
      const Element* keys = pool + layout.KeyOffset(pages[page], args_.layer, tile_.kv_head, slot);
      for (; slot < layout.page_tokens && i < span.end; ++slot, ++i) {
        next_rows_[i] = keys;
        keys += dim_;
      }
    }
    for (int i = 0; i < span.begin; ++i) next_rows_[i] = next_rows_[span.begin];
    for (int i = span.end; i < kBlock; ++i) next_rows_[i] = next_rows_[span.begin];
  }

  // Asks for the next part of the block that FindRows found last, keys before values. Pages lie
  // anywhere, so the processor does not see them coming, and all asked for at once would stall it.
  void PrefetchPart() {
    constexpr int kPartRows = 2 * kBlock / kPrefetchParts;
    if (prefetch_part_ == kPrefetchParts) return;
    const bool values = prefetch_part_ >= kPrefetchParts / 2;
    const int64_t offset = values ? args_.layout.KeyElements() : 0;
    const int first = prefetch_part_++ * kPartRows % kBlock;
    for (int i = first; i < first + kPartRows; ++i) {
      const char* begin =
          reinterpret_cast<const char*>(static_cast<const Element*>(next_rows_[i]) + offset);
      for (int byte = 0; byte < dim_ * static_cast<int>(sizeof(Element)); byte += 64) {
        Prefetch(begin + byte);
      }
    }
  }

  void PackKeys(Span span) {
    for (int i = span.begin / kLanes * kLanes; i < span.end; i += kLanes) {
      for (int step = 0; step < dim_steps_; step += kLanes) {
        const int left = dim_steps_ - step < kLanes ? dim_steps_ - step : kLanes;
        Vec tile[kLanes];
        Unroll<kLanes>([&](auto j) {
          tile[j] = Math::LoadSteps(static_cast<const Element*>(rows_[i + j]), step, left);
        });
        Transpose(tile);
        float* out = scratch_.keys + step * kBlock + i;
        if (left == kLanes) {
          Unroll<kLanes>([&](auto j) { tile[j].Store(out + j * kBlock); });
        } else {
          for (int j = 0; j < left; ++j) tile[j].Store(out + j * kBlock);
        }
      }
      if (i % (kBlock / 2) == 0) PrefetchPart();
    }
  }

  void PackValues(Span span) {
    const int64_t key_elements = args_.layout.KeyElements();
    for (int i = span.begin / Math::kTerms; i * Math::kTerms < span.end; ++i) {
      const void* const* rows = rows_ + i * Math::kTerms;
      Math::JoinRows(static_cast<const Element*>(rows[0]) + key_elements,
                     static_cast<const Element*>(rows[Math::kTerms - 1]) + key_elements, dim_,
                     scratch_.values + i * padded_dim_);
      if (i * Math::kTerms == kBlock / 2) PrefetchPart();
    }
  }

  void AddBlock(int32_t block, Span span) {
    PackKeys(span);
    PrefetchPart();
    // Rows that see any of the block: not above the diagonal, not past the window.
    const int32_t first_row = block > tile_.position ? block - tile_.position : 0;
    int32_t end_row = tile_.num_rows;
    if (args_.window > 0) {
      const int64_t in_window = int64_t{block} + span.end + args_.window - 1 - tile_.position;
      if (in_window < end_row) end_row = static_cast<int32_t>(in_window);
    }
    const int first = first_row * tile_.num_heads;
    const int count = (end_row - first_row) * tile_.num_heads;
    const int first_vec = span.begin / kLanes;
    const int end_vec = (span.end + kLanes - 1) / kLanes;
    float* scores = scratch_.scores + first * kBlock;
    Multiply<typename Math::Product, false>(scratch_.queries + first * query_stride_, query_stride_,
                                            count, scratch_.keys + first_vec * kLanes, kBlock,
                                            end_vec - first_vec, dim_steps_,
                                            scores + first_vec * kLanes, kBlock);
    PrefetchPart();
    for (int query = first; query < first + count; ++query) {
      const int32_t position = tile_.position + query / tile_.num_heads;
      const int32_t begin = FirstVisible(position) - block;
      const int32_t end = position + 1 - block;
      Weigh(query, Span{begin > span.begin ? begin : span.begin, end < span.end ? end : span.end});
      if (query == first + count / 2) PrefetchPart();
    }
    PrefetchPart();
    PackValues(span);
    PrefetchPart();
    const int first_step = span.begin / Math::kTerms;
    const int end_step = (span.end + Math::kTerms - 1) / Math::kTerms;
    Multiply<typename Math::Product, true>(scores + first_step, kBlock, count,
                                           scratch_.values + first_step * padded_dim_, padded_dim_,
                                           padded_dim_ / kLanes, end_step - first_step,
                                           scratch_.outputs + first * padded_dim_, padded_dim_);
  }

  // c tanh(s / c) = c - 2 c / (1 + e^(2 s / c)), within a few last places of c: what a weight's
  // exponent cares about.
  void CapScores(float* scores) const {
    const Vec cap = Vec::Set(args_.score_cap);
    const Vec to_exponent = Vec::Set(2.0f / args_.score_cap);
    const Vec one = Vec::Set(1.0f);
    for (int i = 0; i < kBlock; i += kLanes) {
      const Vec exp = Exp(Vec::Load(scores + i) * to_exponent);
      (cap - (cap + cap) / (one + exp)).Store(scores + i);
    }
  }

  // The online softmax: scores of one query become weights exp(score - maximum), zero where masked,
  // and what was summed under a smaller maximum shrinks.
  __attribute__((noinline)) void Weigh(int query, Span visible) {
    float* scores = scratch_.scores + query * kBlock;
    if (args_.score_cap > 0.0f) CapScores(scores);
    for (int i = 0; i < visible.begin; ++i) scores[i] = -__builtin_inff();
    for (int i = visible.end; i < kBlock; ++i) scores[i] = -__builtin_inff();
    const float before = scratch_.maxima[query];
    Vec maximum = Vec::Set(before);
    for (int i = 0; i < kBlock; i += kLanes) maximum = Max(maximum, Vec::Load(scores + i));
    const float after = maximum.Max();
    Vec sum = Vec::Zero();
    for (int i = 0; i < kBlock; i += kLanes * Math::kTerms) {
      Vec weights[Math::kTerms];
      Unroll<Math::kTerms>([&](auto t) {
        weights[t] = ExpOrZero(Vec::Load(scores + i + t * kLanes) - Vec::Set(after));
        sum = sum + weights[t];
      });
      Math::StoreSteps(weights, i / Math::kTerms, scores);
    }
    if (after != before) {
      const Vec shrink = Exp(Vec::Set(before - after));
      scratch_.sums[query] *= shrink.Max();
      float* output = scratch_.outputs + query * padded_dim_;
      for (int d = 0; d < padded_dim_; d += kLanes) {
        (Vec::Load(output + d) * shrink).Store(output + d);
      }
    }
    scratch_.maxima[query] = after;
    scratch_.sums[query] += sum.Sum();
  }

  void StoreOutputs() {
    switch (args_.out_dtype) {
      case DType::kF32:
        return StoreOutputsAs<float>();
      case DType::kBF16:
        return StoreOutputsAs<Bfloat16>();
      case DType::kF16:
        return StoreOutputsAs<Float16>();
    }
  }

  template <typename T>
  void StoreOutputsAs() {
    for (int query = 0; query < num_queries_; ++query) {
      const int64_t row = tile_.row_begin + query / tile_.num_heads;
      const int head = tile_.head_begin + query % tile_.num_heads;
      T* out = static_cast<T*>(args_.out) + (row * args_.num_heads + head) * dim_;
      const float* output = scratch_.outputs + query * padded_dim_;
      const Vec inverse = Vec::Set(1.0f / scratch_.sums[query]);
      int d = 0;
      for (; d + kLanes <= dim_; d += kLanes) (Vec::Load(output + d) * inverse).Store(out + d);
      if (d < dim_) (Vec::Load(output + d) * inverse).StorePartial(out + d, dim_ - d);
    }
  }

  const AttentionArgs& args_;
  const AttentionTile& tile_;
  Scratch& scratch_;
  const void** rows_ = nullptr;       // of the block at work
  const void** next_rows_ = nullptr;  // of the one after it
  int prefetch_part_ = 0;             // of the one after it, the next to ask for
  const int dim_;
  const int dim_steps_;
  const int query_stride_;
  const int padded_dim_;
  const int num_queries_;
};

template <typename Math>
void RunTiles(const AttentionArgs& args, Stream& stream) {
  int64_t next = 0;
  const auto work = [&](int) {
    Scratch scratch;
    AttentionTileCursor cursor(args);
    AttentionTile tile;
    while (cursor.Seek(__atomic_fetch_add(&next, 1, __ATOMIC_RELAXED), &tile)) {
      TileRunner<Math>(args, tile, scratch).Run();
    }
  };
  if (AttentionWantsThreads(args)) {
    stream.cpu_threads->Run(work);
  } else {
    work(0);
  }
}

}  // namespace

void Attention(const AttentionArgs& args, Stream& stream) {
  switch (args.layout.dtype) {
    case DType::kF32:
      return RunTiles<FloatMath<float>>(args, stream);
    case DType::kBF16:
#if defined(GRAFT_ISA_AVX512)
      if (CpuHasAvx512Bf16() && args.layout.head_dim % 2 == 0) {
        return RunTiles<PairMath>(args, stream);
      }
#endif
      return RunTiles<FloatMath<Bfloat16>>(args, stream);
    case DType::kF16:
      return RunTiles<FloatMath<Float16>>(args, stream);
  }
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
