#include "bench/adapter_first_use.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/fault.h"
#include "base/random.h"
#include "profile/report.h"
#include "profile/synthetic_adapter.h"
#include "sim/simulation_report.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

constexpr int kAlone = 5;       // adapters that are first used by one request
constexpr int kAdapters = 100;  // by many at once, if the options say nothing else
constexpr int kRequests = 256;  // the same

// A folder for as long as the suite runs.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> Make() {
    std::string path = fs::temp_directory_path().string() + "/graft-first-use-XXXXXX";
    if (mkdtemp(path.data()) == nullptr) return SystemError(errno, "cannot make " + path);
    return TemporaryFolder(std::move(path));
  }
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder() {
    std::error_code error;
    if (!path_.empty()) fs::remove_all(path_, error);
  }
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

class FirstUseBench {
 public:
  FirstUseBench(AdapterBench& bench, std::string folder)
      : bench_(bench),
        folder_(std::move(folder)),
        num_adapters_(bench.CountsOr({kAdapters}).front()),
        num_requests_(bench.options().in_flight > 0 ? bench.options().in_flight : kRequests) {}

  // `what` names the row: whether hashes are remembered from the run before.
  Status Run(const std::string& what);
  Status WriteAdapters() const;
  OrderedJson rows() const { return rows_; }

 private:
  static std::string NameOf(int adapter) { return "random-" + std::to_string(adapter); }
  Result<std::unique_ptr<Runtime>> Start() const;
  Result<LoadRequest> RequestFor(Runtime& server, int adapter, Random& random) const;
  // First tokens' milliseconds.
  Result<std::vector<double>> Ask(Runtime& server, const std::vector<int>& adapters,
                                  Random& random) const;

  AdapterBench& bench_;
  const std::string folder_;
  const int num_adapters_;
  const int num_requests_;
  OrderedJson rows_ = OrderedJson::array();
};

Status FirstUseBench::WriteAdapters() const {
  const SyntheticFleet fleet = bench_.Fleet(num_adapters_);
  for (int i = 0; i < num_adapters_ + kAlone; ++i) {
    const int rank = fleet.ranks[static_cast<size_t>(i) % fleet.ranks.size()];
    RETURN_IF_ERROR(WriteSyntheticAdapter(folder_ + "/adapters/" + NameOf(i), bench_.model().config,
                                          rank, fleet.seed + static_cast<uint64_t>(i),
                                          fleet.modules));
  }
  return OkStatus();
}

Result<std::unique_ptr<Runtime>> FirstUseBench::Start() const {
  RuntimeOptions options = bench_.ServerOptions();
  options.adapters = folder_ + "/adapters";
  options.adapter_hashes = folder_ + "/hashes";
  options.read_at_start_gib = 0.0;
  ASSIGN_OR_RETURN(std::unique_ptr<Runtime> server,
                   Runtime::Create(options, bench_.model(), /*lora=*/true));
  RETURN_IF_ERROR(server->LoadAdapters());
  server->RecordGraphs(/*quiet=*/true);
  server->engine().Start();
  return server;
}

Result<LoadRequest> FirstUseBench::RequestFor(Runtime& server, int adapter, Random& random) const {
  const AdapterBenchOptions& o = bench_.options();
  ASSIGN_OR_RETURN(const AdapterInfo info, server.catalog().Find(NameOf(adapter)));
  LoadRequest request;
  request.adapter_hash = info.key();
  request.output_tokens = o.output[0];
  request.prompt_tokens.resize(static_cast<size_t>(o.prompt[0]));
  for (int32_t& token : request.prompt_tokens) {
    token = static_cast<int32_t>(random.Below(bench_.model().config.vocab_size));
  }
  return request;
}

Result<std::vector<double>> FirstUseBench::Ask(Runtime& server, const std::vector<int>& adapters,
                                               Random& random) const {
  std::vector<LoadRequest> requests;
  for (const int adapter : adapters) {
    ASSIGN_OR_RETURN(LoadRequest request, RequestFor(server, adapter, random));
    requests.push_back(std::move(request));
  }
  const OpenLoadResult result = RunOpenLoad(server.engine(), requests, {});
  std::vector<double> first_token_ms;
  for (const OpenLoadTiming& timing : result.requests) {
    RETURN_IF_ERROR(timing.status);
    first_token_ms.push_back(timing.first_token_ms());
  }
  return first_token_ms;
}

Status FirstUseBench::Run(const std::string& what) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Runtime> server, Start());
  Random random(bench_.options().fleet.seed);
  std::vector<double> first_ms;
  std::vector<double> resident_ms;
  for (int i = 0; i < kAlone; ++i) {
    for (std::vector<double>* const times : {&first_ms, &resident_ms}) {
      ASSIGN_OR_RETURN(const std::vector<double> ms, Ask(*server, {num_adapters_ + i}, random));
      times->push_back(ms.front());
    }
  }
  std::vector<int> adapters;
  for (int i = 0; i < num_requests_; ++i) adapters.push_back(i % num_adapters_);
  ASSIGN_OR_RETURN(const std::vector<double> together_ms, Ask(*server, adapters, random));
  const Percentiles alone = ComputePercentiles(first_ms);
  const Percentiles resident = ComputePercentiles(resident_ms);
  const Percentiles together = ComputePercentiles(together_ms);
  std::printf(
      "%-10s alone: first token %.0f ms at first use, %.0f ms resident; %d requests at once for %d "
      "adapters: P50 %.0f ms, P99 %.0f ms\n",
      what.c_str(), alone.p50, resident.p50, num_requests_, num_adapters_, together.p50,
      together.p99);
  rows_.push_back({{"hashes", what},
                   {"adapters", num_adapters_},
                   {"requests", num_requests_},
                   {"alone_first_token_ms", ToJson(alone)},
                   {"alone_resident_first_token_ms", ToJson(resident)},
                   {"first_token_ms", ToJson(together)}});
  return OkStatus();
}

}  // namespace

Result<OrderedJson> RunFirstUse(AdapterBench& bench) {
  ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Make());
  FirstUseBench first_use(bench, folder.path());
  RETURN_IF_ERROR(first_use.WriteAdapters());
  RETURN_IF_ERROR(first_use.Run("unknown"));
  RETURN_IF_ERROR(first_use.Run("remembered"));
  return first_use.rows();
}

}  // namespace graft
