#include "base/sha256.h"

#include <openssl/evp.h>

#include "base/check.h"

namespace graft {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  CHECK(EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1);
}

Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;
Sha256::~Sha256() = default;

Sha256 Sha256::Copy() const {
  Sha256 copy;
  CHECK(EVP_MD_CTX_copy_ex(copy.state_->context, state_->context) == 1);
  return copy;
}

void Sha256::Update(const void* data, size_t bytes) {
  CHECK(EVP_DigestUpdate(state_->context, data, bytes) == 1);
}

std::string Sha256::HexDigest() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int bytes = 0;
  CHECK(EVP_DigestFinal_ex(state_->context, digest, &bytes) == 1);
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (unsigned int i = 0; i < bytes; ++i) {
    hex += kDigits[digest[i] >> 4];
    hex += kDigits[digest[i] & 15];
  }
  return hex;
}

std::string Sha256Of(std::string_view text) {
  Sha256 hash;
  hash.Update(text);
  return hash.HexDigest();
}

bool IsSha256(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace graft
