// S3Client: what a store that speaks S3 says over HTTP: the objects below a prefix, one object's
// version and check sums. Requests are signed (version 4) unless there are no keys. Redirects are
// not followed. Blocks its thread, which never serves requests. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "sources/blob_digest.h"
#include "sources/s3_settings.h"
#include "sources/web_connection.h"
#include "sources/web_patience.h"

namespace graft {

struct S3Name {
  std::string bucket;
  std::string prefix;  // without a slash at either end; may be empty
};
// "s3://bucket/prefix". kInvalidArgument says what such a name may have.
Result<S3Name> ParseS3Name(std::string_view text);

struct S3Object {
  std::string key;
  std::string etag;  // with its quotes
  int64_t bytes = 0;
};

struct S3Head {
  std::string etag;
  int64_t bytes = 0;
  DigestKind kind = DigestKind::kNone;
  std::string digest;
};

class S3Client {
 public:
  S3Client(const S3Settings& settings, WebOptions web, WebPatienceOptions patience = {});

  // Keys by web identity, where there are no others or they run out. The calls below do it.
  Status RenewKeys();
  // Sorted by key. kNotFound: no such bucket. kPermissionDenied: the keys were not accepted.
  Result<std::vector<S3Object>> List(const S3Name& name);
  Result<S3Head> Head(const std::string& bucket, const std::string& key);
  // The order of an object's bytes as it was when `head` was read: 412 once it is another.
  WebOrder ObjectOrder(const std::string& bucket, const std::string& key, const S3Head& head) const;

 private:
  WebUrl UrlOf(const std::string& bucket, const std::string& key,
               std::vector<std::pair<std::string, std::string>> query) const;
  WebOrder OrderOf(WebUrl url) const;
  Result<WebAnswer> Ask(const WebOrder& order, const std::string& what);
  Status ErrorOf(const WebAnswer& answer, const std::string& what) const;

  const S3Settings& settings_;
  const WebOptions web_;
  WebPatience patience_;
  S3Keys keys_;
  std::unique_ptr<WebConnection> connection_;
};

}  // namespace graft
