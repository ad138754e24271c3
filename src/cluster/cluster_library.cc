#include "cluster/cluster_library.h"

#include <utility>

#include "cluster/cluster_frontend.h"
#include "cluster/cluster_runner.h"
#include "cluster/cluster_store.h"
#include "cluster/runner_set.h"
#include "etcd/etcd_client.h"
#include "etcd/etcd_patience.h"
#include "rpc/grpc_log.h"
#include "rpc/runner_service.h"

namespace graft {
namespace {

class RunnerOverGrpc : public ServedRunner {
 public:
  explicit RunnerOverGrpc(std::unique_ptr<RunnerService> service) : service_(std::move(service)) {}
  int port() const override { return service_->port(); }
  void OnDelivered() override { service_->OnDelivered(); }
  void OnStep(const StepNews& news) override { service_->OnStep(news); }
  void BeginDrain() override { service_->BeginDrain(); }

 private:
  const std::unique_ptr<RunnerService> service_;
};

class GrpcClusterLibrary : public ClusterLibrary {
 public:
  Result<std::unique_ptr<ServedRunner>> ServeRunner(
      const RunnerServiceOptions& options, Generator& generator, AdapterCatalog& catalog,
      std::function<RunnerLoad()> load) const override {
    ASSIGN_OR_RETURN(auto service,
                     RunnerService::Start(options, generator, catalog, std::move(load)));
    return std::unique_ptr<ServedRunner>(std::make_unique<RunnerOverGrpc>(std::move(service)));
  }
  Result<std::unique_ptr<RunnersInReach>> ReachRunners(
      const RunnerSetOptions& options) const override {
    ASSIGN_OR_RETURN(auto runners, RunnerSet::Start(options));
    return std::unique_ptr<RunnersInReach>(std::move(runners));
  }
  Result<std::unique_ptr<ServedRunner>> ServeClusterRunner(
      const RunnerServiceOptions& service, const ClusterRunnerOptions& options,
      Generator& generator, AdapterCatalog& catalog,
      std::function<RunnerLoad()> load) const override {
    ASSIGN_OR_RETURN(auto runner,
                     ClusterRunner::Start(service, options, generator, catalog, std::move(load)));
    return std::unique_ptr<ServedRunner>(std::move(runner));
  }
  Result<std::unique_ptr<RunnersInReach>> ReachCluster(
      const RunnerSetOptions& runners, const ClusterFrontendOptions& options) const override {
    ASSIGN_OR_RETURN(auto frontend, ClusterFrontend::Start(runners, options));
    return std::unique_ptr<RunnersInReach>(std::move(frontend));
  }
  Result<std::unique_ptr<ClusterAdmin>> Administer(const EtcdOptions& etcd) const override {
    return MakeClusterAdmin(etcd);
  }
  Status CheckEtcd(const EtcdOptions& etcd, bool waits) const override {
    ASSIGN_OR_RETURN(const auto client, EtcdClient::Make(etcd));
    return UntilAnswered(*client, waits ? kEtcdPatienceMs : 0,
                         [&] { return ClusterStore::Open(*client).status(); });
  }
};

}  // namespace
}  // namespace graft

const graft::ClusterLibrary* graft_cluster_library() {
  graft::TakeGrpcLog();
  static const graft::GrpcClusterLibrary library;
  return &library;
}

const char* graft_cluster_library_version() { return GRAFT_VERSION; }
