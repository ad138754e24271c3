#include "cluster/cluster_records.h"

#include <utility>

namespace graft {
namespace {

Result<Json> ParseRecord(const std::string& text, const std::string& what) {
  Result<Json> json = ParseJson(text);
  if (json.ok() && json->is_object()) return json;
  return DataLossError("the record is not that of " + what);
}

// Fields of the wrong type count as absent: a later version may have changed them.
void Read(const Json& json, const char* field, std::string* out) {
  const auto it = json.find(field);
  if (it != json.end() && it->is_string()) *out = it->get<std::string>();
}
void Read(const Json& json, const char* field, int64_t* out) {
  const auto it = json.find(field);
  if (it != json.end() && it->is_number_integer()) *out = it->get<int64_t>();
}
void Read(const Json& json, const char* field, int32_t* out) {
  const auto it = json.find(field);
  if (it != json.end() && it->is_number_integer()) *out = it->get<int32_t>();
}
void Read(const Json& json, const char* field, bool* out) {
  const auto it = json.find(field);
  if (it != json.end() && it->is_boolean()) *out = it->get<bool>();
}
void Read(const Json& json, const char* field, double* out) {
  const auto it = json.find(field);
  if (it != json.end() && it->is_number()) *out = it->get<double>();
}

void Read(const Json& json, const char* field, std::vector<std::string>* out) {
  const auto it = json.find(field);
  if (it == json.end() || !it->is_array()) return;
  for (const Json& one : *it) {
    if (one.is_string()) out->push_back(one.get<std::string>());
  }
}

Status MissingField(const std::string& what, const std::string& field) {
  return DataLossError("the record of " + what + " has no " + field);
}

}  // namespace

std::string EncodeRecord(const RunnerRecord& runner) {
  Json json = {{"id", runner.id},
               {"address", runner.address},
               {"arithmetic_id", runner.arithmetic_id},
               {"base_id", runner.base_id},
               {"protocol", runner.protocol},
               {"capacity_requests", runner.capacity_requests},
               {"running_requests", runner.running_requests},
               {"waiting_requests", runner.waiting_requests},
               {"pages", runner.pages},
               {"free_pages", runner.free_pages},
               {"draining", runner.draining},
               {"learns", runner.learns}};
  Json resident = Json::array();
  for (size_t i = 0; i < runner.resident.size() && i < kResidentToldMax; ++i) {
    resident.push_back(runner.resident[i]);
  }
  json["resident"] = std::move(resident);
  return DumpJson(json);
}

std::string EncodeRecord(const ClusterRecord& cluster) {
  return DumpJson(
      {{"id", cluster.id}, {"base_name", cluster.base_name}, {"made_at", cluster.made_at}});
}

std::string EncodeRecord(const FrontendRecord& frontend) {
  return DumpJson({{"id", frontend.id},
                   {"address", frontend.address},
                   {"demand", frontend.demand},
                   {"contents_address", frontend.contents_address},
                   {"waiting_requests", frontend.waiting_requests}});
}

std::string EncodeRecord(const AdapterVersion& adapter) {
  const RegistryEntry& entry = adapter.entry;
  Json json = {{"version", adapter.version},
               {"name", entry.name},
               {"hash", entry.hash},
               {"path", entry.path},
               {"base_model", entry.base_model},
               {"rank_max", entry.rank_max},
               {"num_virtual_tokens", entry.num_virtual_tokens},
               {"bytes", entry.bytes},
               {"tenant", entry.tenant},
               {"loaded_at", entry.loaded_at}};
  if (entry.owner.has_value()) json["owner"] = *entry.owner;
  return DumpJson(json);
}

std::string EncodeRecord(const TenantRecord& tenant) {
  return DumpJson({{"name", tenant.name}, {"weight", tenant.weight}});
}

std::string EncodeRecord(const BaseModelId& base) {
  return DumpJson(
      {{"name", base.name}, {"text_hash", base.text_hash}, {"weights_hash", base.weights_hash}});
}

std::string EncodeRecord(const ScaleHint& hint) {
  return DumpJson({{"runners", hint.runners},
                   {"runners_wanted", hint.runners_wanted},
                   {"startup_seconds", hint.startup_seconds},
                   {"spare", hint.spare},
                   {"consolidates", hint.consolidates}});
}

Result<ClusterRecord> DecodeClusterRecord(const std::string& text) {
  ASSIGN_OR_RETURN(const Json json, ParseRecord(text, "a cluster"));
  ClusterRecord cluster;
  Read(json, "id", &cluster.id);
  Read(json, "base_name", &cluster.base_name);
  Read(json, "made_at", &cluster.made_at);
  if (cluster.id.empty()) return MissingField("a cluster", "id");
  return cluster;
}

Result<RunnerRecord> DecodeRunnerRecord(const std::string& text) {
  ASSIGN_OR_RETURN(const Json json, ParseRecord(text, "a runner"));
  RunnerRecord runner;
  Read(json, "id", &runner.id);
  Read(json, "address", &runner.address);
  Read(json, "arithmetic_id", &runner.arithmetic_id);
  Read(json, "base_id", &runner.base_id);
  Read(json, "protocol", &runner.protocol);
  Read(json, "capacity_requests", &runner.capacity_requests);
  Read(json, "running_requests", &runner.running_requests);
  Read(json, "waiting_requests", &runner.waiting_requests);
  Read(json, "pages", &runner.pages);
  Read(json, "free_pages", &runner.free_pages);
  Read(json, "draining", &runner.draining);
  Read(json, "learns", &runner.learns);
  Read(json, "resident", &runner.resident);
  if (runner.id.empty()) return MissingField("a runner", "id");
  if (runner.address.empty()) return MissingField("runner " + runner.id, "address");
  return runner;
}

Result<FrontendRecord> DecodeFrontendRecord(const std::string& text) {
  ASSIGN_OR_RETURN(const Json json, ParseRecord(text, "a frontend"));
  FrontendRecord frontend;
  Read(json, "id", &frontend.id);
  Read(json, "address", &frontend.address);
  Read(json, "contents_address", &frontend.contents_address);
  Read(json, "waiting_requests", &frontend.waiting_requests);
  const auto demand = json.find("demand");
  if (demand != json.end() && demand->is_object()) {
    for (const auto& [digest, requests] : demand->items()) {
      if (requests.is_number()) frontend.demand[digest] = requests.get<double>();
    }
  }
  if (frontend.id.empty()) return MissingField("a frontend", "id");
  return frontend;
}

Result<AdapterVersion> DecodeAdapterVersion(const std::string& text) {
  ASSIGN_OR_RETURN(const Json json, ParseRecord(text, "an adapter"));
  AdapterVersion adapter;
  RegistryEntry& entry = adapter.entry;
  Read(json, "version", &adapter.version);
  Read(json, "name", &entry.name);
  Read(json, "hash", &entry.hash);
  Read(json, "path", &entry.path);
  Read(json, "base_model", &entry.base_model);
  Read(json, "rank_max", &entry.rank_max);
  Read(json, "num_virtual_tokens", &entry.num_virtual_tokens);
  Read(json, "bytes", &entry.bytes);
  Read(json, "tenant", &entry.tenant);
  Read(json, "loaded_at", &entry.loaded_at);
  const auto owner = json.find("owner");
  if (owner != json.end() && owner->is_string()) entry.owner = owner->get<std::string>();
  if (entry.name.empty()) return MissingField("an adapter", "name");
  if (entry.hash.empty()) return MissingField("adapter '" + entry.name + "'", "hash");
  return adapter;
}

Result<TenantRecord> DecodeTenantRecord(const std::string& text) {
  ASSIGN_OR_RETURN(const Json json, ParseRecord(text, "a tenant"));
  TenantRecord tenant;
  Read(json, "name", &tenant.name);
  Read(json, "weight", &tenant.weight);
  if (tenant.name.empty()) return MissingField("a tenant", "name");
  return tenant;
}

Result<BaseModelId> DecodeBaseModel(const std::string& text) {
  ASSIGN_OR_RETURN(const Json json, ParseRecord(text, "a base model"));
  BaseModelId base;
  Read(json, "name", &base.name);
  Read(json, "text_hash", &base.text_hash);
  Read(json, "weights_hash", &base.weights_hash);
  return base;
}

Result<ScaleHint> DecodeScaleHint(const std::string& text) {
  ASSIGN_OR_RETURN(const Json json, ParseRecord(text, "a hint"));
  ScaleHint hint;
  hint.runners_wanted = 0;
  Read(json, "runners", &hint.runners);
  Read(json, "runners_wanted", &hint.runners_wanted);
  Read(json, "startup_seconds", &hint.startup_seconds);
  Read(json, "spare", &hint.spare);
  Read(json, "consolidates", &hint.consolidates);
  if (hint.runners_wanted < 1) return MissingField("a hint", "runners_wanted");
  return hint;
}

}  // namespace graft
