#include "rpc/adapter_proto.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

ListedAdapter Listed(const std::string& name, AdapterTextPtr text) {
  ListedAdapter adapter;
  adapter.info.name = name;
  adapter.info.hash = "hash of " + name;
  adapter.info.text = std::move(text);
  adapter.state = AdapterState::kHost;
  return adapter;
}

TEST(AdapterProtoTest, OneAloneHasItsText) {
  const AdapterTextPtr text = ShareAdapterText({.chat_template = "hi", .stop_token_ids = {2}});
  ListedAdapter here = Listed("a", text);
  here.info.left_out = "its head";
  const ListedAdapter there = FromProto(ToProto(here));
  EXPECT_EQ(there.info.left_out, "its head");
  EXPECT_EQ(there.info.name, "a");
  EXPECT_EQ(there.info.text, text);
  EXPECT_EQ(there.state, AdapterState::kHost);
  EXPECT_EQ(FromProto(ToProto(Listed("b", nullptr))).info.text, nullptr);
}

TEST(AdapterProtoTest, AListHasEachTextOnce) {
  const AdapterTextPtr large = ShareAdapterText({.chat_template = std::string(100'000, 'x')});
  const AdapterTextPtr small = ShareAdapterText({.stop_token_ids = {7}});
  std::vector<ListedAdapter> adapters;
  for (int i = 0; i < 100; ++i) {
    adapters.push_back(Listed(std::to_string(i), i % 3 == 0   ? large
                                                 : i % 3 == 1 ? small
                                                              : nullptr));
  }
  rpc::AdapterList list;
  ToProto(adapters, list.mutable_adapters());
  EXPECT_LT(list.ByteSizeLong(), 110'000u);
  const std::vector<ListedAdapter> there = FromProto(list.adapters());
  ASSERT_EQ(there.size(), adapters.size());
  for (size_t i = 0; i < there.size(); ++i) {
    EXPECT_EQ(there[i].info.name, adapters[i].info.name);
    EXPECT_EQ(there[i].info.text, adapters[i].info.text) << i;
  }
  // Places that are none, of a runner that is not what it says.
  list.mutable_adapters(2)->set_text_of(3);
  list.mutable_adapters(5)->set_text_of(1000);
  list.mutable_adapters(8)->set_text("no text");
  for (const size_t i : {2, 5, 8}) EXPECT_EQ(FromProto(list.adapters())[i].info.text, nullptr);
}

}  // namespace
}  // namespace graft
