// What the cluster's records in etcd say, and their text: JSON, of which a reader skips fields that
// it does not know, so that two versions share one cluster. Plain data; pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "placement/scale_hint.h"
#include "registry/adapter_registry.h"
#include "rpc/protocol.h"

namespace graft {

// The cluster that owns this etcd. Never changed: other records are written only while it stands.
struct ClusterRecord {
  std::string id;  // random
  std::string base_name;
  int64_t made_at = 0;  // Unix seconds

  bool operator==(const ClusterRecord&) const = default;
};

// The machine and process that wrote a record, for people who look for it.
struct ProcessPlace {
  std::string host;
  int32_t pid = 0;  // 0: it does not say

  bool operator==(const ProcessPlace&) const = default;
  // This one's.
  static ProcessPlace Own();
};

// A runner as it last told of itself.
struct RunnerRecord {
  std::string id;
  std::string address;        // host:port
  std::string arithmetic_id;  // runners of one id give the same bits
  std::string base_id;        // of the weights
  ProcessPlace process;
  int32_t protocol = 0;
  int32_t capacity_requests = 0;  // at the same time
  int32_t running_requests = 0;
  int32_t waiting_requests = 0;
  int64_t pages = 0;
  int64_t free_pages = 0;
  bool draining = false;  // takes no new requests
  bool learns = false;    // takes fine-tuning jobs
  // On its device. Which they are it tells frontends itself: etcd keeps all that it was ever told
  // until it is compacted, and these change with every step.
  int64_t num_resident = 0;
  std::vector<std::string> sources = {};  // names of those that it fetches adapters of

  bool operator==(const RunnerRecord&) const = default;
};

struct FrontendRecord {
  std::string id;
  std::string address;
  std::map<std::string, double> demand;  // by key's digest: requests a minute that were asked for
  ProcessPlace process = {};
  std::string contents_address = {};  // where its ContentStore is served; "": it has none
  int64_t waiting_requests = 0;       // that are on no runner

  bool operator==(const FrontendRecord&) const = default;
};

// What a name leads to, or led to.
struct AdapterVersion {
  int64_t version = 0;  // of the name, counted from 1
  AdapterInfo entry;

  bool operator==(const AdapterVersion&) const = default;
};

struct TenantRecord {
  std::string name;
  double weight = 1;  // its share of a full runner, relative to others

  bool operator==(const TenantRecord&) const = default;
};

std::string EncodeRecord(const RunnerRecord& runner);
std::string EncodeRecord(const ClusterRecord& cluster);
std::string EncodeRecord(const FrontendRecord& frontend);
std::string EncodeRecord(const AdapterVersion& adapter);
std::string EncodeRecord(const TenantRecord& tenant);
std::string EncodeRecord(const BaseModelId& base);
std::string EncodeRecord(const ScaleHint& hint);

// kDataLoss for what is no such record.
Result<ClusterRecord> DecodeClusterRecord(const std::string& text);
Result<RunnerRecord> DecodeRunnerRecord(const std::string& text);
Result<FrontendRecord> DecodeFrontendRecord(const std::string& text);
Result<AdapterVersion> DecodeAdapterVersion(const std::string& text);
Result<TenantRecord> DecodeTenantRecord(const std::string& text);
Result<BaseModelId> DecodeBaseModel(const std::string& text);
Result<ScaleHint> DecodeScaleHint(const std::string& text);

}  // namespace graft
