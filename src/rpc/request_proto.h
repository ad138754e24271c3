// Request and its message, both ways, every field. What comes from outside has any values: code
// that takes a Request checks them (ValidateSamplingParams, RefuseUnserved).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>

#include "base/shared_text.h"
#include "base/token_set.h"
#include "request/request.h"
#include "request/token_event.h"
#include "rpc/request.pb.h"
#include "rpc/token_event.pb.h"

namespace graft {

// Data that requests have in common, such as the choices of one request: grammars, and the token
// ids that may be drawn. Each request's message carries them, and one copy is kept for as long as
// one of the requests lives. One thread.
class RequestContents {
 public:
  SharedText TextOf(const std::string& text);
  // A set of ids in ascending order is found again, one in another order is not.
  TokenSet TokensOf(std::span<const int32_t> tokens);

  // Contents that a request has, or had when they were looked at last.
  size_t num_known() const { return texts_.by_hash.size() + token_sets_.by_hash.size(); }

 private:
  template <typename Shared>
  struct Table {
    std::unordered_multimap<size_t, typename Shared::Weak> by_hash;
    size_t swept_size = 0;
  };
  template <typename Shared, typename Content>
  static Shared Find(const Content& content, size_t hash, Table<Shared>* table);

  Table<SharedText> texts_;
  Table<TokenSet> token_sets_;
};

rpc::Request ToProto(const Request& request);
Request FromProto(const rpc::Request& proto);
// What other requests have, too, is shared with them.
Request FromProto(const rpc::Request& proto, RequestContents& contents);

// TokenEvent and its message, both ways. What comes from outside is checked: a finish reason or a
// status code that this version does not know becomes an error with a sentence, never a cast.
rpc::Status ToProto(const Status& status);
Status FromProto(const rpc::Status& proto);

rpc::TokenEvent ToProto(const TokenEvent& event);
TokenEvent FromProto(const rpc::TokenEvent& proto);

}  // namespace graft
