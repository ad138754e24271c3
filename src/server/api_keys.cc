#include "server/api_keys.h"

#include <algorithm>
#include <cmath>

#include "base/sha256.h"
#include "server/field_reader.h"

namespace graft {
namespace {

constexpr size_t kKeyBytesMax = 1024;
constexpr size_t kIdDigits = 12;
constexpr size_t kModelsMax = 100000;
constexpr float kWeightMin = 0.001f;
constexpr float kWeightMax = 1000.0f;

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
  reader.Float("tenant_weight", &rights.tenant_weight);
  if (!(rights.tenant_weight >= kWeightMin && rights.tenant_weight <= kWeightMax)) {
    reader.Fail("tenant_weight", "must be between 0.001 and 1000");
  }
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
  if (meter_ == nullptr) return;
  std::lock_guard lock(meter_->mutex);
  --meter_->num_running;
}

ApiKey::ApiKey(Rights rights, int64_t now_ns)
    : rights_(std::move(rights)), meter_(std::make_shared<Meter>()) {
  meter_->bucket_requests = rights_.requests_per_minute;
  meter_->bucket_time_ns = now_ns;
}

ApiKey::ApiKey(Rights rights, const ApiKey& former)
    : rights_(std::move(rights)), meter_(former.meter_) {}

bool ApiKey::Allows(const std::string& model) const {
  return rights_.all_models || rights_.models.count(model) != 0;
}

ApiResult<ApiKey::Lease> ApiKey::Admit(int64_t now_ns) {
  Meter& meter = *meter_;
  std::lock_guard lock(meter.mutex);
  const int32_t concurrent_max = rights_.requests_concurrent_max;
  if (concurrent_max > 0 && meter.num_running >= concurrent_max) {
    return RateError(
        "This key has " + std::to_string(meter.num_running) + " requests running, its limit.", 1);
  }
  if (auto error = TakeFromBucket(now_ns)) return *error;
  ++meter.num_running;
  return Lease(meter_);
}

std::optional<ApiError> ApiKey::Count(int64_t now_ns) {
  std::lock_guard lock(meter_->mutex);
  return TakeFromBucket(now_ns);
}

void ApiKey::SetShare(double requests_per_minute) {
  std::lock_guard lock(meter_->mutex);
  meter_->share_per_minute = requests_per_minute;
}

int64_t ApiKey::TakeDemand() {
  std::lock_guard lock(meter_->mutex);
  return std::exchange(meter_->num_asked, 0);
}

std::optional<ApiError> ApiKey::TakeFromBucket(int64_t now_ns) {
  if (rights_.requests_per_minute <= 0) return std::nullopt;
  Meter& meter = *meter_;
  ++meter.num_asked;
  constexpr double kShareMin = 0.01;  // of a minute's requests: somebody's turn comes
  const double per_minute = meter.share_per_minute < 0
                                ? rights_.requests_per_minute
                                : std::max(meter.share_per_minute, kShareMin);
  const double per_second = per_minute / 60;
  meter.bucket_requests += NsToSeconds(now_ns - meter.bucket_time_ns) * per_second;
  meter.bucket_requests = std::min(meter.bucket_requests, std::max(per_minute, 1.0));
  meter.bucket_time_ns = now_ns;
  if (meter.bucket_requests < 1) {
    const int wait_s = static_cast<int>(std::ceil((1 - meter.bucket_requests) / per_second));
    return RateError("This key's limit is " + std::to_string(rights_.requests_per_minute) +
                         " requests a minute; try again in " + std::to_string(wait_s) + " s.",
                     std::max(wait_s, 1));
  }
  meter.bucket_requests -= 1;
  return std::nullopt;
}

ApiKeys::ApiKeys(const Clock& clock) : clock_(clock), table_(std::make_shared<Table>()) {
  ApiKey::Rights everybody;
  everybody.all_models = true;
  anonymous_ = std::make_shared<ApiKey>(std::move(everybody), clock_.NowNs());
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
  const std::shared_ptr<const Table> former = table();
  auto next = std::make_shared<Table>();
  for (size_t i = 0; i < list.size(); ++i) {
    RETURN_IF_ERROR(AddEntry(list[i], i, *former, next.get()));
  }
  next->required = true;
  RETURN_IF_ERROR(AddAdminKey(*former, next.get()));
  Put(std::move(next));
  return OkStatus();
}

Status ApiKeys::LoadText(const std::string& json) {
  ASSIGN_OR_RETURN(const Json list, ParseJson(json));
  return Load(list);
}

void ApiKeys::SetShares(std::map<std::string, double> requests_per_minute) {
  const std::shared_ptr<const Table> current = table();
  for (const auto& [digest, key] : current->keys) {
    const auto share = requests_per_minute.find(digest);
    key->SetShare(share == requests_per_minute.end() ? -1 : share->second);
  }
}

std::map<std::string, int64_t> ApiKeys::TakeDemand() {
  const std::shared_ptr<const Table> current = table();
  std::map<std::string, int64_t> demand;
  for (const auto& [digest, key] : current->keys) {
    if (key->rights().requests_per_minute > 0) demand[digest] = key->TakeDemand();
  }
  return demand;
}

void ApiKeys::Put(std::shared_ptr<const Table> table) {
  std::lock_guard lock(mutex_);
  table_ = std::move(table);
}

Status ApiKeys::AddEntry(const Json& entry, size_t idx, const Table& former, Table* table) const {
  FieldReader reader(entry, "keys[" + std::to_string(idx) + "].");
  const std::string digest = ReadDigest(reader);
  ApiKey::Rights rights = ReadRights(reader);
  if (const auto error = reader.Finish()) return InvalidArgumentError(error->message);
  const auto [weight, is_new] = table->tenant_weights.emplace(rights.tenant, rights.tenant_weight);
  if (!is_new && weight->second != rights.tenant_weight) {
    return InvalidArgumentError("keys[" + std::to_string(idx) + "].tenant_weight: tenant '" +
                                rights.tenant +
                                "' has another in an entry above; give all of its keys the same");
  }
  return Add(digest, std::move(rights), former, table)
      .WithContext("keys[" + std::to_string(idx) + "]");
}

Status ApiKeys::SetAdminKey(std::string_view key) {
  admin_digest_ = DigestOf(key);
  auto next = std::make_shared<Table>(*table());
  RETURN_IF_ERROR(AddAdminKey(*next, next.get()));
  Put(std::move(next));
  return OkStatus();
}

Status ApiKeys::AddAdminKey(const Table& former, Table* table) const {
  if (admin_digest_.empty()) return OkStatus();
  ApiKey::Rights rights;
  rights.tenant = "admin";
  rights.all_models = true;
  rights.admin = true;
  return Add(admin_digest_, std::move(rights), former, table).WithContext("the admin key");
}

Status ApiKeys::Add(const std::string& digest, ApiKey::Rights rights, const Table& former,
                    Table* table) const {
  if (table->keys.count(digest) != 0) return InvalidArgumentError("the same key is given twice");
  table->has_admin = table->has_admin || rights.admin;
  rights.id = digest.substr(0, kIdDigits);
  const auto it = former.keys.find(digest);
  table->keys[digest] = it == former.keys.end()
                            ? std::make_shared<ApiKey>(std::move(rights), clock_.NowNs())
                            : std::make_shared<ApiKey>(std::move(rights), *it->second);
  return OkStatus();
}

// Looked up by digest: how long that takes depends on SHA-256 of what was presented, from which
// nothing about a stored key can be learnt byte by byte.
ApiResult<std::shared_ptr<ApiKey>> ApiKeys::Authenticate(std::string_view authorization) const {
  const std::shared_ptr<const Table> current = table();
  const std::string_view key = BearerKey(authorization);
  if (!key.empty() && key.size() <= kKeyBytesMax) {
    const auto it = current->keys.find(DigestOf(key));
    if (it != current->keys.end()) return it->second;
  }
  if (!current->required) return anonymous_;
  return HttpError(401, "invalid_api_key",
                   key.empty() ? "No API key was given: send 'Authorization: Bearer <key>'."
                               : "The API key is not valid.");
}

}  // namespace graft
