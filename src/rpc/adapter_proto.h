// AdapterInfo and its message, both ways. What travels has been read: its hash is known.
#pragma once

#include <vector>

#include "request/adapter_catalog.h"
#include "rpc/runner.pb.h"

namespace graft {

struct ListedAdapter {
  AdapterInfo info;
  AdapterState state = AdapterState::kFolder;
};

// One alone, which has its text itself.
rpc::Adapter ToProto(const ListedAdapter& adapter);
ListedAdapter FromProto(const rpc::Adapter& proto);

// A list, in which thousands may have the same text.
using AdapterProtos = google::protobuf::RepeatedPtrField<rpc::Adapter>;
void ToProto(const std::vector<ListedAdapter>& adapters, AdapterProtos* protos);
std::vector<ListedAdapter> FromProto(const AdapterProtos& protos);

}  // namespace graft
