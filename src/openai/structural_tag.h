// vLLM's and XGrammar's structural tags, as clients send them: text that is free but for what
// stands between marks. Pure functions; any thread.
#pragma once

#include <string>

#include "base/json.h"
#include "grammar/schema_work.h"
#include "http/api_error.h"

namespace graft {

// Reads `tag` as one format of a grammar (grammar/grammar_text.h), from {"format"} or the older
// {"structures", "triggers"}. Other keys of `tag` are its owner's. Each schema in it is read like
// any other. `param` is the tag's field, and `work` limits the reading of all its schemas.
ApiResult<OrderedJson> StructuralTagFormatOf(const OrderedJson& tag, const std::string& param,
                                             SchemaWork& work);

}  // namespace graft
