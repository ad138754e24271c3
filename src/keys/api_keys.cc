#include "keys/api_keys.h"

#include <algorithm>

#include "base/name_pattern.h"
#include "base/sha256.h"
#include "base/strings.h"
#include "http/field_reader.h"

namespace graft {
namespace {

constexpr size_t kKeyBytesMax = 1024;
constexpr size_t kIdDigits = 12;
constexpr size_t kModelsMax = 100000;
constexpr float kWeightMin = 0.001f;
constexpr float kWeightMax = 1000.0f;

// The key of "Bearer KEY"; "" for anything else.
std::string_view BearerKey(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (LowerCase(authorization.substr(0, kScheme.size())) != kScheme) return "";
  authorization.remove_prefix(kScheme.size());
  authorization.remove_prefix(std::min(authorization.find_first_not_of(' '), authorization.size()));
  return authorization;
}

// The entry's digest, from "key" or "key_sha256".
std::string ReadDigest(FieldReader& reader) {
  std::string key, digest;
  reader.String("key", &key, kKeyBytesMax);
  reader.String("key_sha256", &digest, kKeyBytesMax);
  if (key.empty() == digest.empty()) {
    reader.Fail("key", "or 'key_sha256' must be given, and only one of them");
  } else if (digest.empty()) {
    digest = Sha256Of(key);
  } else if (!IsSha256(digest)) {
    reader.Fail("key_sha256", "must be 64 lower-case hexadecimal digits");
  }
  return digest;
}

void ReadLimits(FieldReader& reader, WorkLimits* limits) {
  reader.Int("requests_per_minute", 1, kInt32Max, &limits->requests_per_minute);
  reader.Int("tokens_per_minute", 1, kInt32Max, &limits->tokens_per_minute);
  reader.Int("requests_concurrent_max", 1, kInt32Max, &limits->requests_concurrent_max);
  reader.Int("sequences_concurrent_max", 1, kInt32Max, &limits->sequences_concurrent_max);
  reader.Int("context_tokens_max", 2, kInt32Max, &limits->context_tokens_max);
  reader.Int("n_max", 1, kInt32Max, &limits->n_max);
}

void ReadTenantLimits(FieldReader& reader, const std::string& path, WorkLimits* limits) {
  const Json* const json = reader.Take("tenant_limits");
  if (json == nullptr) return;
  FieldReader inner(*json, path + "tenant_limits.");
  ReadLimits(inner, limits);
  if (auto error = inner.Finish()) reader.Fail(*std::move(error));
}

ApiKey::Rights ReadRights(FieldReader& reader, const std::string& path) {
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
  for (std::string& model : models) {
    if (model == "*") {
      rights.all_models = true;
    } else if (model.find('*') != std::string::npos) {
      rights.model_patterns.push_back(std::move(model));
    } else {
      rights.models.insert(std::move(model));
    }
  }
  reader.Bool("admin", &rights.admin);
  ReadLimits(reader, &rights.limits);
  ReadTenantLimits(reader, path, &rights.tenant_limits);
  return rights;
}

int32_t Tightest(int32_t a, int32_t b) {
  return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b);
}

// The names of budgets that servers of a cluster share, see cluster/leader.cc.
std::string TokensOf(const std::string& name) { return name + ":tokens"; }
std::string BudgetOf(const std::string& tenant) { return "tenant:" + tenant; }

}  // namespace

ApiKey::ApiKey(Rights rights, int64_t now_ns)
    : rights_(std::move(rights)),
      meter_(std::make_shared<WorkMeter>("key", rights_.limits, now_ns)),
      tenant_meter_(std::make_shared<WorkMeter>("tenant", rights_.tenant_limits, now_ns)) {}

ApiKey::ApiKey(Rights rights, std::shared_ptr<WorkMeter> meter,
               std::shared_ptr<WorkMeter> tenant_meter)
    : rights_(std::move(rights)),
      meter_(std::move(meter)),
      tenant_meter_(std::move(tenant_meter)) {}

bool ApiKey::Allows(const std::string& model) const {
  const auto is_like = [&model](const std::string& pattern) {
    return MatchesPattern(pattern, model);
  };
  const bool may =
      rights_.all_models || rights_.models.contains(model) ||
      std::any_of(rights_.model_patterns.begin(), rights_.model_patterns.end(), is_like);
  if (!may || owned_ == nullptr || rights_.admin) return may;
  bool is_anothers = false;
  for (const auto& [pattern, tenant] : *owned_) {
    if (!MatchesPattern(pattern, model)) continue;
    if (tenant == rights_.tenant) return true;
    is_anothers = true;
  }
  return !is_anothers;
}

int32_t ApiKey::context_tokens_max() const {
  return Tightest(rights_.limits.context_tokens_max, rights_.tenant_limits.context_tokens_max);
}

int32_t ApiKey::n_max() const {
  return Tightest(rights_.limits.n_max, rights_.tenant_limits.n_max);
}

ApiResult<MeterLease> ApiKey::Admit(const Clock& clock) {
  const int64_t now_ns = clock.NowNs();
  if (auto error = meter_->EnterRequest(now_ns)) return *error;
  if (auto error = tenant_meter_->EnterRequest(now_ns)) {
    meter_->LeaveRequest(now_ns);
    meter_->UndoRequest();
    return *error;
  }
  return MeterLease(meter_, tenant_meter_, clock);
}

std::optional<ApiError> ApiKey::Count(int64_t now_ns) {
  if (auto error = meter_->CountRequest(now_ns)) return error;
  auto error = tenant_meter_->CountRequest(now_ns);
  if (error.has_value()) meter_->UndoRequest();
  return error;
}

ApiResult<MeterLease> ApiKey::AdmitWork(const Work& work, const Clock& clock) {
  const int64_t now_ns = clock.NowNs();
  if (auto error = meter_->EnterWork(work, now_ns)) return *error;
  if (auto error = tenant_meter_->EnterWork(work, now_ns)) {
    meter_->LeaveWork(work, 0, now_ns);
    return *error;
  }
  return MeterLease(meter_, tenant_meter_, clock, work);
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
  return Replace(*former, std::move(next));
}

Status ApiKeys::LoadText(const std::string& json) {
  const Result<Json> list = ParseJson(json);
  const bool is_list = list.ok() && list->is_array();
  Status first = list.status();
  if (list.ok() && !is_list) first = InvalidArgumentError("keys must be a JSON list");
  const std::shared_ptr<const Table> former = table();
  auto next = std::make_shared<Table>();
  for (size_t i = 0; is_list && i < list->size(); ++i) {
    const Status added = AddEntry((*list)[i], i, *former, next.get());
    if (first.ok()) first = added;
  }
  next->keys.erase(admin_digest_);  // whatever the list says of it, it may do everything
  const Status replaced = Replace(*former, std::move(next));
  return first.ok() ? replaced : first;
}

// The admin key is in every table.
Status ApiKeys::Replace(const Table& former, std::shared_ptr<Table> next) {
  next->required = true;
  RETURN_IF_ERROR(AddAdminKey(former, next.get()));
  Settle(next.get());
  Put(std::move(next));
  return OkStatus();
}

std::map<std::string, std::string> ApiKeys::NamedModels() const {
  const std::shared_ptr<const Table> current = table();
  std::map<std::string, std::string> named;
  for (const auto& [digest, key] : current->keys) {
    for (const std::string& model : key->rights().models) named[model] = key->rights().tenant;
  }
  for (const auto& [pattern, tenant] : current->owned) {
    if (pattern.find('*') == std::string::npos) named[pattern] = tenant;
  }
  return named;
}

void ApiKeys::SetShares(const std::map<std::string, double>& per_minute) {
  const std::shared_ptr<const Table> current = table();
  const auto share_of = [&per_minute](const std::string& name) {
    const auto share = per_minute.find(name);
    return share == per_minute.end() ? -1 : share->second;
  };
  for (const auto& [digest, key] : current->keys) {
    key->meter()->SetShares(share_of(digest), share_of(TokensOf(digest)));
  }
  for (const auto& [name, tenant] : current->tenants) {
    const std::string budget = BudgetOf(name);
    tenant.meter->SetShares(share_of(budget), share_of(TokensOf(budget)));
  }
}

std::map<std::string, int64_t> ApiKeys::TakeDemand() {
  const std::shared_ptr<const Table> current = table();
  std::map<std::string, int64_t> demand;
  const auto take = [&demand](const std::string& name, const WorkLimits& limits, WorkMeter& meter) {
    if (limits.requests_per_minute > 0) {
      demand[name] = static_cast<int64_t>(meter.TakeAskedRequests());
    }
    if (limits.tokens_per_minute > 0) {
      demand[TokensOf(name)] = static_cast<int64_t>(meter.TakeAskedTokens());
    }
  };
  for (const auto& [digest, key] : current->keys) take(digest, key->rights().limits, *key->meter());
  for (const auto& [name, tenant] : current->tenants) {
    take(BudgetOf(name), tenant.limits, *tenant.meter);
  }
  return demand;
}

// A table that is to be put in force: its limits hold for what was counted before, too.
void ApiKeys::Settle(Table* table) {
  const auto owned = std::make_shared<const ApiKey::Owned>(table->owned);
  for (const auto& [digest, key] : table->keys) {
    key->meter()->SetLimits(key->rights().limits);
    if (!owned->empty()) key->SetOwned(owned);
  }
  for (const auto& [name, tenant] : table->tenants) tenant.meter->SetLimits(tenant.limits);
}

void ApiKeys::Put(std::shared_ptr<const Table> table) {
  std::lock_guard lock(mutex_);
  table_ = std::move(table);
}

Status ApiKeys::AddEntry(const Json& entry, size_t idx, const Table& former, Table* table) const {
  const std::string path = "keys[" + std::to_string(idx) + "].";
  FieldReader reader(entry, path);
  const std::string digest = ReadDigest(reader);
  ApiKey::Rights rights = ReadRights(reader, path);
  std::vector<std::string> owned;
  reader.StringOrList("tenant_adapters", kModelsMax, kKeyBytesMax, &owned);
  if (const auto error = reader.Finish()) return InvalidArgumentError(error->message);
  for (std::string& pattern : owned) table->owned.emplace_back(std::move(pattern), rights.tenant);
  return Add(digest, std::move(rights), former, table)
      .WithContext("keys[" + std::to_string(idx) + "]");
}

Result<ApiKeys::Tenant*> ApiKeys::TenantOf(const ApiKey::Rights& rights, const Table& former,
                                           Table* table) const {
  const auto before = former.tenants.find(rights.tenant);  // maybe the same table
  std::shared_ptr<WorkMeter> meter =
      before == former.tenants.end() ? nullptr : before->second.meter;
  const auto [it, is_new] = table->tenants.try_emplace(rights.tenant);
  Tenant& tenant = it->second;
  if (!is_new) {
    const char* const differs = tenant.weight != rights.tenant_weight   ? "tenant_weight"
                                : tenant.limits != rights.tenant_limits ? "tenant_limits"
                                                                        : nullptr;
    if (differs == nullptr) return &tenant;
    return InvalidArgumentError(std::string(differs) + ": tenant '" + rights.tenant +
                                "' has others in an entry above; give all of its keys the same");
  }
  tenant.weight = rights.tenant_weight;
  tenant.limits = rights.tenant_limits;
  tenant.meter = meter != nullptr
                     ? std::move(meter)
                     : std::make_shared<WorkMeter>("tenant", tenant.limits, clock_.NowNs());
  return &tenant;
}

Status ApiKeys::SetAdminKey(std::string_view key) {
  admin_digest_ = Sha256Of(key);
  auto next = std::make_shared<Table>(*table());
  RETURN_IF_ERROR(AddAdminKey(*next, next.get()));
  Put(std::move(next));
  return OkStatus();
}

Status ApiKeys::AddAdminKey(const Table& former, Table* table) const {
  if (admin_digest_.empty()) return OkStatus();
  ApiKey::Rights rights;
  rights.tenant = "admin";
  // As the file's entries of a tenant of that name say, if there are any.
  if (const auto it = table->tenants.find(rights.tenant); it != table->tenants.end()) {
    rights.tenant_weight = it->second.weight;
    rights.tenant_limits = it->second.limits;
  }
  rights.all_models = true;
  rights.admin = true;
  return Add(admin_digest_, std::move(rights), former, table).WithContext("the admin key");
}

Status ApiKeys::Add(const std::string& digest, ApiKey::Rights rights, const Table& former,
                    Table* table) const {
  if (table->keys.count(digest) != 0) return InvalidArgumentError("the same key is given twice");
  rights.id = digest.substr(0, kIdDigits);
  ASSIGN_OR_RETURN(const Tenant* const tenant, TenantOf(rights, former, table));
  table->has_admin = table->has_admin || rights.admin;
  const auto it = former.keys.find(digest);
  std::shared_ptr<WorkMeter> meter =
      it != former.keys.end() ? it->second->meter()
                              : std::make_shared<WorkMeter>("key", rights.limits, clock_.NowNs());
  table->keys[digest] =
      std::make_shared<ApiKey>(std::move(rights), std::move(meter), tenant->meter);
  return OkStatus();
}

// Looked up by digest: how long that takes depends on SHA-256 of what was presented, from which
// nothing about a stored key can be learnt byte by byte.
ApiResult<std::shared_ptr<ApiKey>> ApiKeys::Authenticate(std::string_view authorization) const {
  const std::shared_ptr<const Table> current = table();
  const std::string_view key = BearerKey(authorization);
  if (!key.empty() && key.size() <= kKeyBytesMax) {
    const auto it = current->keys.find(Sha256Of(key));
    if (it != current->keys.end()) return it->second;
  }
  if (!current->required) return anonymous_;
  return HttpError(401, "invalid_api_key",
                   key.empty() ? "No API key was given: send 'Authorization: Bearer <key>'."
                               : "The API key is not valid.");
}

}  // namespace graft
