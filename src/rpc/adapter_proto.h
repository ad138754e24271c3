// AdapterInfo and its message, both ways. What travels has been read: its hash is known.
#pragma once

#include "request/adapter_catalog.h"
#include "rpc/runner.pb.h"

namespace graft {

struct ListedAdapter {
  AdapterInfo info;
  AdapterState state = AdapterState::kFolder;
};

rpc::Adapter ToProto(const ListedAdapter& adapter);
ListedAdapter FromProto(const rpc::Adapter& proto);

}  // namespace graft
