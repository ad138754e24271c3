// What happens to etcd and to those around it, and when it ends.
#include <algorithm>
#include <utility>

#include "base/milliseconds.h"
#include "cluster/cluster_keys.h"
#include "hostile/etcd_cluster.h"

namespace graft {
namespace {

constexpr double kEtcdFaultEveryNs = 500e6;

}  // namespace

void EtcdCluster::Fault() {
  if (is_healed_) return;
  switch (Draw(10)) {
    case 0:
    case 1:
      StopAny();
      break;
    case 2:
    case 3:
      CutAny();
      break;
    case 4:
      Kill(Any());
      break;
    case 5:
      EndEtcd();
      break;
    case 6:
      if (etcd_.items().contains(ClusterKey())) etcd_.Keep();
      break;
    case 8: {
      Machine& machine = Any();
      findings_.Note("watches of {} hear nothing any more", machine.id);
      machine.way.is_silent = true;
      loop_.After(MsToNs(Draw(6000)), [&machine] { machine.way.is_silent = false; });
      break;
    }
    default: {
      Machine& machine = Any();
      machine.way.delay_max_ns = MsToNs(1 + Draw(Draw(2) == 0 ? 50 : 2500));
      findings_.Note("calls of {} take up to {} ms", machine.id, NsToMs(machine.way.delay_max_ns));
    }
  }
  loop_.After(static_cast<int64_t>(random_.Exponential() * kEtcdFaultEveryNs), [this] { Fault(); });
}

void EtcdCluster::StopAny() {
  Machine& machine = Any();
  if (machine.member == nullptr) return;
  const int64_t lasts_ms = Draw(Draw(2) == 0 ? 1000 : 8000);
  findings_.Note("{} stops for {} ms", machine.id, lasts_ms);
  machine.member->process().Stop();
  // Another may run there by then, which goes on anyway.
  loop_.After(MsToNs(lasts_ms), [&machine] {
    if (machine.member != nullptr) machine.member->process().Continue();
  });
}

void EtcdCluster::CutAny() {
  Machine& machine = Any();
  const int64_t lasts_ms = Draw(Draw(2) == 0 ? 1000 : 8000);
  findings_.Note("{} is cut from etcd for {} ms", machine.id, lasts_ms);
  machine.way.is_cut = true;
  loop_.After(MsToNs(lasts_ms), [&machine] { machine.way.is_cut = false; });
}

void EtcdCluster::EndEtcd() {
  if (!etcd_.is_up()) return;
  const int64_t lasts_ms = 100 + Draw(Draw(2) == 0 ? 500 : 5000);
  const int64_t how = Draw(4);
  findings_.Note("etcd ends for {} ms, and comes back {}", lasts_ms,
                 how == 0   ? "empty"
                 : how == 1 ? "as it once was"
                            : "with its data");
  etcd_.GoAway();
  loop_.After(MsToNs(lasts_ms), [this, how] {
    if (etcd_.is_up()) return;  // all is well by then
    if (how == 0) {
      etcd_.ComeBackEmpty();
      loop_.After(MsToNs(500 + Draw(3000)), [this] { RestoreIfNeeded(); });
    } else if (how == 1) {
      etcd_.ComeBackAsKept();
    } else {
      etcd_.ComeBack();
    }
    NoteRegistry();
  });
}

// As `graft cluster restore` does it, from what a frontend knows or has on its disk.
void EtcdCluster::RestoreIfNeeded() {
  if (etcd_.items().contains(ClusterKey())) return;
  const auto knows = [](const auto& machine) {
    return machine->member != nullptr && machine->member->watcher() != nullptr;
  };
  const auto who = std::find_if(machines_.begin(), machines_.end(), knows);
  const bool is_known = who != machines_.end();
  if ((!is_known && on_disk_.empty()) || !etcd_.is_up()) {
    loop_.After(MsToNs(500), [this] { RestoreIfNeeded(); });
    return;
  }
  EtcdTransaction records;
  for (const auto& [key, text] :
       is_known ? (*who)->member->watcher()->LastingRecords() : on_disk_) {
    records.then.push_back(EtcdOperation::Put(key, text));
  }
  etcd_.Commit("operator", records);
  NoteRegistry();
  findings_.Note("etcd has again what {} knew", is_known ? (*who)->id : "one that died");
}

void EtcdCluster::Heal() {
  is_healed_ = true;
  findings_.Note("all is well again");
  if (!etcd_.is_up()) etcd_.ComeBack();
  for (const auto& machine : machines_) {
    machine->way = {};
    if (machine->member != nullptr) machine->member->process().Continue();
  }
}

}  // namespace graft
