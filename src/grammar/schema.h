// Rewrites a client's JSON schema for the grammars' library. Keywords that the library does not
// follow, or follows in part, are refused by name. The others are put into the few forms that it
// follows exactly. An answer that fits the result fits the client's schema, too. The result may be
// narrower, in ways that docs/structured-output.md names; for example, an object that names
// properties has no others. Pure functions; any thread. A call may take some tenths of a second, up
// to what `work` allows.
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
