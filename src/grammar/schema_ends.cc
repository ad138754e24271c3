// Which schemas have values that end. Whether a schema has one is a formula over its parts and the
// definitions; what is true is handed from part to whole, each place once.
#include <algorithm>
#include <map>
#include <set>

#include "grammar/schema_reader.h"

namespace graft {
namespace {

int64_t NumberIn(const OrderedJson& schema, const char* name) {
  const auto it = schema.find(name);
  return it == schema.end() ? 0 : it->get<int64_t>();
}

class EndGraph {
 public:
  explicit EndGraph(const OrderedJson& definitions) {
    for (const auto& [name, definition] : definitions.items()) {
      definitions_.emplace("#/$defs/" + name, NewNode(1));
    }
    leads_to_.resize(needed_.size());
    for (const auto& [name, definition] : definitions.items()) {
      const size_t node = definitions_.at("#/$defs/" + name);
      AddPart(node, definition);
      AddDirect(node, definition);
    }
  }

  int64_t num_steps() const { return num_steps_; }

  // Whether some definition leads to itself and nothing is between.
  bool HasCircle() {
    std::vector<size_t> num_before(leads_to_.size(), 0);
    for (const auto& targets : leads_to_) {
      for (const size_t target : targets) ++num_before[target];
    }
    std::vector<size_t> free;
    for (size_t i = 0; i < num_before.size(); ++i) {
      if (num_before[i] == 0) free.push_back(i);
    }
    size_t num_free = 0;
    for (; !free.empty(); ++num_free) {
      const size_t node = free.back();
      free.pop_back();
      num_steps_ += 1 + static_cast<int64_t>(leads_to_[node].size());
      for (const size_t target : leads_to_[node]) {
        if (--num_before[target] == 0) free.push_back(target);
      }
    }
    return num_free < leads_to_.size();
  }

  // Whether the schema and all definitions have values that end.
  bool AllEnd(const OrderedJson& schema) {
    const size_t root = NewNode(1);
    AddPart(root, schema);
    std::vector<size_t> known;
    for (size_t i = 0; i < needed_.size(); ++i) {
      if (needed_[i] == 0) known.push_back(i);
    }
    while (!known.empty()) {
      const size_t node = known.back();
      known.pop_back();
      num_steps_ += 1 + static_cast<int64_t>(wholes_[node].size());
      for (const size_t whole : wholes_[node]) {
        if (needed_[whole] > 0 && --needed_[whole] == 0) known.push_back(whole);
      }
    }
    return needed_[root] == 0 &&
           std::all_of(definitions_.begin(), definitions_.end(),
                       [this](const auto& one) { return needed_[one.second] == 0; });
  }

 private:
  // It ends where so many of its parts do.
  size_t NewNode(int64_t needed) {
    needed_.push_back(needed);
    wholes_.emplace_back();
    return needed_.size() - 1;
  }

  void AddPart(size_t whole, const OrderedJson& part) {
    num_steps_ += static_cast<int64_t>(part.size());
    const auto reference = part.find("$ref");
    if (reference != part.end()) {
      wholes_[definitions_.at(reference->get_ref<const std::string&>())].push_back(whole);
      return;
    }
    const size_t node = NewNode(0);
    wholes_[node].push_back(whole);
    const auto options = part.find("anyOf");
    if (options != part.end()) {
      needed_[node] = 1;
      for (const OrderedJson& option : *options) AddPart(node, option);
      return;
    }
    const std::string type = part.value("type", "");
    if (type == "array") AddItems(node, part);
    if (type == "object") AddMembers(node, part);
  }

  void AddItems(size_t node, const OrderedJson& schema) {
    const int64_t min = NumberIn(schema, "minItems");
    const auto prefix = schema.find("prefixItems");
    const auto num_prefix = prefix == schema.end() ? 0 : static_cast<int64_t>(prefix->size());
    for (int64_t i = 0; i < std::min(min, num_prefix); ++i) {
      ++needed_[node];
      AddPart(node, (*prefix)[static_cast<size_t>(i)]);
    }
    if (min <= num_prefix) return;
    ++needed_[node];
    AddPart(node, schema["items"]);
  }

  void AddMembers(size_t node, const OrderedJson& schema) {
    const auto required = schema.find("required");
    const auto properties = schema.find("properties");
    if (required != schema.end()) {
      std::set<std::string_view> names;
      for (const OrderedJson& name : *required) names.insert(name.get_ref<const std::string&>());
      needed_[node] = static_cast<int64_t>(names.size());
      for (const auto& [name, member] : properties->get_ref<const OrderedJson::object_t&>()) {
        if (names.contains(name)) AddPart(node, member);
      }
      return;
    }
    const int64_t min = NumberIn(schema, "minProperties");
    if (min == 0) return;
    const auto patterns = schema.find("patternProperties");
    const auto members = properties != schema.end() ? properties : patterns;
    if (members != schema.end()) {
      needed_[node] = properties != schema.end() ? min : 1;
      for (const auto& [name, member] : members->get_ref<const OrderedJson::object_t&>()) {
        AddPart(node, member);
      }
      return;
    }
    const OrderedJson& others = schema["additionalProperties"];
    if (others.is_boolean()) return;
    needed_[node] = 1;
    AddPart(node, others);
  }

  // The definitions that a value of the schema may be of without being more than that.
  void AddDirect(size_t node, const OrderedJson& schema) {
    ++num_steps_;
    const auto reference = schema.find("$ref");
    if (reference != schema.end()) {
      leads_to_[node].push_back(definitions_.at(reference->get_ref<const std::string&>()));
    }
    const auto options = schema.find("anyOf");
    if (options == schema.end()) return;
    for (const OrderedJson& option : *options) AddDirect(node, option);
  }

  int64_t num_steps_ = 0;
  std::map<std::string, size_t> definitions_;  // nodes, by what refers to them
  std::vector<int64_t> needed_;                // by node: parts that are not known to end yet
  std::vector<std::vector<size_t>> wholes_;    // by node: what it is a part of
  std::vector<std::vector<size_t>> leads_to_;  // by definition: definitions
};

}  // namespace

Status CheckEnds(const OrderedJson& schema, const OrderedJson& definitions, SchemaWork& work) {
  EndGraph graph(definitions);
  if (graph.HasCircle()) {
    return UnimplementedError("$ref: leads back to itself without a property or item between");
  }
  const bool all_end = graph.AllEnd(schema);
  RETURN_IF_ERROR(work.Take(graph.num_steps()));
  if (all_end) return OkStatus();
  return InvalidArgumentError(
      "the schema: a value of it, or of a definition in it, would have no end");
}

}  // namespace graft
