// Jinja's tests, what stands behind `is`. One thread per Heap.
#pragma once

#include <string_view>

#include "base/status.h"
#include "text/jinja/arguments.h"
#include "text/jinja/value.h"

namespace graft::jinja {

struct TestSpec {
  std::string_view name;
  Result<bool> (*function)(Heap& heap, const Value& input, const Bound& bound);
  ParameterNames parameters = {};
};

// nullptr for a name that Graft does not have.
const TestSpec* FindTest(std::string_view name);

Result<bool> ApplyTest(Heap& heap, const TestSpec& test, const Value& input,
                       const Arguments& arguments);

}  // namespace graft::jinja
