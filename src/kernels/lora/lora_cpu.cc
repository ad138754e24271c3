// LoRA shrink and expand: register tiles of rows times rank (shrink) or rows times columns
// (expand), so that a segment of many rows computes from cache; a lone row streams its adapter, a
// few rows of A or B at a time. Each sum has one accumulator in one fixed order, whatever the tile:
// a row's bits do not depend on its batch. docs/inside/kernels.md has the reasons and the figures.
#include "kernels/lora/lora.h"

#include "kernels/common/simd.h"
#include "kernels/common/unroll.h"
#include "kernels/lora/lora_work.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

constexpr int kLineBytes = 64;

// Up to so many rows, a tile of A or B is taken through all rows while it is near; above, rows are
// taken through all of A or B, so that x and y pass once.
constexpr int32_t kLoraFewRows = 64;

// ---- Shrink: dot products along k, lanes along k, one Vec of partial sums per (row, rank). ----

// One step of k as the arithmetic wants it, for each way to multiply.
struct F32Dot {
  using Element = float;
  using XElement = float;
  static constexpr int kLanes = Vec::kLanes;
  struct Operand {
    Vec v;
  };
  static Operand Load(const float* p) { return {Vec::Load(p)}; }
  static Operand LoadPartial(const float* p, int n) { return {Vec::LoadPartial(p, n)}; }
  static Vec Add(Operand a, Operand b, Vec sum) { return Fma(a.v, b.v, sum); }
#if defined(GRAFT_ISA_AVX512)
  static constexpr int kRowsMax = 6;
#else
  static constexpr int kRowsMax = 3;
#endif
};

// Elements 0, 2, 4, ... and 1, 3, 5, ... of 2 * kLanes neighbours.
inline void SplitPairs(const float* p, Vec& even, Vec& odd) {
#if defined(GRAFT_ISA_AVX512)
  const __m512i low = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(1));
  const __m512 first = _mm512_loadu_ps(p);
  const __m512 second = _mm512_loadu_ps(p + 16);
  even.v = _mm512_permutex2var_ps(first, low, second);
  odd.v = _mm512_permutex2var_ps(first, high, second);
#elif defined(GRAFT_ISA_AVX2)
  const __m256 first = _mm256_loadu_ps(p);
  const __m256 second = _mm256_loadu_ps(p + 8);
  const auto in_order = [](__m256 quarters) {  // 0 2 1 3 of them
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(quarters), 0xd8));
  };
  even.v = in_order(_mm256_shuffle_ps(first, second, 0x88));
  odd.v = in_order(_mm256_shuffle_ps(first, second, 0xdd));
#else
  even = Vec::Load(p);
  odd = Vec::Load(p + 1);
#endif
}

// bf16 A widened: even elements, then odd ones. x is bf16 or fp32.
template <typename X>
struct WidenDot {
  using Element = Bfloat16;
  using XElement = X;
  static constexpr int kLanes = 2 * Vec::kLanes;
  struct Operand {
    Vec even, odd;
  };
  static Operand Load(const Bfloat16* p) {
    Operand operand;
    WidenPairs(p, operand.even, operand.odd);
    return operand;
  }
  static Operand Load(const float* p) {
    Operand operand;
    SplitPairs(p, operand.even, operand.odd);
    return operand;
  }
  template <typename T>
  static Operand LoadPartial(const T* p, int n) {
    T lanes[kLanes] = {};
    for (int i = 0; i < n; ++i) lanes[i] = p[i];
    return Load(lanes);
  }
  static Vec Add(Operand a, Operand b, Vec sum) {
    return Fma(a.odd, b.odd, Fma(a.even, b.even, sum));
  }
#if defined(GRAFT_ISA_AVX512)
  static constexpr int kRowsMax = 4;
#else
  static constexpr int kRowsMax = 2;
#endif
};

#if defined(GRAFT_ISA_AVX512)
struct PairDot {
  using Element = Bfloat16;
  using XElement = Bfloat16;
  static constexpr int kLanes = 2 * Vec::kLanes;
  struct Operand {
    __m512i v;
  };
  static Operand Load(const Bfloat16* p) { return {_mm512_loadu_si512(p)}; }
  static Operand LoadPartial(const Bfloat16* p, int n) {
    return {_mm512_maskz_loadu_epi16(static_cast<__mmask32>((1ull << n) - 1), p)};
  }
  static Vec Add(Operand a, Operand b, Vec sum) { return DotBf16(a.v, b.v, sum); }
  static constexpr int kRowsMax = 6;
};
#endif

// Ranks of a tile. A lone row has more of them, so that its adapter comes from memory in as many
// streams.
constexpr int kRankTile = 4;
constexpr int kRankTileOfOneRow = 8;

// h[r][j] for kRows rows of x and kRanks rows of A; meanwhile fetches the rows at `next`, or
// re-reads lines at hand where that is null.
template <typename Dot, int kRows, int kRanks>
__attribute__((noinline)) void ShrinkTile(const LoraArgs& args, const LoraItem& item, int32_t row,
                                          int64_t rank, const void* const* next) {
  using Element = typename Dot::Element;
  const auto* x = static_cast<const typename Dot::XElement*>(args.x) + row * args.x_stride;
  const Element* a[kRanks];
  const char* ahead[kRanks];
  Unroll<kRanks>([&](auto j) {
    a[j] = static_cast<const Element*>(item.matrix->a_rows[rank + j]);
    ahead[j] =
        next == nullptr ? reinterpret_cast<const char*>(a[j]) : static_cast<const char*>(next[j]);
  });
  Vec sum[kRows][kRanks];
  Unroll<kRows>([&](auto r) { Unroll<kRanks>([&](auto j) { sum[r][j] = Vec::Zero(); }); });
  const auto step = [&](int64_t i, auto load) __attribute__((always_inline)) {
    typename Dot::Operand x_operand[kRows];
    Unroll<kRows>([&](auto r) { x_operand[r] = load(x + r * args.x_stride + i); });
    Unroll<kRanks>([&](auto j) {
      const typename Dot::Operand a_operand = load(a[j] + i);
      Unroll<kRows>([&](auto r) { sum[r][j] = Dot::Add(x_operand[r], a_operand, sum[r][j]); });
    });
  };
  int64_t i = 0;
  for (; i + Dot::kLanes <= args.k; i += Dot::kLanes) {
    Unroll<kRanks>([&](auto j) {
      __builtin_prefetch(ahead[j] + i * static_cast<int64_t>(sizeof(Element)), 0, 2);
    });
    step(i, [](const auto* p) { return Dot::Load(p); });
  }
  const int rest = static_cast<int>(args.k - i);
  if (rest > 0) step(i, [rest](const auto* p) { return Dot::LoadPartial(p, rest); });
  float* h = args.h + (int64_t{item.slice} * args.num_rows + row) * args.h_stride + rank;
  for (int r = 0; r < kRows; ++r) {
    for (int j = 0; j < kRanks; ++j) h[r * args.h_stride + j] = sum[r][j].Sum();
  }
}

// Ranks of a tile for the item: a full one, or a single rank at the end.
template <typename Dot, int kRows>
void ShrinkRanks(const LoraArgs& args, const LoraItem& item, int32_t row, int64_t rank,
                 int64_t count, const void* const* next) {
  constexpr int kTile = kRows == 1 ? kRankTileOfOneRow : kRankTile;
  const int64_t end = rank + count;
  for (; rank + kTile <= end; rank += kTile) {
    ShrinkTile<Dot, kRows, kTile>(args, item, row, rank, next);
    if (next != nullptr) next += kTile;
  }
  for (; rank < end; ++rank) ShrinkTile<Dot, kRows, 1>(args, item, row, rank, nullptr);
}

template <typename Dot>
void ShrinkItem(const LoraArgs& args, const LoraItem& item, const LoraItem* next) {
  if (item.rows() > kLoraFewRows) {  // x is what must be read once
    ForEachRowTile<Dot::kRowsMax>(item, [&](int32_t row, auto rows) {
      ShrinkRanks<Dot, decltype(rows)::value>(args, item, row, item.begin, item.end - item.begin,
                                              nullptr);
    });
    return;
  }
  constexpr int64_t kTile = kRankTileOfOneRow;
  for (int64_t rank = item.begin; rank < item.end; rank += kTile) {
    const int64_t count = item.end - rank < kTile ? item.end - rank : kTile;
    // The next whole tile of A, here or in the next item.
    const void* const* ahead = nullptr;
    if (rank + 2 * kTile <= item.end) {
      ahead = item.matrix->a_rows + rank + kTile;
    } else if (rank + kTile >= item.end && next != nullptr && next->begin + kTile <= next->end) {
      ahead = next->matrix->a_rows + next->begin;
    }
    ForEachRowTile<Dot::kRowsMax>(item, [&](int32_t row, auto rows) {
      ShrinkRanks<Dot, decltype(rows)::value>(args, item, row, rank, count, ahead);
      ahead = nullptr;
    });
  }
}

template <typename Dot>
void Shrink(const LoraArgs& args, Stream& stream) {
  ForEachShrinkItem(args, Dot::kRowsMax, stream, [&](const LoraItem& item, const LoraItem* next) {
    ShrinkItem<Dot>(args, item, next);
  });
}

// ---- Expand: lanes along the columns of y, two Vecs at a time, over the ranks in order. ----

// Two Vecs of columns, in the order that loads give: neighbours for fp32, even and odd columns for
// bf16, which costs two operations per 64 bytes where a widening load costs four.
struct Columns {
  Vec first, second;
};
constexpr int kColumns = 2 * Vec::kLanes;

inline Columns LoadColumns(const float* p) { return {Vec::Load(p), Vec::Load(p + Vec::kLanes)}; }
inline Columns LoadColumns(const Bfloat16* p) {
  Columns columns;
  WidenPairs(p, columns.first, columns.second);
  return columns;
}
// Back to neighbours.
inline Columns InOrder(Columns columns, const float*) { return columns; }
inline Columns InOrder(Columns columns, const Bfloat16*) {
  InterleavePairs(columns.first, columns.second);
  return columns;
}

inline void AddScaled(Vec scale, Columns delta, float* y) {
  Fma(scale, delta.first, Vec::Load(y)).Store(y);
  Fma(scale, delta.second, Vec::Load(y + Vec::kLanes)).Store(y + Vec::kLanes);
}

#if defined(GRAFT_ISA_AVX512)
constexpr int kExpandRowsMax = 6;
constexpr int kExpandGroups = 2;  // Columns of a tile
#else
constexpr int kExpandRowsMax = 4;
constexpr int kExpandGroups = 1;
#endif
// Columns fetched and computed at a time.
constexpr int64_t kExpandUnit = 4 * kExpandGroups * kColumns;

// y[r][column, column + groups * kColumns) += scale * sum over ranks of h[r][j] * b_rows[j][...].
template <typename Element, int kRows, int kGroups>
__attribute__((noinline)) void ExpandTile(const LoraMatrix& matrix, const float* h,
                                          int64_t h_stride, float* y, int64_t y_stride,
                                          int64_t column) {
  Columns sum[kRows][kGroups];
  Unroll<kRows>([&](auto r) {
    Unroll<kGroups>([&](auto g) { sum[r][g] = {Vec::Zero(), Vec::Zero()}; });
  });
  for (int32_t j = 0; j < matrix.rank; ++j) {
    const Element* b = static_cast<const Element*>(matrix.b_rows[j]) + column;
    Columns columns[kGroups];
    Unroll<kGroups>([&](auto g) { columns[g] = LoadColumns(b + g * kColumns); });
    Unroll<kRows>([&](auto r) {
      const Vec factor = Vec::Set(h[r * h_stride + j]);
      Unroll<kGroups>([&](auto g) {
        sum[r][g].first = Fma(factor, columns[g].first, sum[r][g].first);
        sum[r][g].second = Fma(factor, columns[g].second, sum[r][g].second);
      });
    });
  }
  const Vec scale = Vec::Set(matrix.scale);
  Unroll<kRows>([&](auto r) {
    Unroll<kGroups>([&](auto g) {
      AddScaled(scale, InOrder(sum[r][g], static_cast<const Element*>(nullptr)),
                y + r * y_stride + column + g * kColumns);
    });
  });
}

// The last columns, fewer than a Columns: up to a Vec at a time.
template <typename Element>
void ExpandTail(const LoraMatrix& matrix, const float* h, float* y, int64_t column, int64_t end) {
  for (; column < end; column += Vec::kLanes) {
    const int lanes = end - column < Vec::kLanes ? static_cast<int>(end - column) : Vec::kLanes;
    Vec sum = Vec::Zero();
    for (int32_t j = 0; j < matrix.rank; ++j) {
      const Element* b = static_cast<const Element*>(matrix.b_rows[j]) + column;
      sum = Fma(Vec::Set(h[j]), Vec::LoadPartial(b, lanes), sum);
    }
    Fma(Vec::Set(matrix.scale), sum, Vec::LoadPartial(y + column, lanes))
        .StorePartial(y + column, lanes);
  }
}

// Asks for B's bytes a fixed distance ahead of the column at work, into the next item where this
// one ends.
template <typename Element>
class ExpandFetcher {
 public:
  ExpandFetcher(const LoraArgs& args, const LoraItem& item, const LoraItem* next)
      : args_(args), item_(item), next_(next) {
    const int64_t unit_bytes =
        kExpandUnit * static_cast<int64_t>(sizeof(Element)) * item.matrix->rank;
    distance_ = (kFetchBytes + unit_bytes - 1) / unit_bytes * kExpandUnit;
  }

  void FetchFor(int64_t column) const {
    const int64_t ahead = column + distance_;
    if (ahead < item_.end) {
      Fetch(item_, ahead);
    } else if (next_ != nullptr) {
      Fetch(*next_, next_->begin + ahead - item_.end);
    }
  }

 private:
  static constexpr int64_t kFetchBytes = 12288;

  void Fetch(const LoraItem& item, int64_t column) const {
    const int64_t left = item.end - column;
    if (left <= 0) return;
    const int64_t bytes =
        (left < kExpandUnit ? left : kExpandUnit) * static_cast<int64_t>(sizeof(Element));
    for (int32_t j = 0; j < item.matrix->rank; ++j) {
      const auto* b = static_cast<const Element*>(item.matrix->b_rows[j]) + column;
      const char* line = reinterpret_cast<const char*>(b);
      for (int64_t i = 0; i < bytes; i += kLineBytes) __builtin_prefetch(line + i, 0, 2);
    }
    const float* y = args_.y + args_.slice_begin[item.slice] + column;
    for (int32_t row = item.row_begin; row < item.row_end; ++row) {
      const char* line = reinterpret_cast<const char*>(y + row * args_.y_stride);
      const int64_t y_bytes = bytes * 4 / static_cast<int64_t>(sizeof(Element));
      for (int64_t i = 0; i < y_bytes; i += kLineBytes) __builtin_prefetch(line + i, 1, 2);
    }
  }

  const LoraArgs& args_;
  const LoraItem& item_;
  const LoraItem* next_;
  int64_t distance_;
};

// Columns [column, end) for kRows rows from `row`.
template <typename Element, int kRows>
void ExpandRows(const LoraArgs& args, const LoraItem& item, int32_t row, int64_t column,
                int64_t end) {
  const LoraMatrix& matrix = *item.matrix;
  const float* h = args.h + (int64_t{item.slice} * args.num_rows + row) * args.h_stride;
  float* y = args.y + row * args.y_stride + args.slice_begin[item.slice];
  constexpr int64_t kTile = kExpandGroups * kColumns;
  for (; column + kTile <= end; column += kTile) {
    ExpandTile<Element, kRows, kExpandGroups>(matrix, h, args.h_stride, y, args.y_stride, column);
  }
  for (; column + kColumns <= end; column += kColumns) {
    ExpandTile<Element, kRows, 1>(matrix, h, args.h_stride, y, args.y_stride, column);
  }
  for (int r = 0; r < kRows; ++r) {
    ExpandTail<Element>(matrix, h + r * args.h_stride, y + r * args.y_stride, column, end);
  }
}

// ---- Expand of a lone row: B comes from memory a few rows at a time, in runs as long as may be,
// which is what the processor fetches ahead by itself; sums wait in the nearest cache. ----

constexpr int kExpandRanks = 8;           // of a pass
constexpr int64_t kExpandColumns = 2048;  // that sums are kept of at a time

// What a pass asks for while it computes: rows of B from their byte `offset` on.
struct RowsAhead {
  const void* const* rows = nullptr;  // null: nothing
  int64_t offset = 0;
};

// Asks for the lines that begin in the kBytes bytes `offset` behind p, a border of lines.
template <int kBytes, bool kForWriting>
__attribute__((always_inline)) inline void Fetch(const char* p, int64_t offset) {
  const auto fetch = [](const char* line) {
    if constexpr (kForWriting) {
      __builtin_prefetch(line, 1, 3);
    } else {
      __builtin_prefetch(line, 0, 2);
    }
  };
  if constexpr (kBytes >= kLineBytes) {
    Unroll<kBytes / kLineBytes>([&](auto line) { fetch(p + offset + line * kLineBytes); });
  } else if (offset % kLineBytes == 0) {
    fetch(p + offset);
  }
}

// sums[i] += sum over kRanks ranks of h[j] * b_rows[j][column + i] for i in [0, n), n a multiple of
// kColumns; sums in the order of LoadColumns. Fetches as many columns of `ahead`, and y.
template <typename Element, int kRanks>
__attribute__((noinline)) void ExpandPass(const void* const* b_rows, const float* h, int64_t column,
                                          int64_t n, RowsAhead ahead, const float* y, float* sums) {
  constexpr int kBytes = sizeof(Element);
  const Element* b[kRanks];
  const char* fetch[kRanks];
  Unroll<kRanks>([&](auto j) {
    b[j] = static_cast<const Element*>(b_rows[j]) + column;
    fetch[j] = ahead.rows == nullptr ? reinterpret_cast<const char*>(b[j])
                                     : static_cast<const char*>(ahead.rows[j]) + ahead.offset;
  });
  for (int64_t i = 0; i < n; i += kColumns) {
    Unroll<kRanks>([&](auto j) { Fetch<kColumns * kBytes, false>(fetch[j], i * kBytes); });
    Fetch<kColumns * 4, true>(reinterpret_cast<const char*>(y), i * 4);
    Columns sum = {Vec::Load(sums + i), Vec::Load(sums + i + Vec::kLanes)};
    Unroll<kRanks>([&](auto j) {
      const Columns columns = LoadColumns(b[j] + i);
      const Vec factor = Vec::Set(h[j]);
      sum.first = Fma(factor, columns.first, sum.first);
      sum.second = Fma(factor, columns.second, sum.second);
    });
    sum.first.Store(sums + i);
    sum.second.Store(sums + i + Vec::kLanes);
  }
}

// What comes after the pass of ranks from `rank` on over columns [column, end): further ranks, then
// further columns, then the next item.
template <typename Element>
RowsAhead AfterPass(const LoraItem& item, const LoraItem* next, int32_t rank, int64_t column,
                    int64_t end) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(Element));
  if (rank + 2 * kExpandRanks <= item.matrix->rank) {
    return {item.matrix->b_rows + rank + kExpandRanks, column * kBytes};
  }
  if (end < item.end) return {item.matrix->b_rows, end * kBytes};
  if (next == nullptr || next->matrix->rank < kExpandRanks) return {};
  return {next->matrix->b_rows, next->begin * kBytes};
}

template <typename Element>
void ExpandLoneRow(const LoraArgs& args, const LoraItem& item, const LoraItem* next) {
  alignas(kLineBytes) float sums[kExpandColumns];
  const LoraMatrix& matrix = *item.matrix;
  const float* h = args.h + (int64_t{item.slice} * args.num_rows + item.row_begin) * args.h_stride;
  float* y = args.y + item.row_begin * args.y_stride + args.slice_begin[item.slice];
  const Vec scale = Vec::Set(matrix.scale);
  int64_t column = item.begin;
  while (column + kColumns <= item.end) {
    int64_t n = (item.end - column) / kColumns * kColumns;
    if (n > kExpandColumns) n = kExpandColumns;
    for (int64_t i = 0; i < n; i += Vec::kLanes) Vec::Zero().Store(sums + i);
    int32_t rank = 0;
    for (; rank + kExpandRanks <= matrix.rank; rank += kExpandRanks) {
      ExpandPass<Element, kExpandRanks>(matrix.b_rows + rank, h + rank, column, n,
                                        AfterPass<Element>(item, next, rank, column, column + n),
                                        y + column, sums);
    }
    for (; rank < matrix.rank; ++rank) {
      ExpandPass<Element, 1>(matrix.b_rows + rank, h + rank, column, n, {}, y + column, sums);
    }
    for (int64_t i = 0; i < n; i += kColumns) {
      const Columns sum = {Vec::Load(sums + i), Vec::Load(sums + i + Vec::kLanes)};
      AddScaled(scale, InOrder(sum, static_cast<const Element*>(nullptr)), y + column + i);
    }
    column += n;
  }
  ExpandTail<Element>(matrix, h, y, column, item.end);
}

template <typename Element>
void ExpandItem(const LoraArgs& args, LoraItem item, const LoraItem* next) {
  LoraMatrix scaled = *item.matrix;
  scaled.scale *= args.scale;
  item.matrix = &scaled;
  if (item.rows() > kLoraFewRows) {  // y is what must be read and written once
    ForEachRowTile<kExpandRowsMax>(item, [&](int32_t row, auto rows) {
      ExpandRows<Element, decltype(rows)::value>(args, item, row, item.begin, item.end);
    });
    return;
  }
  if (item.rows() == 1) return ExpandLoneRow<Element>(args, item, next);
  const ExpandFetcher<Element> fetcher(args, item, next);
  for (int64_t column = item.begin; column < item.end; column += kExpandUnit) {
    fetcher.FetchFor(column);
    const int64_t end = column + kExpandUnit < item.end ? column + kExpandUnit : item.end;
    ForEachRowTile<kExpandRowsMax>(item, [&](int32_t row, auto rows) {
      ExpandRows<Element, decltype(rows)::value>(args, item, row, column, end);
    });
  }
}

template <typename Element>
void Expand(const LoraArgs& args, Stream& stream) {
  ForEachExpandItem(args, stream, [&](const LoraItem& item, const LoraItem* next) {
    ExpandItem<Element>(args, item, next);
  });
}

}  // namespace

void LoraShrink(const LoraArgs& args, Stream& stream) {
  if (args.dtype == DType::kF32) return Shrink<F32Dot>(args, stream);
  if (args.x_is_fp32) return Shrink<WidenDot<float>>(args, stream);
#if defined(GRAFT_ISA_AVX512)
  if (CpuHasAvx512Bf16()) return Shrink<PairDot>(args, stream);
#endif
  Shrink<WidenDot<Bfloat16>>(args, stream);
}

void LoraExpand(const LoraArgs& args, Stream& stream) {
  if (args.dtype == DType::kF32) return Expand<float>(args, stream);
  Expand<Bfloat16>(args, stream);
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
