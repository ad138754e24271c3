#include "rpc/adapter_proto.h"

namespace graft {

rpc::Adapter ToProto(const ListedAdapter& adapter) {
  rpc::Adapter proto;
  proto.set_name(adapter.info.name);
  proto.set_hash(adapter.info.hash);
  proto.set_path(adapter.info.path);
  proto.set_base_model(adapter.info.base_model);
  proto.set_rank_max(adapter.info.rank_max);
  proto.set_num_virtual_tokens(adapter.info.num_virtual_tokens);
  proto.set_bytes(adapter.info.bytes);
  proto.set_tenant(adapter.info.tenant);
  proto.set_loaded_at(adapter.info.loaded_at);
  proto.set_state(static_cast<uint32_t>(adapter.state));
  return proto;
}

ListedAdapter FromProto(const rpc::Adapter& proto) {
  ListedAdapter adapter;
  adapter.info = {.name = proto.name(),
                  .hash = proto.hash(),
                  .path = proto.path(),
                  .base_model = proto.base_model(),
                  .rank_max = proto.rank_max(),
                  .num_virtual_tokens = proto.num_virtual_tokens(),
                  .bytes = proto.bytes(),
                  .tenant = proto.tenant(),
                  .loaded_at = proto.loaded_at()};
  if (proto.state() <= static_cast<uint32_t>(AdapterState::kResident)) {
    adapter.state = static_cast<AdapterState>(proto.state());
  }
  return adapter;
}

}  // namespace graft
