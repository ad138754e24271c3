// BlobDigest: what a file's bytes must come to, by the check sums that sources have. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace graft {

enum class DigestKind : uint8_t {
  kNone,      // the size alone
  kSha256,    // hexadecimal: LFS files of a hub
  kGitSha1,   // hexadecimal, of "blob SIZE\0" and the bytes: all other files of a hub
  kS3Sha256,  // base64, as x-amz-checksum-* have them
  kS3Sha1,
  kS3Crc32,
  kS3Crc32c,
  kS3Crc64Nvme,
};
// For messages: "sha256".
const char* DigestName(DigestKind kind);

class BlobDigest {
 public:
  // `bytes`: of the whole file.
  static std::unique_ptr<BlobDigest> Make(DigestKind kind, int64_t bytes);
  virtual ~BlobDigest() = default;
  virtual void Update(std::string_view bytes) = 0;
  // As the source writes it; "" for kNone. Ends the message; call once.
  virtual std::string Finish() = 0;
};

}  // namespace graft
