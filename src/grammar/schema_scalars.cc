// Strings and numbers of schemas.
#include <algorithm>
#include <cmath>

#include "grammar/schema_pattern.h"
#include "grammar/schema_reader.h"

namespace graft {
namespace {

// Integers that a double holds exactly.
constexpr double kWholeMax = 9007199254740992.0;
// What the library follows of multiples: any, or those of a range that is not wider.
constexpr int64_t kMultipleMax = 1000;
constexpr int64_t kMultipleRangeMax = 10000;

// Formats that the library has a grammar for. Others are annotations, as JSON Schema has them.
constexpr std::string_view kFormats[] = {"date", "time", "date-time", "duration", "ipv4",
                                         "ipv6", "uuid", "hostname",  "email",    "uri"};

Result<std::optional<double>> BoundOf(const Keywords& keywords, const char* name) {
  const OrderedJson* const value = FindKeyword(keywords, name);
  if (value == nullptr) return std::optional<double>();
  if (!value->is_number()) return InvalidArgumentError(std::string(name) + ": must be a number");
  const double bound = value->get<double>();
  if (!(std::abs(bound) < kWholeMax)) {
    return UnimplementedError(std::string(name) + ": is beyond 2^53, where numbers are not exact");
  }
  return std::optional<double>(bound);
}

struct Bounds {
  std::optional<double> minimum, maximum, above, below;
};

Result<Bounds> BoundsOf(const Keywords& keywords) {
  Bounds bounds;
  ASSIGN_OR_RETURN(bounds.minimum, BoundOf(keywords, "minimum"));
  ASSIGN_OR_RETURN(bounds.maximum, BoundOf(keywords, "maximum"));
  ASSIGN_OR_RETURN(bounds.above, BoundOf(keywords, "exclusiveMinimum"));
  ASSIGN_OR_RETURN(bounds.below, BoundOf(keywords, "exclusiveMaximum"));
  return bounds;
}

Result<Schema> WithMultiple(const Keywords& keywords, const std::optional<int64_t>& low,
                            const std::optional<int64_t>& high, OrderedJson schema) {
  const OrderedJson& value = *FindKeyword(keywords, "multipleOf");
  const bool is_whole = value.is_number() && value.get<double>() >= 1 &&
                        value.get<double>() <= kMultipleMax &&
                        std::floor(value.get<double>()) == value.get<double>();
  if (!is_whole) {
    return UnimplementedError("multipleOf: must be a whole number from 1 to " +
                              std::to_string(kMultipleMax) + " here");
  }
  const auto multiple = static_cast<int64_t>(value.get<double>());
  if (multiple == 1) return Schema(std::move(schema));
  const bool is_open = !low.has_value() && !high.has_value();
  const bool is_range = low.has_value() && high.has_value() && *high - *low <= kMultipleRangeMax;
  if (!is_open && !is_range) {
    return UnimplementedError("multipleOf: beside a bound it needs both, at most " +
                              std::to_string(kMultipleRangeMax) + " apart");
  }
  if (is_range) {
    const auto below = static_cast<int64_t>(
        std::floor(static_cast<double>(*high) / static_cast<double>(multiple)));
    if (below * multiple < *low) return Schema();
  }
  schema["multipleOf"] = multiple;
  return Schema(std::move(schema));
}

Result<Schema> ReadInteger(const Keywords& keywords) {
  ASSIGN_OR_RETURN(const Bounds bounds, BoundsOf(keywords));
  std::optional<int64_t> low, high;
  const auto raise = [&low](double bound) {
    low = std::max(low.value_or(static_cast<int64_t>(bound)), static_cast<int64_t>(bound));
  };
  const auto lower = [&high](double bound) {
    high = std::min(high.value_or(static_cast<int64_t>(bound)), static_cast<int64_t>(bound));
  };
  if (bounds.minimum.has_value()) raise(std::ceil(*bounds.minimum));
  if (bounds.above.has_value()) raise(std::floor(*bounds.above) + 1);
  if (bounds.maximum.has_value()) lower(std::floor(*bounds.maximum));
  if (bounds.below.has_value()) lower(std::ceil(*bounds.below) - 1);
  if (low.has_value() && high.has_value() && *low > *high) return Schema();
  OrderedJson schema = {{"type", "integer"}};
  if (low.has_value()) schema["minimum"] = *low;
  if (high.has_value()) schema["maximum"] = *high;
  if (FindKeyword(keywords, "multipleOf") == nullptr) return Schema(std::move(schema));
  return WithMultiple(keywords, low, high, std::move(schema));
}

// The library writes bounds in decimals.
Status CheckDecimals(const char* name, const std::optional<double>& bound) {
  if (!bound.has_value()) return OkStatus();
  const double scaled = *bound * 1e6;
  if (std::abs(scaled - std::round(scaled)) < 1e-9 * std::max(1.0, std::abs(scaled))) {
    return OkStatus();
  }
  return UnimplementedError(std::string(name) + ": has more than six decimals");
}

}  // namespace

Result<std::optional<int64_t>> CountIn(const Keywords& keywords, const char* name) {
  const OrderedJson* const value = FindKeyword(keywords, name);
  if (value == nullptr) return std::optional<int64_t>();
  const bool is_whole = value->is_number() && value->get<double>() >= 0 &&
                        std::floor(value->get<double>()) == value->get<double>();
  if (!is_whole) {
    return InvalidArgumentError(std::string(name) + ": must be a whole number, 0 or more");
  }
  if (value->get<double>() > kCountMax) {
    return UnimplementedError(std::string(name) + ": is more than " + std::to_string(kCountMax) +
                              ", the most that is counted here");
  }
  return std::optional<int64_t>(static_cast<int64_t>(value->get<double>()));
}

Result<Schema> ReadStringSchema(const Keywords& keywords, SchemaWork& work) {
  ASSIGN_OR_RETURN(const auto min, CountIn(keywords, "minLength"));
  ASSIGN_OR_RETURN(const auto max, CountIn(keywords, "maxLength"));
  const OrderedJson* const pattern = FindKeyword(keywords, "pattern");
  OrderedJson schema = {{"type", "string"}};
  if (pattern != nullptr) {
    if (!pattern->is_string()) return InvalidArgumentError("pattern: must be a string");
    if (min.value_or(0) > 0 || max.has_value()) {
      return UnimplementedError(
          "pattern: beside minLength or maxLength is not supported; say the length in the pattern");
    }
    RETURN_IF_ERROR(work.Take(StepsOf(*pattern)));
    Result<std::string> read = ReadPattern(pattern->get_ref<const std::string&>());
    if (!read.ok()) return Status(read.status().code(), "pattern: " + read.status().message());
    RETURN_IF_ERROR(work.Take(StepsOf(*read)));  // some classes are written longer
    schema["pattern"] = std::move(*read);
  } else if (min.value_or(0) > 0 || max.has_value()) {
    if (max.has_value() && *max < min.value_or(0)) return Schema();
    if (min.value_or(0) > 0) schema["minLength"] = *min;
    if (max.has_value()) schema["maxLength"] = *max;
  } else if (const OrderedJson* const format = FindKeyword(keywords, "format")) {
    const auto* const name = format->get_ptr<const std::string*>();
    const bool is_known = name != nullptr && std::find(std::begin(kFormats), std::end(kFormats),
                                                       *name) != std::end(kFormats);
    if (is_known) schema["format"] = *name;
  }
  return Schema(std::move(schema));
}

Result<Schema> ReadNumberSchema(const Keywords& keywords, bool is_integer) {
  // A multiple of a whole number is one.
  if (is_integer || FindKeyword(keywords, "multipleOf") != nullptr) return ReadInteger(keywords);
  ASSIGN_OR_RETURN(const Bounds bounds, BoundsOf(keywords));
  RETURN_IF_ERROR(CheckDecimals("minimum", bounds.minimum));
  RETURN_IF_ERROR(CheckDecimals("maximum", bounds.maximum));
  RETURN_IF_ERROR(CheckDecimals("exclusiveMinimum", bounds.above));
  RETURN_IF_ERROR(CheckDecimals("exclusiveMaximum", bounds.below));
  const double low = std::max(bounds.minimum.value_or(-INFINITY), bounds.above.value_or(-INFINITY));
  const double high = std::min(bounds.maximum.value_or(INFINITY), bounds.below.value_or(INFINITY));
  const bool has_ends =
      bounds.above.value_or(-INFINITY) < low && bounds.below.value_or(INFINITY) > high;
  if (low > high || (low == high && !has_ends)) return Schema();
  OrderedJson schema = {{"type", "number"}};
  const auto add = [&schema](const char* name, const std::optional<double>& bound) {
    if (bound.has_value()) schema[name] = *bound;
  };
  add("minimum", bounds.minimum);
  add("maximum", bounds.maximum);
  add("exclusiveMinimum", bounds.above);
  add("exclusiveMaximum", bounds.below);
  return Schema(std::move(schema));
}

}  // namespace graft
