#include "runtime/adapter_priorities.h"

#include <charconv>

#include "adapters/host_store.h"

namespace graft {
namespace {

Result<int32_t> ParsePriority(const std::string& digits) {
  int32_t priority = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, priority);
  if (stop != end || error == std::errc::invalid_argument) {
    return InvalidArgumentError("'" + digits + "' is no whole number");
  }
  if (error != std::errc() || priority < -kAdapterPriorityMax || priority > kAdapterPriorityMax) {
    const std::string most = std::to_string(kAdapterPriorityMax);
    return InvalidArgumentError("a priority lies between -" + most + " and " + most +
                                "; what never goes is --pin");
  }
  return priority;
}

Status AddPriority(const std::string& text, std::map<std::string, int32_t>* priorities) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) {
    return InvalidArgumentError("write it as NAME=N, an adapter's name and a whole number");
  }
  const std::string name = text.substr(0, equals);
  ASSIGN_OR_RETURN(const int32_t priority, ParsePriority(text.substr(equals + 1)));
  const auto [it, is_new] = priorities->emplace(name, priority);
  if (is_new) return OkStatus();
  if (it->second == HostStore::kPinned) {
    return InvalidArgumentError("'" + name +
                                "' is pinned, which is more than any priority; give "
                                "--pin or --priority");
  }
  return InvalidArgumentError("'" + name + "' has priority " + std::to_string(it->second) +
                              " already; give it one");
}

}  // namespace

Result<std::map<std::string, int32_t>> ParseAdapterPriorities(
    const std::vector<std::string>& priorities, const std::vector<std::string>& pins) {
  std::map<std::string, int32_t> by_name;
  for (const std::string& name : pins) by_name[name] = HostStore::kPinned;
  for (const std::string& text : priorities) {
    RETURN_IF_ERROR(AddPriority(text, &by_name).WithContext("--priority " + text));
  }
  return by_name;
}

std::string PriorityFlag(const std::string& name, int32_t priority) {
  if (priority == HostStore::kPinned) return "--pin " + name;
  return "--priority " + name + "=" + std::to_string(priority);
}

}  // namespace graft
