// One turn of /v1/responses on its way: what the answer needs besides the tokens. Plain data.
#pragma once

#include <string>

#include "openai/responses/response_store.h"

namespace graft {

struct ResponseTurn {
  std::string repeated;  // see RepeatedFields
  std::string input;     // whole items, a JSON list
  std::string previous_id;
  std::string tenant;
  ResponseStore* store = nullptr;  // null: the response is not stored
};

}  // namespace graft
