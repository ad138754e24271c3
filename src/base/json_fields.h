// Fields of records that another version of the program may have written: one that is missing or of
// another type leaves `out` as it is. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json_fwd.h"

namespace graft {

void ReadField(const Json& json, const char* field, std::string* out);
void ReadField(const Json& json, const char* field, int64_t* out);
void ReadField(const Json& json, const char* field, int32_t* out);
void ReadField(const Json& json, const char* field, uint32_t* out);
void ReadField(const Json& json, const char* field, bool* out);
void ReadField(const Json& json, const char* field, double* out);
// Those of a list that are strings, behind what `out` has.
void ReadField(const Json& json, const char* field, std::vector<std::string>* out);
// Those of an object that are numbers, beside what `out` has.
void ReadField(const Json& json, const char* field, std::map<std::string, double>* out);
void ReadField(const Json& json, const char* field, std::optional<std::string>* out);

}  // namespace graft
