#include "sources/blob_digest.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

std::string DigestOf(DigestKind kind, std::string_view text) {
  const auto digest = BlobDigest::Make(kind, static_cast<int64_t>(text.size()));
  // In odd pieces, which fall between the lanes.
  for (size_t at = 0; at < text.size(); at += 7) digest->Update(text.substr(at, 7));
  return digest->Finish();
}

// Check values of the algorithms' definitions over "123456789", and git hash-object.
TEST(BlobDigestTest, IsWhatSourcesWrite) {
  constexpr char kText[] = "123456789";
  EXPECT_EQ(DigestOf(DigestKind::kS3Crc32, kText), "y/Q5Jg==");          // CBF43926
  EXPECT_EQ(DigestOf(DigestKind::kS3Crc32c, kText), "4waSgw==");         // E3069283
  EXPECT_EQ(DigestOf(DigestKind::kS3Crc64Nvme, kText), "rosUhgp5mIg=");  // AE8B14860A799888
  EXPECT_EQ(DigestOf(DigestKind::kS3Sha1, kText), "98O8HYCOBHMq32eZZczDTKeuNEE=");
  EXPECT_EQ(DigestOf(DigestKind::kS3Sha256, kText), "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=");
  EXPECT_EQ(DigestOf(DigestKind::kSha256, "abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(DigestOf(DigestKind::kGitSha1, "hello\n"), "ce013625030ba8dba906f756967f9e9ca394464a");
  EXPECT_EQ(DigestOf(DigestKind::kNone, "abc"), "");
}

TEST(BlobDigestTest, LongTextsGoThroughTheLanes) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>(i * 31);
  const auto whole = BlobDigest::Make(DigestKind::kS3Crc32, 1000);
  whole->Update(text);
  EXPECT_EQ(whole->Finish(), DigestOf(DigestKind::kS3Crc32, text));
  const auto wide = BlobDigest::Make(DigestKind::kS3Crc64Nvme, 1000);
  wide->Update(text);
  EXPECT_EQ(wide->Finish(), DigestOf(DigestKind::kS3Crc64Nvme, text));
}

}  // namespace
}  // namespace graft
