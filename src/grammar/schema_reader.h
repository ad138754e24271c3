// Reads one JSON schema, see schema.h. Its parts lie in schema.cc (keywords and what they refer
// to), schema_types.cc (objects and arrays), schema_scalars.cc, schema_merge.cc and schema_ends.cc.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace graft {

// As the library takes it. Empty: no value is of it.
using Schema = std::optional<OrderedJson>;

// Keywords of a schema with what they say; annotations and what JSON Schema does not know are left
// out.
using Keywords = std::map<std::string, OrderedJson>;

// Null where it is not among them.
const OrderedJson* FindKeyword(const Keywords& keywords, const char* name);

// The message of a refusal begins with its place: "properties.tags.uniqueItems: ...".
Status AtPlace(const std::string& path, const Status& status);
Status RefusedKeyword(const std::string& path, const std::string& name, const std::string& why);
Status WrongKeyword(const std::string& path, const std::string& name, const std::string& why);
std::string InnerPath(const std::string& path, const std::string& name);

// Adds what `more` says; kUnimplemented where both say something that cannot be put together.
Status MergeKeywords(const Keywords& more, Keywords* keywords);

Result<Schema> ReadStringSchema(const Keywords& keywords);
Result<Schema> ReadNumberSchema(const Keywords& keywords, bool is_integer);

// Whether no value is of both schemas, as far as that is easily seen.
bool AreDisjoint(const OrderedJson& a, const OrderedJson& b);

// What values of a schema are references to, by name. Refuses a definition that leads back to
// itself without a property or an item between, and a schema of which all values are endless.
Status CheckEnds(const OrderedJson& schema, const OrderedJson& definitions);

class SchemaReader {
 public:
  explicit SchemaReader(const OrderedJson& root) : root_(root) {}

  Result<OrderedJson> ReadRoot();

 private:
  // `path` is the place of what is read.
  Result<Schema> Read(const OrderedJson& json, const std::string& path);
  Result<Schema> ReadKeywords(const Keywords& keywords, const std::string& path);
  Status Collect(const OrderedJson& json, const std::string& path, Keywords* out);
  Status CollectOne(const std::string& name, const OrderedJson& value, const std::string& path,
                    Keywords* out);
  Status Merge(Keywords more, const std::string& path, Keywords* out);
  Status Expand(const std::string& path, Keywords* keywords);
  Result<const OrderedJson*> Resolve(const std::string& reference, const std::string& path);
  Result<Schema> ReadReference(const std::string& reference, const std::string& path);
  Result<Schema> ReadEnum(const Keywords& keywords, const std::string& path);
  Result<Schema> ReadOptions(const Keywords& keywords, const char* name, const std::string& path);
  Status CheckDisjoint(const OrderedJson& options, const std::string& path);
  Result<std::vector<std::string>> TypesOf(const Keywords& keywords, const std::string& path);
  Result<Schema> ReadType(const std::string& type, const Keywords& keywords,
                          const std::string& path);
  Result<Schema> ReadObject(const Keywords& keywords, const std::string& path);
  Result<Schema> ReadProperties(const Keywords& keywords, const std::string& path);
  Result<Schema> ReadOpenObject(const Keywords& keywords, const std::string& path);
  Status AddPropertyCounts(const Keywords& keywords, int64_t min_max, const std::string& path,
                           OrderedJson* schema);
  Result<Schema> ReadArray(const Keywords& keywords, const std::string& path);
  Result<int64_t> CountOf(const Keywords& keywords, const char* name, int64_t otherwise,
                          const std::string& path);

  const OrderedJson& root_;
  std::map<std::string, std::string> names_;  // of definitions, by reference
  std::vector<std::string> unread_;           // references
  OrderedJson definitions_ = OrderedJson::object();
  int depth_ = 0;
  int num_nodes_ = 0;
  bool has_empty_ = false;
  std::string empty_;  // the place of the first schema that no value is of
};

}  // namespace graft
