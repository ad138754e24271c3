#include "sources/s3_client.h"

#include <algorithm>
#include <charconv>
#include <ctime>

#include "base/clock.h"
#include "base/file.h"
#include "base/strings.h"
#include "sources/hub_names.h"
#include "sources/s3_xml.h"

namespace graft {
namespace {

constexpr int kListPagesMax = 100;
constexpr int64_t kRenewSeconds = 300;  // before keys run out
constexpr int64_t kIdentityBytesMax = 64 << 10;
constexpr int64_t kObjectBytesMax = int64_t{1} << 44;  // sums of sizes stay far from the end

bool IsBucketName(std::string_view bucket) {
  const bool has_letters = std::all_of(bucket.begin(), bucket.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || IsAsciiDigit(c) || c == '-' || c == '.';
  });
  return has_letters && bucket.size() >= 3 && bucket.size() <= 63 && bucket.front() != '.' &&
         bucket.front() != '-' && bucket.back() != '.' && bucket.back() != '-' &&
         bucket.find("..") == bucket.npos;
}

// -1: no size that an object can have.
int64_t ObjectBytesIn(const std::string& text) {
  int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  return is_number && number <= kObjectBytesMax ? number : -1;
}

// "2026-11-29T13:00:00Z"
int64_t UnixTimeOfIso(const std::string& text) {
  std::tm time{};
  return strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &time) == nullptr ? 0 : timegm(&time);
}

// The check sum of the whole object, if one was sent. That of an upload in parts is of the parts'
// sums, and their sizes are not known: "...-7", or the type COMPOSITE.
void TakeChecksum(const WebAnswer& answer, S3Head* head) {
  if (answer.Header("x-amz-checksum-type") == "COMPOSITE") return;
  constexpr std::pair<const char*, DigestKind> kChecksums[] = {
      {"x-amz-checksum-sha256", DigestKind::kS3Sha256},
      {"x-amz-checksum-crc64nvme", DigestKind::kS3Crc64Nvme},
      {"x-amz-checksum-crc32c", DigestKind::kS3Crc32c},
      {"x-amz-checksum-crc32", DigestKind::kS3Crc32},
      {"x-amz-checksum-sha1", DigestKind::kS3Sha1}};
  for (const auto& [name, kind] : kChecksums) {
    const std::string digest = answer.Header(name);
    if (digest.empty() || digest.find('-') != std::string::npos) continue;
    head->kind = kind;
    head->digest = digest;
    return;
  }
}

}  // namespace

Result<S3Name> ParseS3Name(std::string_view text) {
  constexpr std::string_view kScheme = "s3://";
  const Status error = InvalidArgumentError(
      "'" + std::string(text.substr(0, 512)) +
      "' is no s3://BUCKET/PREFIX: a bucket has 3 to 63 small letters, digits, dots and dashes");
  if (!text.starts_with(kScheme)) return error;
  text.remove_prefix(kScheme.size());
  S3Name name;
  const size_t slash = std::min(text.find('/'), text.size());
  name.bucket = text.substr(0, slash);
  text.remove_prefix(std::min(slash + 1, text.size()));
  while (text.ends_with('/')) text.remove_suffix(1);
  name.prefix = text;
  if (!IsBucketName(name.bucket) || (!text.empty() && !IsSafeHubPath(text))) return error;
  return name;
}

S3Client::S3Client(const S3Settings& settings, WebOptions web, WebPatienceOptions patience)
    : settings_(settings),
      web_(std::move(web)),
      patience_(std::move(patience), web_.is_cancelled),
      keys_(settings.keys) {}

WebUrl S3Client::UrlOf(const std::string& bucket, const std::string& key,
                       std::vector<std::pair<std::string, std::string>> query) const {
  WebUrl url;
  std::string path = "/" + PercentEncode(key, /*keeps_slash=*/true);
  if (settings_.endpoint.has_value()) {
    url = *settings_.endpoint;
    path = "/" + bucket + path;
  } else {
    url = {.scheme = "https", .host = "s3." + settings_.region + ".amazonaws.com", .port = 443};
    // A certificate covers one name before the region's.
    if (bucket.find('.') == std::string::npos) {
      url.host = bucket + "." + url.host;
    } else {
      path = "/" + bucket + path;
    }
  }
  url.target += path;
  if (!query.empty()) url.target += "?" + SortedQuery(std::move(query));
  return url;
}

WebOrder S3Client::OrderOf(WebUrl url) const {
  WebOrder order{.url = std::move(url), .redirects_max = 0};
  if (keys_.id.empty()) return order;
  order.headers.emplace_back("x-amz-content-sha256", "UNSIGNED-PAYLOAD");
  order.signature = {
      .region = settings_.region, .service = "s3", .key_id = keys_.id, .key = keys_.key};
  if (!keys_.session_token.empty()) {
    order.secret_headers.emplace_back("x-amz-security-token", keys_.session_token);
  }
  return order;
}

WebOrder S3Client::ObjectOrder(const std::string& bucket, const std::string& key,
                               const S3Head& head) const {
  // No versionId: that takes a right of its own, and If-Match holds the same bytes.
  WebOrder order = OrderOf(UrlOf(bucket, key, {}));
  order.headers.emplace_back("If-Match", head.etag);
  return order;
}

Status S3Client::ErrorOf(const WebAnswer& answer, const std::string& what) const {
  const std::string code =
      ForPeople(XmlText(answer.body, "Code"), {&keys_.key, &keys_.session_token});
  const std::string region =
      ForPeople(answer.Header("x-amz-bucket-region"), {&keys_.key, &keys_.session_token});
  const std::string told = what + ": the store answered " + std::to_string(answer.status) +
                           (code.empty() ? "" : " (" + code + ")");
  if (!region.empty() && region != settings_.region) {
    return FailedPreconditionError(told + ": the bucket is in the region " + region +
                                   "; set AWS_REGION to it");
  }
  if (answer.status >= 300 && answer.status < 400) {
    return FailedPreconditionError(told +
                                   ": it sends elsewhere, which is not followed; set "
                                   "AWS_ENDPOINT_URL_S3 and AWS_REGION to the bucket's own");
  }
  if (answer.status == 404) return NotFoundError(told);
  if (answer.status == 401 || answer.status == 403 || code.starts_with("ExpiredToken")) {
    return PermissionDeniedError(
        told + (keys_.id.empty() ? "; no keys were found, so the request was not signed: set "
                                   "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
                                 : "; the keys may not read it, or are not this store's"));
  }
  return IsPassingStatus(answer.status) ? UnavailableError(told + "; try again later")
                                        : FailedPreconditionError(told);
}

Result<WebAnswer> S3Client::Ask(const WebOrder& order, const std::string& what) {
  if (connection_ == nullptr) {
    ASSIGN_OR_RETURN(connection_, WebConnection::Open(web_));
  }
  ASSIGN_OR_RETURN(WebAnswer answer, patience_.Ask(*connection_, order));
  if (answer.status != 200) return ErrorOf(answer, what);
  return answer;
}

Status S3Client::RenewKeys() {
  if (!settings_.identity.has_value()) return OkStatus();
  if (!keys_.id.empty() && keys_.expires_at > UnixTimeSeconds() + kRenewSeconds) return OkStatus();
  const S3WebIdentity& identity = *settings_.identity;
  ASSIGN_OR_RETURN(std::string token, ReadFile(identity.token_file, kIdentityBytesMax));
  std::string form = SortedQuery({{"Action", "AssumeRoleWithWebIdentity"},
                                  {"RoleArn", identity.role_arn},
                                  {"RoleSessionName", identity.session_name},
                                  {"Version", "2011-06-15"},
                                  {"WebIdentityToken", std::string(Trimmed(token, " \t\r\n"))}});
  Secret::Wipe(&token);
  WebOrder order{.url = identity.endpoint, .redirects_max = 0};
  if (order.url.target.empty()) order.url.target = "/";
  order.form = Secret(form);
  Secret::Wipe(&form);
  WebOptions web = web_;
  web.reachable = ReachableAddresses::Beside(order.url.host);
  ASSIGN_OR_RETURN(const auto connection, WebConnection::Open(std::move(web)));
  ASSIGN_OR_RETURN(WebAnswer answer, patience_.Ask(*connection, order));
  if (answer.status != 200) return ErrorOf(answer, "keys for the role " + identity.role_arn);
  keys_ = {.id = XmlText(answer.body, "AccessKeyId"),
           .key = Secret(XmlText(answer.body, "SecretAccessKey")),
           .session_token = Secret(XmlText(answer.body, "SessionToken")),
           .expires_at = UnixTimeOfIso(XmlText(answer.body, "Expiration"))};
  Secret::Wipe(&answer.body);
  if (!keys_.id.empty() && !keys_.key.empty()) return OkStatus();
  return DataLossError(identity.endpoint.Text() + " gave no keys for the role " +
                       identity.role_arn);
}

Result<std::vector<S3Object>> S3Client::List(const S3Name& name) {
  RETURN_IF_ERROR(RenewKeys());
  const std::string what = "s3://" + name.bucket + "/" + name.prefix;
  std::vector<S3Object> objects;
  std::string next;
  for (int page = 0; page < kListPagesMax; ++page) {
    std::vector<std::pair<std::string, std::string>> query = {{"list-type", "2"}};
    if (!name.prefix.empty()) query.emplace_back("prefix", name.prefix + "/");
    if (!next.empty()) query.emplace_back("continuation-token", next);
    ASSIGN_OR_RETURN(const WebAnswer answer,
                     Ask(OrderOf(UrlOf(name.bucket, "", std::move(query))), what));
    // Another page than a store's, or one that was cut, would pass for a prefix of fewer objects.
    if (answer.body.find("</ListBucketResult>") == std::string::npos) {
      return DataLossError(what + ": no whole listing came; is it a store? (AWS_ENDPOINT_URL_S3)");
    }
    for (const std::string_view row : XmlElements(answer.body, "Contents")) {
      S3Object object{.key = XmlText(row, "Key"),
                      .etag = XmlText(row, "ETag"),
                      .bytes = ObjectBytesIn(XmlText(row, "Size"))};
      if (object.bytes < 0)
        return DataLossError(what + ": a listing without sizes, or with one that cannot be");
      objects.push_back(std::move(object));
    }
    next = XmlText(answer.body, "NextContinuationToken");
    if (XmlText(answer.body, "IsTruncated") != "true" || next.empty()) {
      std::sort(objects.begin(), objects.end(),
                [](const S3Object& a, const S3Object& b) { return a.key < b.key; });
      return objects;
    }
  }
  return ResourceExhaustedError(what + " has more than " + std::to_string(kListPagesMax) +
                                " pages of objects; name a prefix of one model or adapter");
}

Result<S3Head> S3Client::Head(const std::string& bucket, const std::string& key) {
  RETURN_IF_ERROR(RenewKeys());
  WebOrder order = OrderOf(UrlOf(bucket, key, {}));
  order.is_head = true;
  order.headers.emplace_back("x-amz-checksum-mode", "ENABLED");
  ASSIGN_OR_RETURN(const WebAnswer answer, Ask(order, "s3://" + bucket + "/" + key));
  S3Head head{.etag = answer.Header("etag"),
              .bytes = ObjectBytesIn(answer.Header("content-length"))};
  if (head.etag.empty() || head.bytes < 0) {
    return DataLossError("s3://" + bucket + "/" + key + ": no ETag, or no size that can be");
  }
  TakeChecksum(answer, &head);
  return head;
}

}  // namespace graft
