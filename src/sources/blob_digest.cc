#include "sources/blob_digest.h"

#include <openssl/evp.h>

#include <array>

#include "base/check.h"

namespace graft {
namespace {

std::string HexOf(std::string_view bytes) {
  static constexpr char kHexDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) {
    hex += kHexDigits[static_cast<unsigned char>(c) >> 4];
    hex += kHexDigits[static_cast<unsigned char>(c) & 15];
  }
  return hex;
}

std::string Base64Of(std::string_view bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                     reinterpret_cast<const unsigned char*>(bytes.data()),
                                     static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(length));
  return text;
}

class EvpDigest : public BlobDigest {
 public:
  EvpDigest(const EVP_MD* kind, bool is_hex) : context_(EVP_MD_CTX_new()), is_hex_(is_hex) {
    CHECK(EVP_DigestInit_ex(context_, kind, nullptr) == 1);
  }
  ~EvpDigest() override { EVP_MD_CTX_free(context_); }
  void Update(std::string_view bytes) override {
    CHECK(EVP_DigestUpdate(context_, bytes.data(), bytes.size()) == 1);
  }
  std::string Finish() override {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int length = 0;
    CHECK(EVP_DigestFinal_ex(context_, digest, &length) == 1);
    const std::string_view bytes(reinterpret_cast<const char*>(digest), length);
    return is_hex_ ? HexOf(bytes) : Base64Of(bytes);
  }

 private:
  EVP_MD_CTX* const context_;
  const bool is_hex_;
};

// A reflected CRC of T's width, eight bytes a turn.
template <typename T>
class CrcDigest : public BlobDigest {
 public:
  explicit CrcDigest(T polynomial) {
    for (size_t i = 0; i < 256; ++i) {
      T value = static_cast<T>(i);
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? polynomial : 0);
      tables_[0][i] = value;
    }
    for (size_t k = 1; k < kLanes; ++k) {
      for (size_t i = 0; i < 256; ++i) {
        tables_[k][i] = (tables_[k - 1][i] >> 8) ^ tables_[0][tables_[k - 1][i] & 0xFF];
      }
    }
  }
  void Update(std::string_view bytes) override {
    const auto* at = reinterpret_cast<const unsigned char*>(bytes.data());
    size_t left = bytes.size();
    for (; left >= kLanes; left -= kLanes, at += kLanes) {
      T next = 0;
      for (size_t k = 0; k < kLanes; ++k) {
        const T folded = k < sizeof(T) ? (value_ >> (8 * k)) & 0xFF : 0;
        next ^= tables_[kLanes - 1 - k][static_cast<size_t>(folded ^ at[k])];
      }
      value_ = next;
    }
    for (; left > 0; --left, ++at) value_ = (value_ >> 8) ^ tables_[0][(value_ ^ *at) & 0xFF];
  }
  std::string Finish() override {
    const T value = ~value_;
    std::string bytes;
    for (size_t k = sizeof(T); k-- > 0;) bytes += static_cast<char>(value >> (8 * k));
    return Base64Of(bytes);
  }

 private:
  static constexpr size_t kLanes = 8;
  std::array<std::array<T, 256>, kLanes> tables_;
  T value_ = static_cast<T>(~T{0});
};

class NoDigest : public BlobDigest {
 public:
  void Update(std::string_view /*bytes*/) override {}
  std::string Finish() override { return ""; }
};

constexpr uint32_t kCrc32 = 0xEDB88320;
constexpr uint32_t kCrc32c = 0x82F63B78;
constexpr uint64_t kCrc64Nvme = 0x9A6C9329AC4BC9B5;

}  // namespace

const char* DigestName(DigestKind kind) {
  switch (kind) {
    case DigestKind::kSha256:
    case DigestKind::kS3Sha256:
      return "sha256";
    case DigestKind::kGitSha1:
      return "git's sha1";
    case DigestKind::kS3Sha1:
      return "sha1";
    case DigestKind::kS3Crc32:
      return "crc32";
    case DigestKind::kS3Crc32c:
      return "crc32c";
    case DigestKind::kS3Crc64Nvme:
      return "crc64nvme";
    case DigestKind::kNone:
      break;
  }
  return "size";
}

std::unique_ptr<BlobDigest> BlobDigest::Make(DigestKind kind, int64_t bytes) {
  switch (kind) {
    case DigestKind::kSha256:
      return std::make_unique<EvpDigest>(EVP_sha256(), /*is_hex=*/true);
    case DigestKind::kGitSha1: {
      auto digest = std::make_unique<EvpDigest>(EVP_sha1(), /*is_hex=*/true);
      digest->Update("blob " + std::to_string(bytes) + std::string(1, '\0'));
      return digest;
    }
    case DigestKind::kS3Sha256:
      return std::make_unique<EvpDigest>(EVP_sha256(), /*is_hex=*/false);
    case DigestKind::kS3Sha1:
      return std::make_unique<EvpDigest>(EVP_sha1(), /*is_hex=*/false);
    case DigestKind::kS3Crc32:
      return std::make_unique<CrcDigest<uint32_t>>(kCrc32);
    case DigestKind::kS3Crc32c:
      return std::make_unique<CrcDigest<uint32_t>>(kCrc32c);
    case DigestKind::kS3Crc64Nvme:
      return std::make_unique<CrcDigest<uint64_t>>(kCrc64Nvme);
    case DigestKind::kNone:
      break;
  }
  return std::make_unique<NoDigest>();
}

}  // namespace graft
