// MemoryForm: how an encoder's memory of a document is made: which rows of what it reads are kept,
// and where they stand. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "learn/trainer.h"

namespace graft {

// What a memory is made of: the keys and values of rows in every layer, or their final states as
// embeddings in front of a text (ICAE).
enum class MemoryCarrier : uint8_t { kKeysValues, kStates };
// Which rows: those of the document's own tokens, the last of each piece (in their order, and
// without compression what reading makes); those of a virtual token behind each piece (Activation
// Beacon); or those of virtual tokens behind each window.
enum class MemoryRows : uint8_t { kPieces, kBetween, kBehind };
// Where the tokens of a memory stand: as far from a question as what they stand for would, or side
// by side.
enum class MemoryPlaces : uint8_t { kAsRead, kClose };

struct MemoryForm {
  MemoryCarrier carrier = MemoryCarrier::kKeysValues;
  MemoryRows rows = MemoryRows::kPieces;  // kStates: kBehind
  MemoryPlaces places = MemoryPlaces::kAsRead;
  int32_t window_tokens = 2048;  // of the document, that the encoder reads at once
  int32_t behind = 16;           // virtual tokens behind a window, if `rows` are theirs

  bool operator==(const MemoryForm&) const = default;
};

// What the encoder reads of a document, window by window, each behind `start`, and what is kept.
struct MemoryReading {
  std::vector<std::vector<int32_t>> windows;
  std::vector<std::vector<ReadText::Row>> rows;  // of each window
  int32_t memory_tokens = 0;
  bool is_between = false;  // windows have kVirtualToken behind each piece
};

// `compression`: how many tokens of the document a token of the memory stands for; with virtual
// tokens behind windows the form says that. The rows of `start` in the first window are kept, too,
// unless virtual tokens are behind windows: the attention of all rows rests on them.
MemoryReading ReadingOf(std::span<const int32_t> start, std::span<const int32_t> tokens,
                        const MemoryForm& form, int32_t compression);

// The virtual tokens of an encoder; 0: it has none.
inline int32_t EncoderTokensOf(const MemoryForm& form) {
  return form.rows == MemoryRows::kPieces ? 0 : form.rows == MemoryRows::kBetween ? 1 : form.behind;
}

// The tokens of a memory of so many tokens.
int32_t MemoryTokensOf(size_t start_tokens, size_t num_tokens, const MemoryForm& form,
                       int32_t compression);

}  // namespace graft
