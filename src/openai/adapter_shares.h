// The adapters that a request adds up, as its body names them. Pure functions; any thread.
#pragma once

#include <string>
#include <vector>

#include "http/field_reader.h"

namespace graft {

struct AdapterShare {
  std::string name;
  float weight = 1.0f;  // 0: it is named, and adds nothing
};

// Takes the field "adapters": a list of {"name", "weight"}, without a name twice.
void ReadAdapterShares(FieldReader& reader, std::vector<AdapterShare>* shares);

}  // namespace graft
