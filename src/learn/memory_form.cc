#include "learn/memory_form.h"

#include <algorithm>

#include "base/check.h"

namespace graft {
namespace {

bool KeepsStart(const MemoryForm& form) { return form.rows != MemoryRows::kBehind; }

int32_t Pieces(int32_t tokens, int32_t of) { return (tokens + of - 1) / of; }

// Rows of a window of n tokens behind `start` ones, with their places in the document: the window
// begins with its token `begin`, and `start` stands before token 0.
void AddRows(int32_t start, int32_t n, int32_t begin, const MemoryForm& form, int32_t compression,
             MemoryReading* reading) {
  std::vector<ReadText::Row> rows;
  const auto add = [&](int32_t row, int32_t place) {
    rows.push_back({row, reading->memory_tokens++, place});
  };
  for (int32_t i = 0; i < start && begin == 0 && KeepsStart(form); ++i) add(i, i);
  const bool is_behind = form.rows == MemoryRows::kBehind;
  const int32_t count = is_behind ? form.behind : Pieces(n, compression);
  for (int32_t i = 0; i < count; ++i) {
    const int32_t last =
        is_behind ? (i + 1) * n / count - 1 : std::min((i + 1) * compression, n) - 1;
    int32_t row = is_behind ? start + n + i : start + last;
    if (form.rows == MemoryRows::kBetween) row += i + 1;  // the virtual tokens up to its own
    add(row, start + begin + std::max(last, 0));
  }
  reading->rows.push_back(std::move(rows));
}

}  // namespace

MemoryReading ReadingOf(std::span<const int32_t> start, std::span<const int32_t> tokens,
                        const MemoryForm& form, int32_t compression) {
  CHECK(form.window_tokens > 0 && compression > 0 && !tokens.empty());
  CHECK(form.carrier == MemoryCarrier::kKeysValues || form.rows == MemoryRows::kBehind);
  MemoryReading reading{.is_between = form.rows == MemoryRows::kBetween};
  const auto num_tokens = static_cast<int32_t>(tokens.size());
  const auto num_start = static_cast<int32_t>(start.size());
  // Windows of like sizes: a last one of few tokens would be read without what is before it.
  const int32_t num_windows = Pieces(num_tokens, form.window_tokens);
  for (int32_t i = 0; i < num_windows; ++i) {
    const auto begin = static_cast<int32_t>(int64_t{i} * num_tokens / num_windows);
    const auto end = static_cast<int32_t>((int64_t{i} + 1) * num_tokens / num_windows);
    std::vector<int32_t> text(start.begin(), start.end());
    for (int32_t token = begin; token < end; ++token) {
      text.push_back(tokens[static_cast<size_t>(token)]);
      const bool ends_piece = (token + 1 - begin) % compression == 0 || token + 1 == end;
      if (reading.is_between && ends_piece) text.push_back(kVirtualToken);
    }
    reading.windows.push_back(std::move(text));
    AddRows(num_start, end - begin, begin, form, compression, &reading);
  }
  // What follows the memory begins at position memory_tokens, and would have at the document's end.
  for (auto& rows : reading.rows) {
    for (ReadText::Row& row : rows) {
      const bool is_close = form.places == MemoryPlaces::kClose;
      row.position =
          is_close ? row.token : row.position + reading.memory_tokens - num_start - num_tokens;
    }
  }
  return reading;
}

int32_t MemoryTokensOf(size_t start_tokens, size_t num_tokens, const MemoryForm& form,
                       int32_t compression) {
  const auto n = static_cast<int32_t>(num_tokens);
  const int32_t windows = Pieces(n, form.window_tokens);
  if (form.rows == MemoryRows::kBehind) return windows * form.behind;
  int32_t tokens = KeepsStart(form) ? static_cast<int32_t>(start_tokens) : 0;
  for (int32_t i = 0; i < windows; ++i) {
    const int64_t begin = int64_t{i} * n / windows, end = (int64_t{i} + 1) * n / windows;
    tokens += Pieces(static_cast<int32_t>(end - begin), compression);
  }
  return tokens;
}

}  // namespace graft
