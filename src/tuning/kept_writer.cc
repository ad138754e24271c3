#include "tuning/kept_writer.h"

#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "base/new_file.h"
#include "base/sha256.h"

namespace graft {
namespace {

constexpr size_t kHashDigits = 64;

template <typename T>
std::string_view BytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}
template <typename T>
std::string_view BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <typename T>
bool Take(std::string_view* bytes, size_t count, std::vector<T>* values) {
  if (bytes->size() / sizeof(T) < count) return false;
  values->resize(count);
  if (count > 0) std::memcpy(values->data(), bytes->data(), count * sizeof(T));
  bytes->remove_prefix(count * sizeof(T));
  return true;
}

// A text's number of tokens, the tokens, and what else might have stood in their places.
std::string Packed(const std::vector<TaughtText>& texts) {
  std::string bytes;
  for (const TaughtText& text : texts) {
    bytes += BytesOf(static_cast<uint64_t>(text.tokens.size()));
    bytes += BytesOf(text.tokens);
    bytes += BytesOf(text.ids);
    bytes += BytesOf(text.probabilities);
  }
  return Sha256Of(bytes) + bytes;
}

std::optional<std::vector<TaughtText>> Unpacked(std::string_view bytes, size_t num_texts,
                                                size_t num_choices) {
  if (bytes.size() < kHashDigits) return std::nullopt;
  const std::string_view hash = bytes.substr(0, kHashDigits);
  bytes.remove_prefix(kHashDigits);
  if (Sha256Of(bytes) != hash) return std::nullopt;
  std::vector<TaughtText> texts(num_texts);
  for (TaughtText& text : texts) {
    std::vector<uint64_t> count;
    if (!Take(&bytes, 1, &count) || !Take(&bytes, count[0], &text.tokens) ||
        !Take(&bytes, count[0] * num_choices, &text.ids) ||
        !Take(&bytes, count[0] * num_choices, &text.probabilities)) {
      return std::nullopt;
    }
  }
  if (!bytes.empty()) return std::nullopt;
  return texts;
}

}  // namespace

KeptWriter::KeptWriter(TextWriter& writer, std::string folder, std::string identity,
                       std::function<void()> on_kept)
    : writer_(writer),
      folder_(std::move(folder)),
      identity_(std::move(identity)),
      on_kept_(std::move(on_kept)) {}

std::string KeptWriter::PathOf(std::span<const WriteOrder> orders) const {
  Sha256 sha;
  sha.Update(identity_);
  sha.Update(BytesOf(num_choices()));
  for (const WriteOrder& order : orders) {
    for (const std::vector<int32_t>* tokens : {&order.prompt, &order.given}) {
      sha.Update(BytesOf(static_cast<uint64_t>(tokens->size())));
      sha.Update(BytesOf(*tokens));
    }
    sha.Update(BytesOf(order.tokens_max));
    sha.Update(BytesOf(order.seed));
    sha.Update(BytesOf(order.temperature));
    sha.Update(BytesOf(order.top_p));
  }
  return folder_ + "/" + sha.HexDigest() + ".texts";
}

Result<std::vector<TaughtText>> KeptWriter::Write(std::span<const WriteOrder> orders) {
  if (orders.empty()) return std::vector<TaughtText>();
  const std::string path = PathOf(orders);
  if (const Result<std::string> bytes = ReadFile(path); bytes.ok()) {
    std::optional<std::vector<TaughtText>> texts =
        Unpacked(*bytes, orders.size(), static_cast<size_t>(num_choices()));
    if (texts.has_value()) return std::move(*texts);
  }
  ASSIGN_OR_RETURN(std::vector<TaughtText> texts, writer_.Write(orders));
  std::error_code ignored;
  std::filesystem::create_directories(folder_, ignored);  // else the writing says why
  const Status kept = WriteWholeFile(path, Packed(texts));
  if (kept.ok() && on_kept_) on_kept_();
  if (!kept.ok() && !std::exchange(has_warned_, true)) {
    LOG_WARN("what the base wrote is not kept, and would be written again: {}", kept.message());
  }
  return texts;
}

}  // namespace graft
