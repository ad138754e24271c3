// A client's JSON schema as the grammars' library takes it: every keyword that it does not follow,
// or follows in part, is refused by name, and the others are put into the few forms that it follows
// exactly. An answer by what comes out is valid by what went in. It may be narrower, in ways that
// docs/structured-output.md names: an object that names properties has no others, say. Pure
// functions; any thread, but what `work` allows may take some tenths of a second.
#pragma once

#include "base/json_fwd.h"
#include "base/status.h"
#include "grammar/schema_work.h"

namespace graft {

// kUnimplemented or kInvalidArgument, with a message that begins with the place of what is refused,
// for example "properties.tags.uniqueItems: ..."; kCancelled where `work` was told to stop.
Result<OrderedJson> ReadSchema(const OrderedJson& schema, SchemaWork& work);
// With a budget of its own.
Result<OrderedJson> ReadSchema(const OrderedJson& schema);

}  // namespace graft
