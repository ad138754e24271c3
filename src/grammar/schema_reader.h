// SchemaReader reads one JSON schema (see schema.h). Its parts lie in schema.cc (keywords and
// references), schema_types.cc (objects and arrays), schema_scalars.cc, schema_merge.cc,
// schema_differ.cc (oneOf) and schema_ends.cc. All of them charge one budget (schema_work.h), so
// that no schema costs more than that. They point into the client's JSON instead of copying it. One
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "grammar/schema_work.h"

namespace graft {

// As the library takes it. Empty: no value is of it.
using Schema = std::optional<OrderedJson>;

// What a keyword says: a place in the client's schema, or what was put together of several.
class KeywordValue {
 public:
  // Borrowed: a part of the schema that is read.
  static KeywordValue Of(const OrderedJson& value) { return KeywordValue(&value); }
  static KeywordValue Made(OrderedJson value) {
    return KeywordValue(std::make_shared<OrderedJson>(std::move(value)));
  }
  const OrderedJson& operator*() const { return *value_; }
  const OrderedJson* get() const { return value_; }
  // To be changed: a copy, unless it was made and no other set of keywords has it.
  Result<OrderedJson*> Own(SchemaWork& work);

 private:
  explicit KeywordValue(const OrderedJson* value) : value_(value) {}
  explicit KeywordValue(std::shared_ptr<OrderedJson> made)
      : made_(std::move(made)), value_(made_.get()) {}

  std::shared_ptr<OrderedJson> made_;  // several sets may have it
  const OrderedJson* value_;
};

// Keywords of a schema with what they say; annotations and what JSON Schema does not know are left
// out.
using Keywords = std::map<std::string, KeywordValue, std::less<>>;

// Null where it is not among them.
const OrderedJson* FindKeyword(const Keywords& keywords, const char* name);

// The message of a refusal begins with its place: "properties.tags.uniqueItems: ...".
Status AtPlace(const std::string& path, const Status& status);
Status RefusedKeyword(const std::string& path, const std::string& name, const std::string& why);
Status WrongKeyword(const std::string& path, const std::string& name, const std::string& why);
std::string InnerPath(const std::string& path, const std::string& name);

// Adds a member that the object does not have; it is not looked for.
void AddMember(OrderedJson* object, std::string name, OrderedJson value);

// Adds what `more` says; kUnimplemented where both say something that cannot be put together.
Status MergeKeywords(const Keywords& more, Keywords* keywords, SchemaWork& work);

// Whether values of one type alone have what the keyword is about.
bool TellsType(const std::string& keyword);

// The most items, members or characters that a schema may count.
inline constexpr int64_t kCountMax = 4096;
// What such a keyword says; nothing where it is not among them.
Result<std::optional<int64_t>> CountIn(const Keywords& keywords, const char* name);

Result<Schema> ReadStringSchema(const Keywords& keywords, SchemaWork& work);
Result<Schema> ReadNumberSchema(const Keywords& keywords, bool is_integer);

// The same text for equal values, whatever the order of their keys and the spelling of numbers.
std::string ValueKey(const OrderedJson& value);

// What tells the values of a schema from those of others.
struct SchemaMarks {
  uint32_t types = 0;  // a bit each, one for both kinds of numbers; 0: any, or not known
  bool is_enum = false;
  std::vector<std::string> values;            // of an enum: their keys, in order
  int64_t steps = 0;                          // what a look at all of them takes
  std::map<std::string, SchemaMarks> needed;  // properties that all of them have
};
Result<SchemaMarks> MarksOf(const OrderedJson& schema, SchemaWork& work);
// Whether no value is of two of them, as far as that is easily seen.
Result<bool> AllDiffer(const std::vector<const SchemaMarks*>& schemas, SchemaWork& work);

// Refuses a definition that leads back to itself without a property or an item between, and a
// schema of which all values are endless. Linear.
Status CheckEnds(const OrderedJson& schema, const OrderedJson& definitions, SchemaWork& work);

class SchemaReader {
 public:
  // Both are borrowed.
  SchemaReader(const OrderedJson& root, SchemaWork& work) : root_(root), work_(work) {}

  Result<OrderedJson> ReadRoot();

 private:
  using Names = std::vector<std::string>;
  // What a oneOf has, to be looked at once all definitions are read.
  struct Alternatives {
    std::string path;
    std::vector<SchemaMarks> marks;
    Names references;  // of the definitions that others are
  };

  // `path` is the place of what is read.
  Result<Schema> Read(const OrderedJson& json, const std::string& path);
  Result<Schema> ReadKeywords(const Keywords& keywords, const std::string& path);
  Status Collect(const OrderedJson& json, const std::string& path, Keywords* out);
  Status CollectOne(const std::string& name, const OrderedJson& value, const std::string& path,
                    Keywords* out);
  Status Merge(Keywords more, const std::string& path, Keywords* out);
  Status Expand(const std::string& path, Keywords* keywords);
  Result<const OrderedJson*> Resolve(const std::string& reference, const std::string& path);
  Result<const OrderedJson*> FollowPointer(const std::string& reference, const std::string& path);
  Result<const OrderedJson*> FindMember(const OrderedJson& object, const std::string& name);
  Result<Schema> ReadReference(const std::string& reference, const std::string& path);
  Result<Schema> ReadEnum(const Keywords& keywords, const std::string& path);
  Result<Schema> ReadOptions(const Keywords& keywords, const char* name, const std::string& path);
  Status NoteAlternatives(const OrderedJson& options, const std::string& path);
  Status CheckAlternatives();
  Result<Names> TypesOf(const Keywords& keywords, const std::string& path);
  Result<Names> NamesIn(const Keywords& keywords, const std::string& path);
  Result<Schema> ReadType(const std::string& type, const Keywords& keywords,
                          const std::string& path);
  Result<Schema> ReadObject(const Keywords& keywords, const std::string& path);
  Result<Schema> ReadProperties(const Keywords& keywords, const std::string& path);
  Result<Schema> CountProperties(const Keywords& keywords, OrderedJson properties,
                                 const Names& required, const std::string& path);
  Result<Schema> ReadPatternProperties(const Keywords& keywords, const std::string& path);
  Result<Schema> ReadNamesByPattern(const Keywords& keywords, const Names& names,
                                    const OrderedJson& value, const std::string& path);
  Result<Schema> ReadOpenObject(const Keywords& keywords, const std::string& path);
  Result<Schema> CountOpenObject(const Keywords& keywords, OrderedJson schema, bool is_empty,
                                 const std::string& path);
  Result<Schema> ReadArray(const Keywords& keywords, const std::string& path);
  Result<int64_t> CountOf(const Keywords& keywords, const char* name, int64_t otherwise,
                          const std::string& path);

  const OrderedJson& root_;
  SchemaWork& work_;
  std::map<std::string, const OrderedJson*> targets_;  // by reference: each is followed once
  // By object, of those with many members.
  std::map<const OrderedJson*, std::map<std::string_view, const OrderedJson*>> members_;
  std::map<const OrderedJson*, std::string> names_;  // of definitions, by their place
  std::vector<std::pair<const OrderedJson*, std::string>> unread_;  // places, with references
  OrderedJson definitions_ = OrderedJson::object();
  std::vector<Alternatives> alternatives_;
  int depth_ = 0;
  bool has_empty_ = false;
  std::string empty_;  // the place of the first schema that no value is of
};

}  // namespace graft
