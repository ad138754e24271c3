#include "rpc/adapter_proto.h"

#include <unordered_map>
#include <utility>

namespace graft {
namespace {

rpc::Adapter WithoutText(const ListedAdapter& adapter) {
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
  proto.set_changes_nothing(adapter.info.changes_nothing);
  proto.set_left_out(adapter.info.left_out);
  proto.set_revision(adapter.info.revision);
  proto.set_is_looked_up(adapter.info.is_looked_up);
  proto.set_state(static_cast<uint32_t>(adapter.state));
  return proto;
}

}  // namespace

rpc::Adapter ToProto(const ListedAdapter& adapter) {
  rpc::Adapter proto = WithoutText(adapter);
  proto.set_text(EncodeAdapterText(adapter.info.text));
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
                  .loaded_at = proto.loaded_at(),
                  .changes_nothing = proto.changes_nothing(),
                  .left_out = proto.left_out(),
                  .revision = proto.revision(),
                  .is_looked_up = proto.is_looked_up()};
  if (proto.state() <= static_cast<uint32_t>(AdapterState::kResident)) {
    adapter.state = static_cast<AdapterState>(proto.state());
  }
  // What is no text is none: a runner of another version.
  const Result<AdapterTextPtr> text = DecodeAdapterText(proto.text());
  if (text.ok()) adapter.info.text = *text;
  return adapter;
}

void ToProto(const std::vector<ListedAdapter>& adapters, AdapterProtos* protos) {
  std::unordered_map<AdapterTextPtr, uint32_t> places;
  for (const ListedAdapter& adapter : adapters) {
    rpc::Adapter* const proto = protos->Add();
    *proto = WithoutText(adapter);
    if (adapter.info.text == nullptr) continue;
    const auto [place, is_new] =
        places.emplace(adapter.info.text, static_cast<uint32_t>(protos->size()));
    if (is_new) {
      proto->set_text(EncodeAdapterText(adapter.info.text));
    } else {
      proto->set_text_of(place->second);
    }
  }
}

std::vector<ListedAdapter> FromProto(const AdapterProtos& protos) {
  std::vector<ListedAdapter> adapters;
  adapters.reserve(static_cast<size_t>(protos.size()));
  for (const rpc::Adapter& proto : protos) {
    const size_t place = proto.text_of();
    AdapterTextPtr text =
        place > 0 && place <= adapters.size() ? adapters[place - 1].info.text : AdapterTextPtr();
    adapters.push_back(FromProto(proto));
    if (text != nullptr) adapters.back().info.text = std::move(text);
  }
  return adapters;
}

}  // namespace graft
