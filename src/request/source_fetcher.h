// Waist 1, beside AdapterSources: machines that fetch adapters of sources for others. A frontend of
// a cluster asks its runners by it; a runner has it of its own sources. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace graft {

// What is to be fetched. It carries names and no tokens: each machine has its own.
struct SourceOrder {
  std::string source;    // its name, as --source gives it
  std::string rest;      // the adapter's name there
  std::string revision;  // a commit, or a version of a prefix
  // Whether hubs are asked by the token that this tenant has, else by the operator's own.
  bool is_tenants = false;
  std::string tenant;
  // Whether the machine that asks knows tenants' tokens. One that does not would let all tenants
  // have what one of them was given.
  bool has_tenant_tokens = false;
};

struct SourceFolder {
  std::string path;  // on the machine that fetched it
  std::string revision;
  int64_t bytes = 0;          // of the files there
  int64_t fetched_bytes = 0;  // 0: all was there
};

class SourceFetcher {
 public:
  virtual ~SourceFetcher() = default;
  // Blocks while it is fetched. kNotFound, kPermissionDenied: there is none for this token.
  // kUnimplemented: what is there is no adapter that is read. Every other failure is the source's,
  // the way's, the disk's or the machine's.
  virtual Result<SourceFolder> Fetch(const SourceOrder& order,
                                     const std::atomic<bool>& is_cancelled) = 0;
  // Removes what Fetch has given, and what belongs to it alone. kFailedPrecondition: it is served.
  virtual Status Drop(const std::string& source, const std::string& path) = 0;
  // The names of the sources that it has.
  virtual std::vector<std::string> names() const = 0;
};

}  // namespace graft
