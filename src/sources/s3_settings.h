// S3Settings: which store, by which keys, as AWS's own tools read them: AWS_ENDPOINT_URL_S3,
// AWS_ENDPOINT_URL, AWS_REGION, AWS_DEFAULT_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
// AWS_SESSION_TOKEN, AWS_PROFILE with its files, and a web identity (AWS_ROLE_ARN and
// AWS_WEB_IDENTITY_TOKEN_FILE). No metadata service is asked. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "sources/hub_settings.h"
#include "sources/secret.h"
#include "sources/web_url.h"

namespace graft {

struct S3Keys {
  std::string id;  // "": requests are not signed
  Secret key;
  Secret session_token;
  int64_t expires_at = 0;  // Unix seconds; 0: never
};

// Keys for a while, by a token that a file holds, from the security token service.
struct S3WebIdentity {
  std::string role_arn;
  std::string token_file;
  std::string session_name = "graft";
  WebUrl endpoint;  // of the service
};

struct S3Settings {
  std::optional<WebUrl> endpoint;  // none: AWS's own of the region
  std::string region = "us-east-1";
  S3Keys keys;
  std::optional<S3WebIdentity> identity;  // where there are no keys
  std::string cache;                      // graft/s3 in $XDG_CACHE_HOME or ~/.cache

  // kInvalidArgument: a variable or a profile says what cannot be. kFailedPrecondition: the profile
  // gets its keys in a way that is not known here. A process that has keys leaves no core file from
  // then on.
  static Result<S3Settings> FromEnvironment(const ReadVariable& read = ReadProcessEnvironment());
};

}  // namespace graft
