// Reads JSON that a request brings besides its body as a whole: JSON texts within the body
// (arguments of calls, schemas), and the stored turns that it continues. All such reads use these
// functions, so that the memory of a tree is counted before the tree is built, as for the body, and
// until the request is planned. Each thread by itself.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "http/api_error.h"

namespace graft {

class InnerTrees {
 public:
  // The bound of all trees of one request together, as of its body's.
  static constexpr int64_t kBytesMax = int64_t{128} << 20;
  // Holds room for trees of so many bytes in all, or says why there is none.
  using Hold = std::function<std::optional<ApiError>(int64_t bytes)>;

  // While it lives, the trees that this thread makes count there. One at a time.
  explicit InnerTrees(Hold hold);
  ~InnerTrees();
  InnerTrees(const InnerTrees&) = delete;
  InnerTrees& operator=(const InnerTrees&) = delete;

  // Why a tree found no room, whatever its reader made of that: the request ends with it.
  const std::optional<ApiError>& error() const { return error_; }

  // Counts the tree of a text that is about to be parsed on this thread. kResourceExhausted: it
  // must not be parsed.
  static Status Count(std::string_view text);

 private:
  inline static thread_local InnerTrees* now_ = nullptr;
  const Hold hold_;
  int64_t bytes_ = 0;
  std::optional<ApiError> error_;
};

// ParseJson and ParseOrderedJson, with the limits of a body. kResourceExhausted: there is no room,
// or the trees of this request are too large together.
Result<Json> ParseInnerJson(std::string_view text);
Result<OrderedJson> ParseInnerOrderedJson(std::string_view text);

}  // namespace graft
