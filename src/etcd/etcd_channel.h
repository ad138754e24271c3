// The connections behind EtcdClient, for the files of this folder that speak gRPC themselves: one
// channel per endpoint, the one that answered last first. Thread-safe.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "etcd/etcd_client.h"

namespace graft {

using EtcdDeadline = std::chrono::system_clock::time_point;

struct EtcdChannels {
  EtcdOptions options;
  std::string name;
  std::vector<std::shared_ptr<grpc::Channel>> channels;  // shared: gRPC's interface
  std::atomic<size_t> current{0};                        // of channels
  std::mutex token_mutex;
  std::string token;  // "": none yet, or no user

  // The current channel once it is connected, or another that is; kUnavailable if none is.
  Result<std::shared_ptr<grpc::Channel>> Connect(EtcdDeadline deadline);
  // Makes the next endpoint the current one, because `failed` did not answer.
  void Leave(const std::shared_ptr<grpc::Channel>& failed);
  // Adds to the call's metadata the user's token, and that only a member with a leader may answer.
  Status Prepare(const std::shared_ptr<grpc::Channel>& channel, grpc::ClientContext* context);
  void ForgetToken();
  // What a failed call means for its caller; `what` was asked.
  Status Explain(const grpc::Status& status, const std::string& what) const;
};

// The channels of a client that EtcdClient::Make gave.
EtcdChannels& ChannelsOf(EtcdClient& client);

// EtcdWatchStream over gRPC. A thread of its own now and then asks the member that sends the
// changes for a sign of life: a read that a member can answer only with a majority of members
// behind it. A member that cannot answer is left, because changes may be made elsewhere of which it
// does not hear. `channels` must outlive the stream.
Result<std::unique_ptr<EtcdWatchStream>> OpenEtcdWatch(EtcdChannels& channels,
                                                       const std::string& prefix);

}  // namespace graft
