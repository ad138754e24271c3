// What several of OpenAI's endpoints take and give alike: metadata, and lists that are asked for
// page by page. Pure functions; any thread.
#pragma once

#include <string_view>

#include "http/field_reader.h"
#include "jobs/learning_records.h"

namespace graft {

// Up to 16 strings by name, which come back as they are.
void ReadMetadata(FieldReader& reader, Json* metadata);

// The query of a list as fields to read, its limit as a number.
Json ListFields(std::string_view query);
// `page->limit` is that of a query without one.
void ReadPage(FieldReader& reader, int32_t limit_max, PageQuery* page);
void ReadOrder(FieldReader& reader, PageQuery* page);

// `data` are the items of one page, each with an id.
Json ListJson(Json data, bool has_more);

}  // namespace graft
