#include "cluster/cluster_records.h"

#include <unistd.h>

#include <utility>

#include "base/json.h"
#include "base/json_fields.h"

namespace graft {
namespace {

Result<Json> ParseRecord(const std::string& text, const std::string& what) {
  Result<Json> json = ParseJson(text);
  if (json.ok() && json->is_object()) return json;
  return DataLossError("the record is not that of " + what);
}

Status MissingField(const std::string& what, const std::string& field) {
  return DataLossError("the record of " + what + " has no " + field);
}

}  // namespace

ProcessPlace ProcessPlace::Own() {
  char host[256] = {};
  if (gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
  return {host, static_cast<int32_t>(getpid())};
}

std::string EncodeRecord(const RunnerRecord& runner) {
  return DumpJson({{"id", runner.id},
                   {"address", runner.address},
                   {"arithmetic_id", runner.arithmetic_id},
                   {"base_id", runner.base_id},
                   {"host", runner.process.host},
                   {"pid", runner.process.pid},
                   {"protocol", runner.protocol},
                   {"capacity_requests", runner.capacity_requests},
                   {"running_requests", runner.running_requests},
                   {"waiting_requests", runner.waiting_requests},
                   {"pages", runner.pages},
                   {"free_pages", runner.free_pages},
                   {"draining", runner.draining},
                   {"learns", runner.learns},
                   {"num_resident", runner.num_resident}});
}

std::string EncodeRecord(const ClusterRecord& cluster) {
  return DumpJson(
      {{"id", cluster.id}, {"base_name", cluster.base_name}, {"made_at", cluster.made_at}});
}

std::string EncodeRecord(const FrontendRecord& frontend) {
  return DumpJson({{"id", frontend.id},
                   {"address", frontend.address},
                   {"host", frontend.process.host},
                   {"pid", frontend.process.pid},
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
  if (entry.text != nullptr) json["text"] = EncodeAdapterText(entry.text);
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
  ReadField(json, "id", &cluster.id);
  ReadField(json, "base_name", &cluster.base_name);
  ReadField(json, "made_at", &cluster.made_at);
  if (cluster.id.empty()) return MissingField("a cluster", "id");
  return cluster;
}

Result<RunnerRecord> DecodeRunnerRecord(const std::string& text) {
  ASSIGN_OR_RETURN(const Json json, ParseRecord(text, "a runner"));
  RunnerRecord runner;
  ReadField(json, "id", &runner.id);
  ReadField(json, "address", &runner.address);
  ReadField(json, "arithmetic_id", &runner.arithmetic_id);
  ReadField(json, "base_id", &runner.base_id);
  ReadField(json, "host", &runner.process.host);
  ReadField(json, "pid", &runner.process.pid);
  ReadField(json, "protocol", &runner.protocol);
  ReadField(json, "capacity_requests", &runner.capacity_requests);
  ReadField(json, "running_requests", &runner.running_requests);
  ReadField(json, "waiting_requests", &runner.waiting_requests);
  ReadField(json, "pages", &runner.pages);
  ReadField(json, "free_pages", &runner.free_pages);
  ReadField(json, "draining", &runner.draining);
  ReadField(json, "learns", &runner.learns);
  ReadField(json, "num_resident", &runner.num_resident);
  if (runner.id.empty()) return MissingField("a runner", "id");
  if (runner.address.empty()) return MissingField("runner " + runner.id, "address");
  return runner;
}

Result<FrontendRecord> DecodeFrontendRecord(const std::string& text) {
  ASSIGN_OR_RETURN(const Json json, ParseRecord(text, "a frontend"));
  FrontendRecord frontend;
  ReadField(json, "id", &frontend.id);
  ReadField(json, "address", &frontend.address);
  ReadField(json, "host", &frontend.process.host);
  ReadField(json, "pid", &frontend.process.pid);
  ReadField(json, "contents_address", &frontend.contents_address);
  ReadField(json, "waiting_requests", &frontend.waiting_requests);
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
  ReadField(json, "version", &adapter.version);
  ReadField(json, "name", &entry.name);
  ReadField(json, "hash", &entry.hash);
  ReadField(json, "path", &entry.path);
  ReadField(json, "base_model", &entry.base_model);
  ReadField(json, "rank_max", &entry.rank_max);
  ReadField(json, "num_virtual_tokens", &entry.num_virtual_tokens);
  ReadField(json, "bytes", &entry.bytes);
  ReadField(json, "tenant", &entry.tenant);
  ReadField(json, "loaded_at", &entry.loaded_at);
  const auto owner = json.find("owner");
  if (owner != json.end() && owner->is_string()) entry.owner = owner->get<std::string>();
  std::string encoded;
  ReadField(json, "text", &encoded);
  ASSIGN_OR_RETURN(entry.text, DecodeAdapterText(encoded));
  if (entry.name.empty()) return MissingField("an adapter", "name");
  if (entry.hash.empty()) return MissingField("adapter '" + entry.name + "'", "hash");
  return adapter;
}

Result<TenantRecord> DecodeTenantRecord(const std::string& text) {
  ASSIGN_OR_RETURN(const Json json, ParseRecord(text, "a tenant"));
  TenantRecord tenant;
  ReadField(json, "name", &tenant.name);
  ReadField(json, "weight", &tenant.weight);
  if (tenant.name.empty()) return MissingField("a tenant", "name");
  return tenant;
}

Result<BaseModelId> DecodeBaseModel(const std::string& text) {
  ASSIGN_OR_RETURN(const Json json, ParseRecord(text, "a base model"));
  BaseModelId base;
  ReadField(json, "name", &base.name);
  ReadField(json, "text_hash", &base.text_hash);
  ReadField(json, "weights_hash", &base.weights_hash);
  return base;
}

Result<ScaleHint> DecodeScaleHint(const std::string& text) {
  ASSIGN_OR_RETURN(const Json json, ParseRecord(text, "a hint"));
  ScaleHint hint;
  hint.runners_wanted = 0;
  ReadField(json, "runners", &hint.runners);
  ReadField(json, "runners_wanted", &hint.runners_wanted);
  ReadField(json, "startup_seconds", &hint.startup_seconds);
  ReadField(json, "spare", &hint.spare);
  ReadField(json, "consolidates", &hint.consolidates);
  if (hint.runners_wanted < 1) return MissingField("a hint", "runners_wanted");
  return hint;
}

}  // namespace graft
