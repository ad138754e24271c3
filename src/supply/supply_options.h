// What an operator says of sources of adapters: --source NAME=hf: or NAME=s3://BUCKET/PREFIX, and
// --allow PATTERN, without which no name is looked up. Plain data.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "sources/s3_client.h"
#include "sources/secret.h"

namespace graft {

struct SupplySource {
  std::string name;
  bool is_hub = true;
  S3Name store;  // where it is none
};

struct SupplyOptions {
  std::vector<SupplySource> sources;
  std::vector<std::string> allow;  // patterns of whole names: "hub/acme/*"
  // By tenant, for hubs. Where there are any, a tenant has what its own token is given; one
  // without a token has what is public. Empty: all have what HF_TOKEN is given.
  std::map<std::string, Secret> tenant_tokens;
  bool has_tenant_tokens = false;
  int64_t unknown_ns = int64_t{60} * 1'000'000'000;   // how long a name that is not there stays so
  int64_t refresh_ns = int64_t{600} * 1'000'000'000;  // how old what is known may be, rights too
  // On the disk, of what is listed; 0: no bound. What was used within `kept_ns` stays, and a folder
  // stays for as long after its adapter is no longer listed: requests may still run on it.
  int64_t bytes_max = 0;
  int64_t kept_ns = int64_t{3600} * 1'000'000'000;
};

// "NAME=hf:" or "NAME=s3://BUCKET/PREFIX". kInvalidArgument.
Result<SupplySource> ParseSupplySource(std::string_view text);

// Whether a pattern of `options.allow` lets the whole name through.
bool IsAllowed(const SupplyOptions& options, const std::string& name);

// The token that a source is asked by for a tenant. Null: the operator's; empty: the tenant has
// none of its own.
const Secret* TokenOfTenant(const SupplyOptions& options, const SupplySource& source,
                            const std::string& tenant);

// From --source, --allow and the file of --source-tokens, {"TENANT": "TOKEN"}; "" for none.
Result<SupplyOptions> SupplyOptionsOf(const std::vector<std::string>& sources,
                                      const std::vector<std::string>& allow,
                                      const std::string& tokens_file);

}  // namespace graft
