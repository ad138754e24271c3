// vLLM's and XGrammar's structural tags, as clients send them: text that is free but for what
// stands between marks. Pure functions; any thread.
#pragma once

#include <string>

#include "base/json.h"
#include "grammar/schema_work.h"
#include "http/api_error.h"

namespace graft {

// One format of a grammar (grammar/grammar_text.h), of {"format"} or of the older {"structures",
// "triggers"}; other keys of `tag` are its owner's. Each schema is read as any. `param` is the
// tag's field, and `work` is what reading all its schemas may take.
ApiResult<OrderedJson> StructuralTagFormatOf(const OrderedJson& tag, const std::string& param,
                                             SchemaWork& work);

}  // namespace graft
