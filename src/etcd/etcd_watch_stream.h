// EtcdWatchStream over gRPC. A thread of its own asks the member that tells the changes for a sign
// of life now and then: a reading that it can answer only with a majority of the members behind it.
// One that cannot is left: changes may be made elsewhere of which it does not hear.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "etcd/etcd_channel.h"
#include "etcd/etcd_client.h"

namespace graft {

// `channels` must outlive it.
Result<std::unique_ptr<EtcdWatchStream>> OpenEtcdWatch(EtcdChannels& channels,
                                                       const std::string& prefix);

}  // namespace graft
