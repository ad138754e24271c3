// AdapterSupply: adapters of the operator's sources, by name: SOURCE/ORG/NAME[@REVISION] of a hub,
// SOURCE/PATH of a store. However many requests ask for a name, it is looked up once a tenant and
// fetched once. What is not there, or not fit to be served, is remembered, within bounds. Tenants
// take turns at the threads that ask; none of these threads serves requests. Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "request/adapter_catalog.h"
#include "request/adapter_sources.h"
#include "supply/supply_options.h"
#include "supply/supply_route.h"

namespace graft {

class AdapterSupply : public AdapterSources {
 public:
  static constexpr size_t kUnknownMax = 10'000;  // names that are not there, of one tenant
  static constexpr size_t kWaitingMax = 64;      // names that one tenant waits for
  static constexpr int kThreads = 4;

  // `routes`: one for each of options.sources, in their order. `catalog` and `clock` are borrowed.
  AdapterSupply(SupplyOptions options, std::vector<std::unique_ptr<SupplyRoute>> routes,
                AdapterCatalog& catalog, const Clock& clock);
  // Ends what is under way: all that wait are told so.
  ~AdapterSupply() override;

  bool MayHave(const std::string& name) const override;
  bool Permits(const AdapterInfo& adapter, const std::string& tenant) const override;
  void Used(const std::string& name, const std::string& tenant) override;
  void Want(const std::string& name, const std::string& tenant,
            std::function<void(const Status&)> done) override;
  void Bring(const std::string& name,
             std::function<void(const Result<BroughtAdapter>&)> done) override;

 private:
  using Done = std::function<void(const Status&)>;
  using BringDone = std::function<void(const Result<BroughtAdapter>&)>;
  using Key = std::pair<std::string, std::string>;  // tenant, name

  // A name that the catalog lists for a source.
  struct Listed {
    std::string revision;
    int64_t looked_ns = 0;  // when it was last asked whether there is a newer one
    int64_t used_ns = 0;
    std::string path;
    int64_t bytes = 0;         // on the disk
    bool was_fetched = false;  // by this server; what others put there is theirs
  };
  // A folder that nothing is listed for any more.
  struct Leaving {
    SupplyRoute* route = nullptr;
    std::string path;
    int64_t since_ns = 0;
  };
  // The tenant's token was accepted.
  struct Permit {
    std::string revision;  // for this one
    int64_t since_ns = 0;
  };
  // What is known of one tenant.
  struct Tenant {
    std::deque<std::string> waiting;  // names, in order
    int num_running = 0;
    std::map<std::string, Permit> permitted;  // by name
    std::unordered_map<std::string, int64_t> unknown_ns;
    std::list<std::string> unknown_order;  // oldest first
  };
  struct Place {
    SupplyRoute* route = nullptr;
    const SupplySource* source = nullptr;
    std::string rest;
  };

  Place PlaceOf(const std::string& name) const;
  const Secret* TokenOf(const Place& place, const std::string& tenant) const;
  SupplyRights RightsOf(const Place& place, const std::string& tenant) const;
  void Work();
  std::optional<Key> TakeTurn();
  // Whether the name is to be looked up again. Called with the mutex held.
  bool IsOld(const std::string& name, int64_t now_ns);
  void LookUp(const Key& key);
  void BringNow(const std::string& name);
  // What is left once the source said which revision it is.
  void Obtain(const Key& key, const Place& place, const std::string& revision);
  bool IsListed(const std::string& name, const std::string& revision);
  Result<SourceFolder> FetchAndKeep(const Place& place, const std::string& revision,
                                    const SupplyRights& rights, bool* was_fetched);
  Status FetchAndList(const std::string& name, const Place& place, const std::string& revision,
                      const SupplyRights& rights);
  void TakeListed(const std::string& name, const Place& place, const SourceFolder& folder,
                  bool was_fetched);
  // What the client is told; what is the adapter's own fault is remembered.
  Status FetchFailed(const std::string& name, const std::string& revision, const Status& why);
  Status LoadFailed(const std::string& name, const std::string& revision, const std::string& folder,
                    const Status& why);
  void RememberUnfit(const std::string& name, const std::string& revision, const Status& status);
  // Whether another name is listed for the folder; what was fetched is that one's then. Both are
  // called with the mutex held.
  bool HandOn(const std::string& path);
  // The same by any name of the catalog: an admin's, or another frontend's.
  bool IsServed(const std::string& path) const;
  void Leave(SupplyRoute* route, const Listed& left, int64_t since_ns);
  // Forgets the adapters that were used least lately while all take more than they may, and removes
  // folders that were left some time ago.
  void KeepBound();
  std::string LeastUsed() const;
  void Enqueue(const Key& key, Done done);
  void PutInLine(const Key& key);
  // `revision`: that was looked up, where the status is OK.
  void Finish(const Key& key, const Status& status, const std::string& revision = "");
  // Tells those that wait that this tenant has none, and remembers it.
  void FinishUnknown(const Key& key);
  void RememberUnknown(Tenant* tenant, const std::string& name);

  const SupplyOptions options_;
  const std::vector<std::unique_ptr<SupplyRoute>> routes_;
  AdapterCatalog& catalog_;
  const Clock& clock_;
  std::atomic<bool> is_ending_{false};

  mutable std::mutex mutex_;  // of all below; never held while a source or the catalog is asked
  std::condition_variable came_;
  std::map<std::string, Tenant> tenants_;
  std::string last_tenant_;                                // that had a turn
  std::map<Key, std::vector<Done>> asked_;                 // looked up now, or waiting for it
  std::map<std::string, std::vector<BringDone>> brought_;  // by name: for loads, the same
  struct Fetching {
    std::string revision;
    std::vector<Key> others;            // that want it, too
    bool has_others_revisions = false;  // some of them were told of another revision
  };
  std::map<std::string, Fetching> fetching_;  // by name
  std::map<std::string, Listed> listed_;
  std::map<std::string, int64_t> others_looked_ns_;  // by name: of those that are not in listed_
  std::vector<Leaving> leaving_;
  std::set<std::string> removing_;   // paths that were leaving, and are being removed now
  std::condition_variable removed_;  // one of these is gone
  std::map<std::string, std::pair<std::string, Status>> unfit_;  // by name: revision, why
  std::list<std::string> unfit_order_;
  std::vector<std::thread> threads_;
};

}  // namespace graft
