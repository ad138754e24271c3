// Which schemas have values that end.
#include <algorithm>
#include <functional>

#include "grammar/schema_reader.h"

namespace graft {
namespace {

using Names = std::set<std::string>;

std::string ReferenceOf(const OrderedJson& schema) {
  return schema["$ref"].get<std::string>().substr(std::string_view("#/$defs/").size());
}

int64_t NumberIn(const OrderedJson& schema, const char* name) {
  return schema.contains(name) ? schema[name].get<int64_t>() : 0;
}

// Whether it has a value without end only, where those definitions are known to have others.
bool EndsBy(const OrderedJson& schema, const Names& known) {
  const auto ends = [&known](const OrderedJson& inner) { return EndsBy(inner, known); };
  if (schema.contains("$ref")) return known.contains(ReferenceOf(schema));
  if (schema.contains("anyOf")) {
    return std::any_of(schema["anyOf"].begin(), schema["anyOf"].end(), ends);
  }
  const std::string type = schema.value("type", "");
  if (type == "array") {
    const int64_t min = NumberIn(schema, "minItems");
    const OrderedJson& prefix =
        schema.contains("prefixItems") ? schema["prefixItems"] : OrderedJson::array();
    const auto num_needed = std::min(min, static_cast<int64_t>(prefix.size()));
    const bool needs_items = min > static_cast<int64_t>(prefix.size());
    return std::all_of(prefix.begin(), prefix.begin() + num_needed, ends) &&
           (!needs_items || ends(schema["items"]));
  }
  if (type != "object") return true;
  if (schema.contains("required")) {
    const auto& names = schema["required"];
    return std::all_of(names.begin(), names.end(), [&](const OrderedJson& name) {
      return ends(schema["properties"][name.get_ref<const std::string&>()]);
    });
  }
  if (NumberIn(schema, "minProperties") == 0) return true;
  for (const char* const name : {"properties", "patternProperties"}) {
    if (!schema.contains(name)) continue;
    return std::any_of(schema[name].begin(), schema[name].end(), ends);
  }
  return schema["additionalProperties"].is_boolean() || ends(schema["additionalProperties"]);
}

// The definitions that a value of the schema may be of without being more than that.
void AddDirect(const OrderedJson& schema, Names* names) {
  if (schema.contains("$ref")) names->insert(ReferenceOf(schema));
  if (!schema.contains("anyOf")) return;
  for (const OrderedJson& option : schema["anyOf"]) AddDirect(option, names);
}

}  // namespace

Status CheckEnds(const OrderedJson& schema, const OrderedJson& definitions) {
  for (const auto& [name, definition] : definitions.items()) {
    Names reached;
    AddDirect(definition, &reached);
    for (size_t before = 0; before != reached.size();) {
      before = reached.size();
      for (const std::string& one : Names(reached)) AddDirect(definitions[one], &reached);
    }
    if (reached.contains(name)) {
      return UnimplementedError("$ref: leads back to itself without a property or item between");
    }
  }
  Names known;
  for (bool grows = true; grows;) {
    grows = false;
    for (const auto& [name, definition] : definitions.items()) {
      if (!known.contains(name) && EndsBy(definition, known)) grows = known.insert(name).second;
    }
  }
  if (EndsBy(schema, known) && known.size() == definitions.size()) return OkStatus();
  return InvalidArgumentError(
      "the schema: a value of it, or of a definition in it, would have no end");
}

}  // namespace graft
