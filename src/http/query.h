// What follows a path's "?". Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace graft {

// Names and values of "a=1&b=2", decoded, in their order.
std::vector<std::pair<std::string, std::string>> QueryFields(std::string_view query);

}  // namespace graft
