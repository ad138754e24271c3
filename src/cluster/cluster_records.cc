#include "cluster/cluster_records.h"

#include <unistd.h>

#include "base/record_fields.h"

namespace graft {

// The fields of each record, in no namespace of this file's own: templates find them by a record's
// type.

template <MaybeConst<ClusterRecord> Record, typename Visit>
void VisitFields(Record& cluster, const Visit& visit) {
  visit("id", cluster.id);
  visit("base_name", cluster.base_name);
  visit("made_at", cluster.made_at);
}

template <MaybeConst<RunnerRecord> Record, typename Visit>
void VisitFields(Record& runner, const Visit& visit) {
  visit("id", runner.id);
  visit("address", runner.address);
  visit("arithmetic_id", runner.arithmetic_id);
  visit("base_id", runner.base_id);
  visit("host", runner.process.host);
  visit("pid", runner.process.pid);
  visit("protocol", runner.protocol);
  visit("capacity_requests", runner.capacity_requests);
  visit("running_requests", runner.running_requests);
  visit("waiting_requests", runner.waiting_requests);
  visit("pages", runner.pages);
  visit("free_pages", runner.free_pages);
  visit("draining", runner.draining);
  visit("learns", runner.learns);
  visit("num_resident", runner.num_resident);
  visit("sources", runner.sources);
}

template <MaybeConst<FrontendRecord> Record, typename Visit>
void VisitFields(Record& frontend, const Visit& visit) {
  visit("id", frontend.id);
  visit("address", frontend.address);
  visit("host", frontend.process.host);
  visit("pid", frontend.process.pid);
  visit("demand", frontend.demand);
  visit("contents_address", frontend.contents_address);
  visit("waiting_requests", frontend.waiting_requests);
}

// But for its text, which another record has too.
template <MaybeConst<AdapterVersion> Record, typename Visit>
void VisitFields(Record& adapter, const Visit& visit) {
  auto& entry = adapter.entry;
  visit("version", adapter.version);
  visit("name", entry.name);
  visit("hash", entry.hash);
  visit("path", entry.path);
  visit("base_model", entry.base_model);
  visit("rank_max", entry.rank_max);
  visit("num_virtual_tokens", entry.num_virtual_tokens);
  visit("bytes", entry.bytes);
  visit("tenant", entry.tenant);
  visit("loaded_at", entry.loaded_at);
  visit("owner", entry.owner);
  visit("revision", entry.revision);
  visit("is_looked_up", entry.is_looked_up);
}

template <MaybeConst<TenantRecord> Record, typename Visit>
void VisitFields(Record& tenant, const Visit& visit) {
  visit("name", tenant.name);
  visit("weight", tenant.weight);
}

template <MaybeConst<BaseModelId> Record, typename Visit>
void VisitFields(Record& base, const Visit& visit) {
  visit("name", base.name);
  visit("text_hash", base.text_hash);
  visit("weights_hash", base.weights_hash);
}

template <MaybeConst<ScaleHint> Record, typename Visit>
void VisitFields(Record& hint, const Visit& visit) {
  visit("runners", hint.runners);
  visit("runners_wanted", hint.runners_wanted);
  visit("startup_seconds", hint.startup_seconds);
  visit("spare", hint.spare);
  visit("consolidates", hint.consolidates);
}

ProcessPlace ProcessPlace::Own() {
  char host[256] = {};
  if (gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
  return {host, static_cast<int32_t>(getpid())};
}

std::string EncodeRecord(const RunnerRecord& runner) { return DumpJson(FieldsOf(runner)); }
std::string EncodeRecord(const ClusterRecord& cluster) { return DumpJson(FieldsOf(cluster)); }
std::string EncodeRecord(const FrontendRecord& frontend) { return DumpJson(FieldsOf(frontend)); }
std::string EncodeRecord(const TenantRecord& tenant) { return DumpJson(FieldsOf(tenant)); }
std::string EncodeRecord(const BaseModelId& base) { return DumpJson(FieldsOf(base)); }
std::string EncodeRecord(const ScaleHint& hint) { return DumpJson(FieldsOf(hint)); }

std::string EncodeRecord(const AdapterVersion& adapter) {
  Json json = FieldsOf(adapter);
  if (adapter.entry.text != nullptr) json["text"] = EncodeAdapterText(adapter.entry.text);
  return DumpJson(json);
}

Result<ClusterRecord> DecodeClusterRecord(const std::string& text) {
  return RecordOf<ClusterRecord>(text, "a cluster", {{"id", &ClusterRecord::id}});
}

Result<RunnerRecord> DecodeRunnerRecord(const std::string& text) {
  return RecordOf<RunnerRecord>(text, "a runner",
                                {{"id", &RunnerRecord::id}, {"address", &RunnerRecord::address}});
}

Result<FrontendRecord> DecodeFrontendRecord(const std::string& text) {
  return RecordOf<FrontendRecord>(text, "a frontend", {{"id", &FrontendRecord::id}});
}

Result<AdapterVersion> DecodeAdapterVersion(const std::string& text) {
  ASSIGN_OR_RETURN(const Json json, ParseRecord(text, "an adapter"));
  AdapterVersion adapter;
  ReadFields(json, &adapter);
  AdapterInfo& entry = adapter.entry;
  std::string encoded;
  ReadField(json, "text", &encoded);
  ASSIGN_OR_RETURN(entry.text, DecodeAdapterText(encoded));
  if (entry.name.empty()) return MissingField("an adapter", "name");
  if (entry.hash.empty()) return MissingField("adapter '" + entry.name + "'", "hash");
  return adapter;
}

Result<TenantRecord> DecodeTenantRecord(const std::string& text) {
  return RecordOf<TenantRecord>(text, "a tenant", {{"name", &TenantRecord::name}});
}

Result<BaseModelId> DecodeBaseModel(const std::string& text) {
  return RecordOf<BaseModelId>(text, "a base model");
}

Result<ScaleHint> DecodeScaleHint(const std::string& text) {
  ASSIGN_OR_RETURN(const Json json, ParseRecord(text, "a hint"));
  ScaleHint hint;
  hint.runners_wanted = 0;
  ReadFields(json, &hint);
  if (hint.runners_wanted < 1) return MissingField("a hint", "runners_wanted");
  return hint;
}

}  // namespace graft
