// A question to etcd that is asked again while etcd does not answer: a process may start before
// etcd does, or on a machine that is too busy for etcd to answer in its time.
#pragma once

#include <cstdint>
#include <functional>

#include "base/status.h"
#include "etcd/etcd_client.h"

namespace graft {

constexpr int64_t kEtcdPatienceMs = 30'000;

// What `ask` returned last. It is asked once more whenever its failure passes by itself (see
// IsPassing), until `patience_ms` have gone by; asked twice, it must do no harm. The log tells of
// the first failure. Blocks; any thread.
Status UntilAnswered(EtcdClient& client, int64_t patience_ms, const std::function<Status()>& ask);

}  // namespace graft
