#include "supply/adapter_supply.h"

#include <algorithm>
#include <filesystem>

#include "base/fault.h"
#include "base/log.h"
#include "base/thread_name.h"
#include "request/adapter_name.h"
#include "sources/hub_files.h"

namespace graft {
namespace {

constexpr size_t kUnfitMax = 10'000;
constexpr int kTriesMax = 2;

// A source's own words may name what a tenant may not know of: the log has them.
Status Unknown(const std::string& name) {
  return NotFoundError("there is no adapter '" + name + "'");
}

// Clients see files by their names alone.
std::string WithoutFolder(std::string message, const std::string& folder) {
  std::error_code error;
  for (const std::string& path :
       {folder, std::filesystem::weakly_canonical(folder, error).string()}) {
    for (const std::string& prefix : {path + "/", path + ": "}) {
      for (size_t at = 0; !path.empty() && (at = message.find(prefix, at)) != std::string::npos;) {
        message.erase(at, prefix.size());
      }
    }
    for (size_t at = 0; !path.empty() && (at = message.find(path, at)) != std::string::npos;) {
      message.replace(at, path.size(), "it");
    }
  }
  return message;
}

// What clients are told where a source gave no adapter; its own words are for the log.
Status ToldOf(const std::string& name, const Status& why) {
  if (why.code() == StatusCode::kCancelled) return why;
  if (why.code() == StatusCode::kOutOfRange) {
    return InvalidArgumentError("'" + name +
                                "' cannot be served: it is larger than all adapters of sources "
                                "together may be on this server's disk");
  }
  if (why.code() == StatusCode::kUnimplemented) {
    const auto* const known = std::ranges::find_if(
        kWhyNoAdapter, [&why](const char* words) { return why.message().ends_with(words); });
    return InvalidArgumentError("'" + name + "' cannot be served: " +
                                (known == std::end(kWhyNoAdapter)
                                     ? "its source has no adapter there that can be fetched"
                                     : *known));
  }
  return UnavailableError("the source of '" + name +
                          "' could not be asked; the server's log says why");
}

// Loads by admins take turns among the tenants, under a name that no key gives a tenant.
const std::string& OperatorsTurn() {
  static const std::string turn(1, '\0');
  return turn;
}

bool IsUnknown(const Status& status) {
  return status.code() == StatusCode::kNotFound || status.code() == StatusCode::kPermissionDenied ||
         status.code() == StatusCode::kInvalidArgument;
}

}  // namespace

AdapterSupply::AdapterSupply(SupplyOptions options,
                             std::vector<std::unique_ptr<SupplyRoute>> routes,
                             AdapterCatalog& catalog, const Clock& clock)
    : options_(std::move(options)), routes_(std::move(routes)), catalog_(catalog), clock_(clock) {
  for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { Work(); });
}

AdapterSupply::~AdapterSupply() {
  {
    std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  came_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  for (const auto& [key, waiting] : std::exchange(asked_, {})) {
    for (const Done& done : waiting) {
      if (done) done(UnavailableError("the server ends"));
    }
  }
  for (const auto& [name, waiting] : std::exchange(brought_, {})) {
    for (const BringDone& done : waiting) done(UnavailableError("the server ends"));
  }
}

AdapterSupply::Place AdapterSupply::PlaceOf(const std::string& name) const {
  const size_t slash = name.find('/');
  if (slash == std::string::npos) return {};
  for (size_t i = 0; i < options_.sources.size(); ++i) {
    if (name.compare(0, slash, options_.sources[i].name) != 0) continue;
    const std::string rest = name.substr(slash + 1);
    if (!routes_[i]->IsName(rest)) return {};
    return {routes_[i].get(), &options_.sources[i], rest};
  }
  return {};
}

bool AdapterSupply::MayHave(const std::string& name) const {
  return CheckAdapterName(name).ok() && PlaceOf(name).route != nullptr && IsAllowed(options_, name);
}

const Secret* AdapterSupply::TokenOf(const Place& place, const std::string& tenant) const {
  return TokenOfTenant(options_, *place.source, tenant);
}

SupplyRights AdapterSupply::RightsOf(const Place& place, const std::string& tenant) const {
  return {.token = TokenOf(place, tenant), .tenant = tenant};
}

// A cluster's registry may list what another frontend's sources have.
bool AdapterSupply::Permits(const AdapterInfo& adapter, const std::string& tenant) const {
  if (!MayHave(adapter.name)) return false;
  if (TokenOf(PlaceOf(adapter.name), tenant) == nullptr) return true;
  std::lock_guard lock(mutex_);
  const auto known = tenants_.find(tenant);
  if (known == tenants_.end()) return false;
  const auto it = known->second.permitted.find(adapter.name);
  return it != known->second.permitted.end() && it->second.revision == adapter.revision &&
         clock_.NowNs() - it->second.since_ns < options_.refresh_ns;
}

// By tenants' tokens a look-up that is old is renewed before the use, since Permits says no.
void AdapterSupply::Used(const std::string& name, const std::string& tenant) {
  const bool renews = MayHave(name) && TokenOf(PlaceOf(name), tenant) == nullptr;
  std::lock_guard lock(mutex_);
  const int64_t now_ns = clock_.NowNs();
  const auto listed = listed_.find(name);
  if (listed != listed_.end()) listed->second.used_ns = now_ns;
  if (!renews || is_ending_ || tenants_[tenant].waiting.size() >= kWaitingMax) return;
  if (IsOld(name, now_ns)) Enqueue({tenant, name}, {});
}

// What is asked now counts as known: a source that is away is asked no sooner again.
bool AdapterSupply::IsOld(const std::string& name, int64_t now_ns) {
  const auto listed = listed_.find(name);
  if (listed != listed_.end()) {
    if (now_ns - listed->second.looked_ns < options_.refresh_ns) return false;
    listed->second.looked_ns = now_ns;
    return true;
  }
  // Another frontend has had it listed.
  if (others_looked_ns_.size() >= kUnfitMax) others_looked_ns_.clear();
  const auto [others, is_new] = others_looked_ns_.try_emplace(name, now_ns);
  if (!is_new && now_ns - others->second < options_.refresh_ns) return false;
  others->second = now_ns;
  return true;
}

void AdapterSupply::Bring(const std::string& name, BringDone done) {
  Status refused;
  {
    std::lock_guard lock(mutex_);
    if (is_ending_) {
      refused = UnavailableError("the server ends");
    } else if (!MayHave(name)) {
      refused = Unknown(name);
    } else if (tenants_[OperatorsTurn()].waiting.size() >= kWaitingMax &&
               !brought_.contains(name)) {
      refused = ResourceExhaustedError("as many names are fetched for loads as may be at once");
    } else {
      const auto [it, is_new] = brought_.try_emplace(name);
      it->second.push_back(std::move(done));
      if (is_new) PutInLine({OperatorsTurn(), name});
      return;
    }
  }
  done(refused);
}

void AdapterSupply::Want(const std::string& name, const std::string& tenant, Done done) {
  Status refused;
  {
    std::lock_guard lock(mutex_);
    Tenant& state = tenants_[tenant];
    const auto unknown = state.unknown_ns.find(name);
    if (is_ending_) {
      refused = UnavailableError("the server ends");
    } else if (!MayHave(name) || (unknown != state.unknown_ns.end() &&
                                  clock_.NowNs() - unknown->second < options_.unknown_ns)) {
      refused = Unknown(name);
    } else if (state.waiting.size() >= kWaitingMax && !asked_.contains({tenant, name})) {
      refused = ResourceExhaustedError(
          "as many names are being looked up as may be at once; try again later");
    } else {
      Enqueue({tenant, name}, std::move(done));
      return;
    }
  }
  done(refused);
}

void AdapterSupply::Enqueue(const Key& key, Done done) {
  const auto [it, is_new] = asked_.try_emplace(key);
  it->second.push_back(std::move(done));
  if (is_new) PutInLine(key);
}

void AdapterSupply::PutInLine(const Key& key) {
  tenants_[key.first].waiting.push_back(key.second);
  came_.notify_one();
}

// Tenants take turns, and none has the last free thread: what it fetches may take minutes.
std::optional<AdapterSupply::Key> AdapterSupply::TakeTurn() {
  std::unique_lock lock(mutex_);
  while (!is_ending_) {
    auto at = tenants_.upper_bound(last_tenant_);
    for (size_t i = 0; i < tenants_.size(); ++i, ++at) {
      if (at == tenants_.end()) at = tenants_.begin();
      Tenant& tenant = at->second;
      if (tenant.waiting.empty() || tenant.num_running >= kThreads - 1) continue;
      Key key(at->first, std::move(tenant.waiting.front()));
      tenant.waiting.pop_front();
      ++tenant.num_running;
      last_tenant_ = at->first;
      return key;
    }
    came_.wait(lock);
  }
  return std::nullopt;
}

void AdapterSupply::Work() {
  NameThread("fetch");
  while (const std::optional<Key> key = TakeTurn()) {
    if (key->first == OperatorsTurn()) {
      BringNow(key->second);
    } else {
      LookUp(*key);
    }
    KeepBound();
    std::lock_guard lock(mutex_);
    --tenants_[key->first].num_running;
    came_.notify_one();
  }
}

void AdapterSupply::LookUp(const Key& key) {
  const auto& [tenant, name] = key;
  const Place place = PlaceOf(name);
  const Result<std::string> revision =
      place.route->RevisionOf(place.rest, RightsOf(place, tenant), is_ending_);
  if (revision.ok()) return Obtain(key, place, *revision);
  const Status& why = revision.status();
  LOG_INFO("looking up '{}' at its source: {}", name, why.message());
  if (IsUnknown(why)) return FinishUnknown(key);
  Finish(key, ToldOf(name, why));
}

void AdapterSupply::BringNow(const std::string& name) {
  const Place place = PlaceOf(name);
  Result<std::string> revision = place.route->RevisionOf(place.rest, {}, is_ending_);
  bool was_fetched = false;
  Result<SourceFolder> folder = revision.ok() ? FetchAndKeep(place, *revision, {}, &was_fetched)
                                              : Result<SourceFolder>(revision.status());
  std::vector<BringDone> waiting;
  {
    std::lock_guard lock(mutex_);
    waiting = std::move(brought_[name]);
    brought_.erase(name);
  }
  Result<BroughtAdapter> brought = Unknown(name);
  if (folder.ok()) {
    brought = BroughtAdapter{.path = folder->path, .revision = folder->revision};
  } else {
    LOG_WARN("adapter '{}' was not fetched for a load: {}", name, folder.status().ToString());
    if (!IsUnknown(folder.status())) brought = ToldOf(name, folder.status());
  }
  for (const BringDone& done : waiting) done(brought);
}

void AdapterSupply::FinishUnknown(const Key& key) {
  const auto& [tenant, name] = key;
  {
    std::lock_guard lock(mutex_);
    tenants_[tenant].permitted.erase(name);
    RememberUnknown(&tenants_[tenant], name);
  }
  Finish(key, Unknown(name));
}

void AdapterSupply::RememberUnknown(Tenant* tenant, const std::string& name) {
  const auto [it, is_new] = tenant->unknown_ns.insert_or_assign(name, clock_.NowNs());
  if (is_new) tenant->unknown_order.push_back(name);
  if (tenant->unknown_order.size() <= kUnknownMax) return;
  tenant->unknown_ns.erase(tenant->unknown_order.front());
  tenant->unknown_order.pop_front();
}

void AdapterSupply::Obtain(const Key& key, const Place& place, const std::string& revision) {
  const auto& [tenant, name] = key;
  Status status;
  {
    std::lock_guard lock(mutex_);
    if (const auto fetching = fetching_.find(name); fetching != fetching_.end()) {
      // The thread that fetches it tells this one, too.
      fetching->second.others.push_back(key);
      if (fetching->second.revision != revision) fetching->second.has_others_revisions = true;
      return;
    }
    const auto unfit = unfit_.find(name);
    if (unfit != unfit_.end() && unfit->second.first == revision) status = unfit->second.second;
    if (status.ok()) fetching_[name].revision = revision;
  }
  if (!status.ok()) return Finish(key, status);
  if (!IsListed(name, revision)) {
    status = FetchAndList(name, place, revision, RightsOf(place, tenant));
  }
  // It was for this tenant's token that there was nothing: others are looked up anew, by theirs.
  // So are those that came when the source had moved on.
  const bool is_unknown = status.code() == StatusCode::kNotFound;
  std::vector<Key> others;
  {
    std::lock_guard lock(mutex_);
    Fetching fetched = std::move(fetching_[name]);
    fetching_.erase(name);
    if (is_unknown || fetched.has_others_revisions) {
      for (const Key& other : fetched.others) PutInLine(other);
    } else {
      others = std::move(fetched.others);
    }
  }
  if (is_unknown) return FinishUnknown(key);
  Finish(key, status, revision);
  for (const Key& other : others) Finish(other, status, revision);
}

// An admin may have unloaded it: then it is listed anew. Another frontend may have listed it.
bool AdapterSupply::IsListed(const std::string& name, const std::string& revision) {
  const Result<AdapterInfo> found = catalog_.Find(name);
  if (!found.ok() || !found->is_looked_up || found->revision != revision) return false;
  // Another program may have taken its files away, which may be read again at any time.
  if (!PlaceOf(name).route->IsThere(found->path)) return false;
  std::lock_guard lock(mutex_);
  const int64_t now_ns = clock_.NowNs();
  const auto listed = listed_.find(name);
  if (listed != listed_.end() && listed->second.revision == revision) {
    listed->second.looked_ns = now_ns;
    return true;
  }
  const Listed before = std::exchange(listed_[name], {.revision = revision,
                                                      .looked_ns = now_ns,
                                                      .used_ns = now_ns,
                                                      .path = found->path,
                                                      .bytes = found->bytes});
  Leave(PlaceOf(name).route, before, now_ns);
  return true;
}

// From its fetch on the folder is not one of those that are about to be removed. `*was_fetched`
// becomes true where this server has fetched it, now or before.
Result<SourceFolder> AdapterSupply::FetchAndKeep(const Place& place, const std::string& revision,
                                                 const SupplyRights& rights, bool* was_fetched) {
  for (;;) {
    Result<SourceFolder> folder = place.route->Fetch(place.rest, revision, rights, is_ending_);
    if (!folder.ok()) return folder;
    std::unique_lock lock(mutex_);
    const bool is_going = removing_.contains(folder->path);
    removed_.wait(lock, [&] { return !removing_.contains(folder->path); });
    const size_t num_left =
        std::erase_if(leaving_, [&](const Leaving& one) { return one.path == folder->path; });
    *was_fetched |= folder->fetched_bytes > 0 || num_left > 0 || is_going;
    if (!is_going) return folder;
  }
}

Status AdapterSupply::FetchAndList(const std::string& name, const Place& place,
                                   const std::string& revision, const SupplyRights& rights) {
  const int64_t begin_ns = clock_.NowNs();
  bool was_fetched = false;
  // What was fetched may have gone by the time that it is loaded: with its machine, too.
  for (int tries = 1;; ++tries) {
    const Result<SourceFolder> folder = FetchAndKeep(place, revision, rights, &was_fetched);
    if (!folder.ok()) return FetchFailed(name, revision, folder.status());
    const int64_t fetched_ns = clock_.NowNs();
    const Status loaded = catalog_
                              .Load({.name = name,
                                     .path = folder->path,
                                     .replace = true,
                                     .fetched_revision = folder->revision,
                                     .is_looked_up = true})
                              .status();
    if (loaded.code() == StatusCode::kNotFound && tries < kTriesMax) continue;
    if (!loaded.ok()) {
      const Status told = LoadFailed(name, revision, folder->path, loaded);
      // What is not fit to be served is of no use; the rest may be asked for again.
      const bool is_unfit = told.code() == StatusCode::kInvalidArgument;
      std::lock_guard lock(mutex_);
      Leave(place.route, {.path = folder->path, .was_fetched = was_fetched},
            clock_.NowNs() - (is_unfit ? options_.kept_ns : 0));
      return told;
    }
    TakeListed(name, place, *folder, was_fetched);
    LOG_INFO(
        "adapter '{}' is served, revision {}: {} bytes fetched in {:.3f} s, listed in {:.3f} s",
        name, folder->revision, folder->fetched_bytes, NsToSeconds(fetched_ns - begin_ns),
        NsToSeconds(clock_.NowNs() - fetched_ns));
    return OkStatus();
  }
}

void AdapterSupply::TakeListed(const std::string& name, const Place& place,
                               const SourceFolder& folder, bool was_fetched) {
  std::lock_guard lock(mutex_);
  const int64_t now_ns = clock_.NowNs();
  const Listed before = std::exchange(listed_[name], {.revision = folder.revision,
                                                      .looked_ns = now_ns,
                                                      .used_ns = now_ns,
                                                      .path = folder.path,
                                                      .bytes = folder.bytes,
                                                      .was_fetched = was_fetched});
  Leave(place.route, before, now_ns);  // of an older revision, or the same folder
}

// kNotFound: for this tenant's token there is none.
Status AdapterSupply::FetchFailed(const std::string& name, const std::string& revision,
                                  const Status& why) {
  if (why.code() == StatusCode::kCancelled) return why;  // the server ends
  LOG_WARN("adapter '{}', revision {}, was not fetched: {}", name, revision, why.ToString());
  if (why.code() == StatusCode::kNotFound || why.code() == StatusCode::kPermissionDenied) {
    return Unknown(name);
  }
  Status told = ToldOf(name, why);
  if (told.code() == StatusCode::kInvalidArgument) RememberUnfit(name, revision, told);
  return told;
}

Status AdapterSupply::LoadFailed(const std::string& name, const std::string& revision,
                                 const std::string& folder, const Status& why) {
  if (why.code() == StatusCode::kCancelled) return why;
  LOG_WARN("adapter '{}', revision {}, is not served: {}", name, revision, why.ToString());
  const std::string told = "'" + name + "' cannot be served: ";
  // What went meanwhile may come again.
  if (why.code() == StatusCode::kNotFound) {
    return UnavailableError(told + "its files were removed meanwhile; try again later");
  }
  const std::string words = WithoutFolder(why.message(), folder);
  if (IsPassing(why)) return Status(why.code(), words);
  // The list of adapters is full, which says nothing of this one.
  if (why.code() == StatusCode::kFailedPrecondition) return UnavailableError(told + words);
  // The client's own: 4xx, with the line that says why.
  const Status status = InvalidArgumentError(told + words);
  RememberUnfit(name, revision, status);
  return status;
}

void AdapterSupply::RememberUnfit(const std::string& name, const std::string& revision,
                                  const Status& status) {
  std::lock_guard lock(mutex_);
  if (!unfit_.contains(name)) unfit_order_.push_back(name);
  unfit_[name] = {revision, status};
  if (unfit_order_.size() <= kUnfitMax) return;
  unfit_.erase(unfit_order_.front());
  unfit_order_.pop_front();
}

// Several names may have one folder: a branch, and the commit that it is at.
bool AdapterSupply::HandOn(const std::string& path) {
  for (auto& [name, listed] : listed_) {
    if (listed.path != path) continue;
    listed.was_fetched = true;
    return true;
  }
  return false;
}

bool AdapterSupply::IsServed(const std::string& path) const {
  constexpr size_t kPiece = 512;
  for (std::string last;;) {
    const std::vector<AdapterInfo> infos = catalog_.ListAfter(last, kPiece);
    for (const AdapterInfo& info : infos) {
      if (info.path == path) return true;
    }
    if (infos.size() < kPiece) return false;
    last = infos.back().name;
  }
}

void AdapterSupply::Leave(SupplyRoute* route, const Listed& left, int64_t since_ns) {
  // Without a bound nothing is removed.
  if (options_.bytes_max == 0 || !left.was_fetched || HandOn(left.path)) return;
  leaving_.push_back({route, left.path, since_ns});
}

// "" where all that may go was used lately, or what is there is not too much.
std::string AdapterSupply::LeastUsed() const {
  int64_t bytes = 0;
  const int64_t now_ns = clock_.NowNs();
  const std::pair<const std::string, Listed>* least = nullptr;
  for (const auto& one : listed_) {
    bytes += one.second.bytes;
    const bool may_go = now_ns - one.second.used_ns >= options_.kept_ns;
    if (may_go && (least == nullptr || one.second.used_ns < least->second.used_ns)) least = &one;
  }
  return least == nullptr || bytes <= options_.bytes_max ? "" : least->first;
}

void AdapterSupply::KeepBound() {
  if (options_.bytes_max == 0) return;
  std::vector<Leaving> gone;
  std::vector<std::string> forgotten;
  {
    std::lock_guard lock(mutex_);
    const int64_t now_ns = clock_.NowNs();
    for (std::string name = LeastUsed(); !name.empty(); name = LeastUsed()) {
      const Listed left = std::move(listed_[name]);
      listed_.erase(name);
      Leave(PlaceOf(name).route, left, now_ns);
      forgotten.push_back(std::move(name));
    }
    const auto is_over = [&](const Leaving& one) {
      return now_ns - one.since_ns >= options_.kept_ns;
    };
    for (const Leaving& one : leaving_) {
      if (!is_over(one) || HandOn(one.path)) continue;  // listed again meanwhile
      gone.push_back(one);
      removing_.insert(one.path);
    }
    std::erase_if(leaving_, is_over);
  }
  for (const std::string& name : forgotten) {
    const Status status = catalog_.Unload(name, "");
    LOG_INFO("adapter '{}' is no longer listed: others of the sources need its room{}", name,
             status.ok() ? "" : " (" + status.message() + ")");
  }
  for (const Leaving& one : gone) {
    const Status status = IsServed(one.path) ? OkStatus() : one.route->Remove(one.path);
    if (!status.ok()) LOG_WARN("{}", status.message());
    std::lock_guard lock(mutex_);
    removing_.erase(one.path);
    removed_.notify_all();
  }
}

void AdapterSupply::Finish(const Key& key, const Status& status, const std::string& revision) {
  std::vector<Done> waiting;
  {
    std::lock_guard lock(mutex_);
    const auto it = asked_.find(key);
    if (it == asked_.end()) return;
    waiting = std::move(it->second);
    asked_.erase(it);
    Tenant& tenant = tenants_[key.first];
    if (status.ok()) tenant.permitted[key.second] = {revision, clock_.NowNs()};
  }
  for (const Done& done : waiting) {
    if (done) done(status);
  }
}

}  // namespace graft
