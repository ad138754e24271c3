#include "server/api_keys.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/sha256.h"
#include "server/field_reader.h"

namespace graft {
namespace {

constexpr size_t kKeyBytesMax = 1024;
constexpr size_t kModelsMax = 100000;
constexpr int32_t kInt32Max = std::numeric_limits<int32_t>::max();

std::string DigestOf(std::string_view key) {
  Sha256 hash;
  hash.Update(key);
  return hash.HexDigest();
}

bool IsDigest(std::string_view text) {
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return text.size() == 64 && std::all_of(text.begin(), text.end(), is_hex);
}

// The key of "Bearer KEY"; "" for anything else.
std::string_view BearerKey(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() <= kScheme.size()) return "";
  for (size_t i = 0; i < kScheme.size(); ++i) {
    const char c = authorization[i];
    if ((c >= 'A' && c <= 'Z' ? c + 32 : c) != kScheme[i]) return "";
  }
  authorization.remove_prefix(kScheme.size());
  while (!authorization.empty() && authorization.front() == ' ') authorization.remove_prefix(1);
  return authorization;
}

ApiError RateError(std::string message, int retry_after_s) {
  ApiError error = HttpError(429, "rate_limit_exceeded", std::move(message));
  error.retry_after_s = retry_after_s;
  return error;
}

// The entry's digest, from "key" or "key_sha256".
std::string ReadDigest(FieldReader& reader) {
  std::string key, digest;
  reader.String("key", &key, kKeyBytesMax);
  reader.String("key_sha256", &digest, kKeyBytesMax);
  if (key.empty() == digest.empty()) {
    reader.Fail("key", "or 'key_sha256' must be given, and only one of them");
  } else if (digest.empty()) {
    digest = DigestOf(key);
  } else if (!IsDigest(digest)) {
    reader.Fail("key_sha256", "must be 64 lower-case hexadecimal digits");
  }
  return digest;
}

ApiKey::Rights ReadRights(FieldReader& reader) {
  ApiKey::Rights rights;
  reader.String("tenant", &rights.tenant, kKeyBytesMax);
  if (rights.tenant.empty()) reader.Fail("tenant", "is required");
  std::vector<std::string> models;
  reader.StringOrList("adapters", kModelsMax, kKeyBytesMax, &models);
  if (models.empty()) {
    reader.Fail("adapters", "is required: a list of names (the base model's too), or [\"*\"]");
  }
  rights.models = std::set<std::string>(models.begin(), models.end());
  rights.all_models = rights.models.count("*") != 0;
  reader.Bool("admin", &rights.admin);
  reader.Int("requests_per_minute", 1, kInt32Max, &rights.requests_per_minute);
  reader.Int("requests_concurrent_max", 1, kInt32Max, &rights.requests_concurrent_max);
  return rights;
}

}  // namespace

ApiKey::Lease::~Lease() {
  if (key_ == nullptr) return;
  std::lock_guard lock(key_->mutex_);
  --key_->num_running_;
}

ApiKey::ApiKey(Rights rights, int64_t now_ns)
    : rights_(std::move(rights)),
      bucket_requests_(rights_.requests_per_minute),
      bucket_time_ns_(now_ns) {}

bool ApiKey::Allows(const std::string& model) const {
  return rights_.all_models || rights_.models.count(model) != 0;
}

ApiResult<ApiKey::Lease> ApiKey::Admit(int64_t now_ns) {
  std::lock_guard lock(mutex_);
  const int32_t concurrent_max = rights_.requests_concurrent_max;
  if (concurrent_max > 0 && num_running_ >= concurrent_max) {
    return RateError(
        "This key has " + std::to_string(num_running_) + " requests running, its limit.", 1);
  }
  if (auto error = TakeFromBucket(now_ns)) return *error;
  ++num_running_;
  return Lease(this);
}

std::optional<ApiError> ApiKey::Count(int64_t now_ns) {
  std::lock_guard lock(mutex_);
  return TakeFromBucket(now_ns);
}

std::optional<ApiError> ApiKey::TakeFromBucket(int64_t now_ns) {
  const double per_minute = rights_.requests_per_minute;
  if (per_minute <= 0) return std::nullopt;
  const double per_second = per_minute / 60;
  bucket_requests_ += NsToSeconds(now_ns - bucket_time_ns_) * per_second;
  bucket_requests_ = std::min(bucket_requests_, per_minute);
  bucket_time_ns_ = now_ns;
  if (bucket_requests_ < 1) {
    const int wait_s = static_cast<int>(std::ceil((1 - bucket_requests_) / per_second));
    return RateError("This key's limit is " + std::to_string(rights_.requests_per_minute) +
                         " requests a minute; try again in " + std::to_string(wait_s) + " s.",
                     std::max(wait_s, 1));
  }
  bucket_requests_ -= 1;
  return std::nullopt;
}

ApiKeys::ApiKeys(const Clock& clock) : clock_(clock) {
  ApiKey::Rights everybody;
  everybody.all_models = true;
  anonymous_ = std::make_unique<ApiKey>(std::move(everybody), clock_.NowNs());
}

Status ApiKeys::LoadFile(const std::string& path) {
  Result<Json> json = ParseJsonFile(path);
  if (!json.ok()) return json.status();
  return Load(*json).WithContext(path);
}

Status ApiKeys::Load(const Json& list) {
  if (!list.is_array() || list.empty()) {
    return InvalidArgumentError(
        "the keys file must be a JSON list of at least one {\"key\", \"tenant\", \"adapters\"}");
  }
  for (size_t i = 0; i < list.size(); ++i) RETURN_IF_ERROR(AddEntry(list[i], i));
  required_ = true;
  return OkStatus();
}

Status ApiKeys::AddEntry(const Json& entry, size_t idx) {
  FieldReader reader(entry, "keys[" + std::to_string(idx) + "].");
  const std::string digest = ReadDigest(reader);
  ApiKey::Rights rights = ReadRights(reader);
  if (const auto error = reader.Finish()) return InvalidArgumentError(error->message);
  return Add(digest, std::move(rights)).WithContext("keys[" + std::to_string(idx) + "]");
}

Status ApiKeys::SetAdminKey(std::string_view key) {
  ApiKey::Rights rights;
  rights.tenant = "admin";
  rights.all_models = true;
  rights.admin = true;
  return Add(DigestOf(key), std::move(rights)).WithContext("the admin key");
}

Status ApiKeys::Add(const std::string& digest, ApiKey::Rights rights) {
  has_admin_ = has_admin_ || rights.admin;
  auto key = std::make_unique<ApiKey>(std::move(rights), clock_.NowNs());
  if (keys_.emplace(digest, std::move(key)).second) return OkStatus();
  return InvalidArgumentError("the same key is given twice");
}

// Looked up by digest: how long that takes depends on SHA-256 of what was presented, from which
// nothing about a stored key can be learnt byte by byte.
ApiResult<ApiKey*> ApiKeys::Authenticate(std::string_view authorization) const {
  const std::string_view key = BearerKey(authorization);
  if (!key.empty() && key.size() <= kKeyBytesMax) {
    const auto it = keys_.find(DigestOf(key));
    if (it != keys_.end()) return it->second.get();
  }
  if (!required_) return anonymous_.get();
  return HttpError(401, "invalid_api_key",
                   key.empty() ? "No API key was given: send 'Authorization: Bearer <key>'."
                               : "The API key is not valid.");
}

}  // namespace graft
