// SHA-256 (OpenSSL), the adapter identity's hash. One object hashes one message; not thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace graft {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void Update(const void* data, size_t bytes);
  void Update(std::string_view text) { Update(text.data(), text.size()); }
  // One that goes on from here by itself.
  Sha256 Copy() const;
  // 64 lower-case hexadecimal digits. Ends the message; call once.
  std::string HexDigest();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A text's digest, and whether a text may be one.
std::string Sha256Of(std::string_view text);
bool IsSha256(std::string_view text);

}  // namespace graft
