// Filters over lists, dicts and other things with items.
#include <algorithm>
#include <charconv>
#include <string>

#include "text/jinja/access.h"
#include "text/jinja/filters.h"
#include "text/jinja/methods.h"
#include "text/jinja/python_text.h"
#include "text/jinja/tests.h"
#include "text/jinja/write.h"

namespace graft::jinja {
namespace {

Value Iterator(Heap& heap, std::vector<Value> items) {
  return heap.NewSequence(Flavor::kIterator, std::move(items));
}

// The `attribute` of filters: "a.b.0" goes item by item; None is the item itself.
class AttributePath {
 public:
  static Result<AttributePath> Make(const Value& attribute) {
    AttributePath path;
    if (attribute.is_none()) return path;
    if (attribute.is_integral()) {
      path.parts_.push_back(attribute);
      return path;
    }
    if (!attribute.is_string()) return TypeError("an attribute is named by a string or an integer");
    std::string_view rest = attribute.text();
    while (true) {
      const size_t dot = std::min(rest.find('.'), rest.size());
      const std::string_view part = rest.substr(0, dot);
      int64_t index = 0;
      const auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
      const bool is_index = !part.empty() && part[0] != '-' && parsed.ec == std::errc() &&
                            parsed.ptr == part.data() + part.size();
      path.parts_.push_back(is_index ? Value::Int(index) : Value::String(part));
      if (dot == rest.size()) return path;
      rest.remove_prefix(dot + 1);
    }
  }

  // `fallback`, if it is not None, stands for a part that is missing.
  Result<Value> Get(Heap& heap, Value item, const Value& fallback = Value::None()) const {
    for (const Value& part : parts_) {
      ASSIGN_OR_RETURN(item, GetItem(heap, item, part));
      if (item.is_undefined() && !fallback.is_none()) item = fallback;
    }
    return item;
  }

 private:
  std::vector<Value> parts_;
};

// Strings compare without case unless told otherwise.
Value FoldCase(Heap& heap, const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.is_string()) return value;
  return heap.Derived(ToLower(value.text()), value);
}

// (key, item) pairs in the order of their keys; equal ones stay as they were.
using Keyed = std::vector<std::pair<Value, Value>>;

Status SortKeyed(Heap& heap, bool reverse, Keyed* keyed) {
  Status failure;
  const auto less = [&](const auto& a, const auto& b) {
    const Result<int> order =
        reverse ? Compare(heap, b.first, a.first) : Compare(heap, a.first, b.first);
    if (!order.ok() && failure.ok()) failure = order.status();
    return order.ok() && *order < 0;
  };
  std::stable_sort(keyed->begin(), keyed->end(), less);
  return failure;
}

Result<Value> SortedItems(Heap& heap, bool reverse, Keyed* keyed) {
  RETURN_IF_ERROR(SortKeyed(heap, reverse, keyed));
  std::vector<Value> sorted;
  for (const auto& entry : *keyed) sorted.push_back(entry.second);
  return heap.List(std::move(sorted));
}

Result<Value> ListFilter(Heap& heap, const Value& input, const Bound&) {
  ASSIGN_OR_RETURN(std::vector<Value> items, Iterate(heap, input));
  return heap.List(std::move(items));
}

Result<Value> First(Heap& heap, const Value& input, const Bound&) {
  if (input.kind() == Kind::kSequence && input.sequence().flavor == Flavor::kIterator) {
    Sequence& sequence = input.sequence();
    if (sequence.next < sequence.items.size()) return sequence.items[sequence.next++];
  }
  ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(heap, input));
  if (items.empty()) return heap.Undefined("there is no first item");
  return items.front();
}

Result<Value> Last(Heap& heap, const Value& input, const Bound&) {
  if (input.kind() == Kind::kSequence && input.sequence().flavor == Flavor::kIterator) {
    return TypeError("'last' cannot walk a generator backwards; add '| list' before it");
  }
  ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(heap, input));
  if (items.empty()) return heap.Undefined("there is no last item");
  return items.back();
}

Result<Value> Items(Heap& heap, const Value& input, const Bound&) {
  if (input.is_undefined()) return Iterator(heap, {});
  if (input.kind() != Kind::kDict) {
    return TypeError("'items' needs a dict, not a value of type '" + std::string(TypeName(input)) +
                     "'");
  }
  std::vector<Value> items;
  for (const auto& [key, value] : input.dict().entries) {
    items.push_back(heap.NewSequence(Flavor::kTuple, {key, value}));
  }
  return Iterator(heap, std::move(items));
}

Result<Value> Reverse(Heap& heap, const Value& input, const Bound&) {
  ASSIGN_OR_RETURN(std::vector<Value> items, Iterate(heap, input));
  std::reverse(items.begin(), items.end());
  if (input.is_string()) return JoinTexts(heap, Value::String("", kOfTemplate), items);
  return Iterator(heap, std::move(items));
}

Result<Value> JoinFilter(Heap& heap, const Value& input, const Bound& bound) {
  ASSIGN_OR_RETURN(std::vector<Value> items, Iterate(heap, input));
  ASSIGN_OR_RETURN(const AttributePath path, AttributePath::Make(bound.Or(1, Value::None())));
  for (Value& item : items) {
    ASSIGN_OR_RETURN(item, path.Get(heap, item));
  }
  ASSIGN_OR_RETURN(const Value separator, ToText(heap, bound.Or(0, Value::String(""))));
  return JoinTexts(heap, separator, items);
}

Result<Value> Sort(Heap& heap, const Value& input, const Bound& bound) {
  ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(heap, input));
  const Value attribute = bound.Or(2, Value::None());
  std::vector<AttributePath> paths;
  if (attribute.is_string()) {
    // "a,b" sorts by a, then by b.
    std::string_view rest = attribute.text();
    for (size_t comma = 0; comma != std::string_view::npos;) {
      comma = rest.find(',');
      ASSIGN_OR_RETURN(AttributePath path,
                       AttributePath::Make(Value::String(rest.substr(0, comma))));
      paths.push_back(std::move(path));
      if (comma != std::string_view::npos) rest.remove_prefix(comma + 1);
    }
  } else {
    ASSIGN_OR_RETURN(AttributePath path, AttributePath::Make(attribute));
    paths.push_back(std::move(path));
  }
  Keyed keyed;
  for (const Value& item : items) {
    std::vector<Value> keys;
    for (const AttributePath& path : paths) {
      ASSIGN_OR_RETURN(const Value key, path.Get(heap, item));
      keys.push_back(FoldCase(heap, key, bound.TruthOr(1, false)));
    }
    keyed.emplace_back(keys.size() == 1 ? keys[0] : heap.List(std::move(keys)), item);
  }
  return SortedItems(heap, bound.TruthOr(0, false), &keyed);
}

Result<Value> DictSort(Heap& heap, const Value& input, const Bound& bound) {
  ASSIGN_OR_RETURN(const std::string_view by, bound.TextOr(1, "key"));
  if (by != "key" && by != "value") {
    return InvalidArgumentError("'dictsort' sorts by 'key' or 'value'");
  }
  if (input.is_undefined()) return UndefinedError(input);
  if (input.kind() != Kind::kDict) return TypeError("'dictsort' needs a dict");
  Keyed keyed;
  for (const auto& [key, value] : input.dict().entries) {
    const Value& sort_key = by == "key" ? key : value;
    keyed.emplace_back(FoldCase(heap, sort_key, bound.TruthOr(0, false)),
                       heap.NewSequence(Flavor::kTuple, {key, value}));
  }
  return SortedItems(heap, bound.TruthOr(2, false), &keyed);
}

Result<Value> Unique(Heap& heap, const Value& input, const Bound& bound) {
  ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(heap, input));
  ASSIGN_OR_RETURN(const AttributePath path, AttributePath::Make(bound.Or(1, Value::None())));
  const Value seen = heap.List({});
  std::vector<Value> unique;
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(Value key, path.Get(heap, item));
    key = FoldCase(heap, key, bound.TruthOr(0, false));
    ASSIGN_OR_RETURN(const bool known, Contains(heap, key, seen));
    if (known) continue;
    seen.sequence().items.push_back(key);
    unique.push_back(item);
  }
  return Iterator(heap, std::move(unique));
}

// (key, items) pairs in the order of their keys.
Result<Value> GroupBy(Heap& heap, const Value& input, const Bound& bound) {
  ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(heap, input));
  ASSIGN_OR_RETURN(const Value attribute, bound.Required(0));
  ASSIGN_OR_RETURN(const AttributePath path, AttributePath::Make(attribute));
  const Value fallback = bound.Or(1, Value::None());
  const bool case_sensitive = bound.TruthOr(2, false);
  Keyed keyed;
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(const Value key, path.Get(heap, item, fallback));
    keyed.emplace_back(FoldCase(heap, key, case_sensitive), item);
  }
  RETURN_IF_ERROR(SortKeyed(heap, false, &keyed));
  std::vector<Value> groups;
  for (size_t i = 0; i < keyed.size(); ++i) {
    if (i > 0) {
      ASSIGN_OR_RETURN(const bool same, Equal(heap, keyed[i].first, keyed[i - 1].first));
      if (same) {
        groups.back().sequence().items[1].sequence().items.push_back(keyed[i].second);
        continue;
      }
    }
    // Without regard to case, the first item's own spelling.
    ASSIGN_OR_RETURN(const Value key, path.Get(heap, keyed[i].second, fallback));
    groups.push_back(heap.NewSequence(Flavor::kTuple, {key, heap.List({keyed[i].second})}));
    groups.back().sequence().is_group = true;
  }
  return heap.List(std::move(groups));
}

template <bool kLargest>
Result<Value> Extreme(Heap& heap, const Value& input, const Bound& bound) {
  ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(heap, input));
  if (items.empty()) return heap.Undefined("there is no smallest or largest of no items");
  ASSIGN_OR_RETURN(const AttributePath path, AttributePath::Make(bound.Or(1, Value::None())));
  Value best;
  Value best_key;
  for (size_t i = 0; i < items.size(); ++i) {
    ASSIGN_OR_RETURN(Value key, path.Get(heap, items[i]));
    key = FoldCase(heap, key, bound.TruthOr(0, false));
    int order = 1;
    if (i > 0) {
      ASSIGN_OR_RETURN(order,
                       kLargest ? Compare(heap, key, best_key) : Compare(heap, best_key, key));
    }
    if (order > 0) {
      best = items[i];
      best_key = key;
    }
  }
  return best;
}

Result<Value> Sum(Heap& heap, const Value& input, const Bound& bound) {
  ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(heap, input));
  ASSIGN_OR_RETURN(const AttributePath path, AttributePath::Make(bound.Or(0, Value::None())));
  Value total = bound.Or(1, Value::Int(0));
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(const Value value, path.Get(heap, item));
    if (total.is_string() || value.is_string()) return TypeError("'sum' cannot add strings");
    ASSIGN_OR_RETURN(total, Binary(heap, BinaryOp::kAdd, total, value));
  }
  return total;
}

// Runs of `count` items; the last one is filled up with `fill`, if given.
Result<Value> Batch(Heap& heap, const Value& input, const Bound& bound) {
  ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(heap, input));
  RETURN_IF_ERROR(bound.Required(0).status());
  ASSIGN_OR_RETURN(const int64_t count, bound.IntOr(0, 1));
  if (count < 1) return InvalidArgumentError("'batch' needs a count of at least 1");
  const auto size = static_cast<size_t>(count);
  const Value fill = bound.Or(1, Value::None());
  std::vector<Value> batches;
  for (size_t begin = 0; begin < items.size(); begin += size) {
    const size_t end = std::min(items.size(), begin + size);
    std::vector<Value> batch(items.begin() + static_cast<ptrdiff_t>(begin),
                             items.begin() + static_cast<ptrdiff_t>(end));
    if (!fill.is_none()) {
      RETURN_IF_ERROR(heap.Fits(static_cast<double>(count) * sizeof(Value)));
      batch.resize(size, fill);
    }
    batches.push_back(heap.List(std::move(batch)));
    if (end == items.size()) break;
  }
  return Iterator(heap, std::move(batches));
}

// Columns of items: `count` lists of about the same length.
Result<Value> SliceFilter(Heap& heap, const Value& input, const Bound& bound) {
  ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(heap, input));
  RETURN_IF_ERROR(bound.Required(0).status());
  ASSIGN_OR_RETURN(const int64_t count, bound.IntOr(0, 1));
  if (count < 1) return InvalidArgumentError("'slice' needs a count of at least 1");
  RETURN_IF_ERROR(heap.Fits(static_cast<double>(count) * (sizeof(Sequence) + sizeof(Value))));
  const auto columns = static_cast<size_t>(count);
  const Value fill = bound.Or(1, Value::None());
  std::vector<Value> slices;
  size_t begin = 0;
  for (size_t i = 0; i < columns; ++i) {
    const bool longer = i < items.size() % columns;
    const size_t length = items.size() / columns + (longer ? 1 : 0);
    std::vector<Value> slice(items.begin() + static_cast<ptrdiff_t>(begin),
                             items.begin() + static_cast<ptrdiff_t>(begin + length));
    if (!fill.is_none() && !longer) slice.push_back(fill);
    slices.push_back(heap.List(std::move(slice)));
    if (!heap.Charge(1)) return heap.status();
    begin += length;
  }
  return Iterator(heap, std::move(slices));
}

// The arguments after the first `count` positional ones.
Arguments After(const Arguments& arguments, size_t count) {
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin(),
                        rest.positional.begin() + static_cast<ptrdiff_t>(count));
  return rest;
}

Result<Value> MapAttribute(Heap& heap, std::vector<Value> items, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, Bound::Make("map", {"attribute", "default"}, arguments));
  RETURN_IF_ERROR(bound.Required(0).status());
  ASSIGN_OR_RETURN(const AttributePath path, AttributePath::Make(bound.Or(0, Value::None())));
  for (Value& item : items) {
    ASSIGN_OR_RETURN(item, path.Get(heap, item));
    if (item.is_undefined()) item = bound.Or(1, item);
  }
  return Iterator(heap, std::move(items));
}

Result<Value> Map(Heap& heap, const Value& input, const Bound& bound) {
  if (!Truth(input)) return Iterator(heap, {});  // none and undefined, too
  ASSIGN_OR_RETURN(std::vector<Value> items, Iterate(heap, input));
  const Arguments& arguments = bound.all();
  if (arguments.positional.empty()) return MapAttribute(heap, std::move(items), arguments);
  const Value& name = arguments.positional[0];
  if (!name.is_string()) return TypeError("'map' takes the name of a filter");
  const FilterSpec* filter = FindFilter(name.text());
  if (filter == nullptr) {
    return UnimplementedError("the filter '" + std::string(name.text()) + "' is not supported");
  }
  const Arguments rest = After(arguments, 1);
  for (Value& item : items) {
    ASSIGN_OR_RETURN(item, ApplyFilter(heap, *filter, item, rest));
  }
  return Iterator(heap, std::move(items));
}

// select, reject and their attr forms: keep items by whether they, or an attribute of them, pass a
// test or are true.
template <bool kByAttribute, bool kWanted>
Result<Value> Select(Heap& heap, const Value& input, const Bound& bound) {
  if (!Truth(input)) return Iterator(heap, {});
  ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(heap, input));
  const Arguments& arguments = bound.all();
  size_t used = 0;
  AttributePath path;
  if (kByAttribute) {
    if (arguments.positional.empty()) return TypeError("the filter needs an attribute");
    ASSIGN_OR_RETURN(path, AttributePath::Make(arguments.positional[used++]));
  }
  const TestSpec* test = nullptr;
  if (arguments.positional.size() > used) {
    const Value& name = arguments.positional[used++];
    if (!name.is_string()) return TypeError("the filter takes the name of a test");
    test = FindTest(name.text());
    if (test == nullptr) {
      return UnimplementedError("the test '" + std::string(name.text()) + "' is not supported");
    }
  }
  const Arguments rest = After(arguments, used);
  std::vector<Value> selected;
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(const Value value, path.Get(heap, item));
    bool passes = Truth(value);
    if (test != nullptr) {
      ASSIGN_OR_RETURN(passes, ApplyTest(heap, *test, value, rest));
    }
    if (passes == kWanted) selected.push_back(item);
  }
  return Iterator(heap, std::move(selected));
}

}  // namespace

const FilterSpec kSequenceFilters[] = {
    {"batch", Batch, {"linecount", "fill_with"}},
    {"dictsort", DictSort, {"case_sensitive", "by", "reverse"}},
    {"first", First},
    {"groupby", GroupBy, {"attribute", "default", "case_sensitive"}},
    {"items", Items},
    {"join", JoinFilter, {"d", "attribute"}},
    {"last", Last},
    {"list", ListFilter},
    {"map", Map, {}, true},
    {"max", Extreme<true>, {"case_sensitive", "attribute"}},
    {"min", Extreme<false>, {"case_sensitive", "attribute"}},
    {"reject", Select<false, false>, {}, true},
    {"rejectattr", Select<true, false>, {}, true},
    {"reverse", Reverse},
    {"select", Select<false, true>, {}, true},
    {"selectattr", Select<true, true>, {}, true},
    {"slice", SliceFilter, {"slices", "fill_with"}},
    {"sort", Sort, {"reverse", "case_sensitive", "attribute"}},
    {"sum", Sum, {"attribute", "start"}},
    {"unique", Unique, {"case_sensitive", "attribute"}},
    {"", nullptr},
};

const FilterSpec* FindFilter(std::string_view name) {
  for (const FilterSpec* table : {kTextFilters, kSequenceFilters}) {
    for (const FilterSpec* filter = table; filter->function != nullptr; ++filter) {
      if (filter->name == name) return filter;
    }
  }
  return nullptr;
}

Result<Value> ApplyFilter(Heap& heap, const FilterSpec& filter, const Value& input,
                          const Arguments& arguments) {
  // Filters apply filters: map('map', 'map', ...).
  constexpr int kLevels = 10;
  const Nesting nesting(&heap, kLevels);
  RETURN_IF_ERROR(nesting.status());
  if (filter.any_arguments) {
    return filter.function(heap, input, Bound::Any(filter.name, arguments));
  }
  ASSIGN_OR_RETURN(const Bound bound, Bound::Make(filter.name, filter.parameters, arguments));
  return filter.function(heap, input, bound);
}

}  // namespace graft::jinja
