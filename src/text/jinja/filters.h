// Jinja's filters, with Hugging Face's `tojson`. One thread per Heap.
#pragma once

#include <string_view>

#include "base/status.h"
#include "text/jinja/arguments.h"
#include "text/jinja/value.h"

namespace graft::jinja {

struct FilterSpec {
  std::string_view name;
  Result<Value> (*function)(Heap& heap, const Value& input, const Bound& bound);
  ParameterNames parameters = {};
  bool any_arguments = false;  // takes what comes: parameters mean nothing
};

// nullptr for a name that Graft does not have.
const FilterSpec* FindFilter(std::string_view name);

Result<Value> ApplyFilter(Heap& heap, const FilterSpec& filter, const Value& input,
                          const Arguments& arguments);

// The two tables behind FindFilter; each ends where its function is null.
extern const FilterSpec kTextFilters[];
extern const FilterSpec kSequenceFilters[];

}  // namespace graft::jinja
