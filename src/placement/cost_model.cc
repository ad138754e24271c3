#include "placement/cost_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/json.h"

namespace graft {
namespace {

struct CostField {
  const char* name;
  double CostModel::*value;
  bool is_optional = false;  // files that graft profile wrote before it fitted this lack it
};
constexpr CostField kStepFields[] = {
    {"base_ms", &CostModel::step_ms},
    {"ms_per_row", &CostModel::step_ms_per_row},
    {"ms_per_unit", &CostModel::step_ms_per_unit},
    {"ms_per_prompt_token", &CostModel::step_ms_per_prompt_token},
    {"ms_per_context_token", &CostModel::step_ms_per_context_token},
    {"ms_per_prompt_pair", &CostModel::step_ms_per_prompt_pair, true},
    {"ms_per_prompt_unit", &CostModel::step_ms_per_prompt_unit, true},
    {"ms_with_adapters", &CostModel::step_ms_with_adapters, true},
    {"ms_with_prompts", &CostModel::step_ms_with_prompts, true},
    {"r_squared", &CostModel::step_r_squared}};
constexpr CostField kLoadFields[] = {{"base_ms", &CostModel::load_ms},
                                     {"ms_per_rank", &CostModel::load_ms_per_rank},
                                     {"fetch_ms", &CostModel::fetch_ms}};
struct ServedField {
  const char* name;
  double ServedCosts::*value;
};
constexpr ServedField kServedFields[] = {{"first_token_ms", &ServedCosts::first_token_ms},
                                         {"step_ms", &ServedCosts::step_ms},
                                         {"ms_per_row", &ServedCosts::ms_per_row}};
struct SlownessField {
  const char* name;
  std::vector<double> ServedCosts::*values;
};
constexpr SlownessField kSlownessFields[] = {{"decode_slowness", &ServedCosts::decode_slowness},
                                             {"prompt_slowness", &ServedCosts::prompt_slowness}};
constexpr const char* kPaddedUnit = "batch times largest rank";
constexpr const char* kSumUnit = "sum of ranks";

double MeanOf(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

Status ReadNumber(const Json& object, const std::string& where, const char* name, double* value) {
  const std::string field = where + "." + name;
  if (!object.is_object() || !object.contains(name)) {
    return InvalidArgumentError(field + " is missing; graft profile writes it");
  }
  const Json& number = object.at(name);
  if (!number.is_number() || !std::isfinite(number.get<double>()) || number.get<double>() < 0.0) {
    return InvalidArgumentError(field + " must be a number, 0 or above");
  }
  *value = number.get<double>();
  return OkStatus();
}

Json PartOf(const Json& json, const char* name) {
  return json.is_object() && json.contains(name) ? json.at(name) : Json();
}

Status ReadLine(const Json& json, const char* name, CostLine* line) {
  const Json part = PartOf(json, name);
  RETURN_IF_ERROR(ReadNumber(part, name, "base_ms", &line->base_ms));
  RETURN_IF_ERROR(ReadNumber(part, name, "ms_per_unit", &line->ms_per_unit));
  return ReadNumber(part, name, "r_squared", &line->r_squared);
}

// Files that graft profile wrote before it timed served requests have no such part.
Status ReadServed(const Json& json, ServedCosts* served) {
  if (!json.is_object() || !json.contains("served")) return OkStatus();
  const Json& part = json.at("served");
  for (const ServedField& field : kServedFields) {
    if (!part.is_object() || !part.contains(field.name) || !part.at(field.name).is_number()) {
      return InvalidArgumentError(std::string("served.") + field.name +
                                  " must be a number; graft profile writes it");
    }
    served->*field.value = part.at(field.name).get<double>();
  }
  for (const SlownessField& field : kSlownessFields) {
    const Json values = PartOf(part, field.name);
    std::vector<double>& read = served->*field.values;
    bool is_sound = values.is_array();
    for (size_t i = 0; is_sound && i < values.size(); ++i) {
      is_sound = values[i].is_number() && values[i].get<double>() >= 1.0;
      if (is_sound) read.push_back(values[i].get<double>());
    }
    if (!is_sound) {
      return InvalidArgumentError(std::string("served.") + field.name +
                                  " must be a list of numbers, 1 or above; graft profile writes "
                                  "it");
    }
  }
  return OkStatus();
}

OrderedJson LineJson(const CostLine& line, const char* unit) {
  return {{"unit", unit},
          {"base_ms", line.base_ms},
          {"ms_per_unit", line.ms_per_unit},
          {"r_squared", line.r_squared}};
}

// The share of a column's square that rounding leaves where other columns determine all of it.
constexpr double kOwnShareMin = 1e-10;

// Normal equations of the columns named by `used`, each row divided by its time, by elimination.
// Empty: the columns depend on each other.
std::vector<double> SolveColumns(const std::vector<std::vector<double>>& rows,
                                 std::span<const double> ms, const std::vector<size_t>& used) {
  const size_t n = used.size();
  std::vector<std::vector<double>> a(n, std::vector<double>(n + 1, 0.0));
  for (size_t row = 0; row < rows.size(); ++row) {
    const double weight = 1.0 / (ms[row] * ms[row]);
    for (size_t i = 0; i < n; ++i) {
      const double weighted = weight * rows[row][used[i]];
      for (size_t j = 0; j < n; ++j) a[i][j] += weighted * rows[row][used[j]];
      a[i][n] += weighted * ms[row];
    }
  }
  // What is left of a column's square once the columns before it are taken out is the part that
  // they do not determine. The matrix is positive, so that its diagonal needs no other pivots.
  std::vector<double> square(n);
  for (size_t i = 0; i < n; ++i) square[i] = a[i][i];
  for (size_t i = 0; i < n; ++i) {
    if (!(a[i][i] > kOwnShareMin * square[i])) return {};
    for (size_t k = 0; k < n; ++k) {
      if (k == i) continue;
      const double factor = a[k][i] / a[i][i];
      for (size_t j = i; j <= n; ++j) a[k][j] -= factor * a[i][j];
    }
  }
  std::vector<double> solved;
  for (size_t i = 0; i < n; ++i) solved.push_back(a[i][n] / a[i][i]);
  return solved;
}

}  // namespace

double ServedCosts::SlownessOf(const std::vector<double>& measured, int32_t num_busy) {
  if (measured.empty() || num_busy <= 1) return 1.0;
  const auto count = static_cast<size_t>(num_busy);
  if (count <= measured.size()) return measured[count - 1];
  return measured.back() * num_busy / static_cast<double>(measured.size());
}

CostLine FitLine(std::span<const double> units, std::span<const double> ms) {
  CHECK(!units.empty());
  CHECK_EQ(units.size(), ms.size());
  const double mean_units = MeanOf(units);
  const double mean_ms = MeanOf(ms);
  double both = 0.0, square = 0.0;
  for (size_t i = 0; i < units.size(); ++i) {
    both += (units[i] - mean_units) * (ms[i] - mean_ms);
    square += (units[i] - mean_units) * (units[i] - mean_units);
  }
  CostLine line;
  line.ms_per_unit = square > 0.0 ? both / square : 0.0;
  line.base_ms = mean_ms - line.ms_per_unit * mean_units;
  std::vector<double> predicted;
  for (const double one : units) predicted.push_back(line.At(one));
  line.r_squared = RSquared(ms, predicted);
  return line;
}

double RSquared(std::span<const double> ms, std::span<const double> predicted) {
  CHECK_EQ(ms.size(), predicted.size());
  const double mean = MeanOf(ms);
  double residual = 0.0, total = 0.0;
  for (size_t i = 0; i < ms.size(); ++i) {
    residual += (ms[i] - predicted[i]) * (ms[i] - predicted[i]);
    total += (ms[i] - mean) * (ms[i] - mean);
  }
  return total > 0.0 ? 1.0 - residual / total : 1.0;
}

Result<std::vector<double>> FitColumns(const std::vector<std::vector<double>>& rows,
                                       std::span<const double> ms) {
  CHECK_EQ(rows.size(), ms.size());
  const size_t num_columns = rows.empty() ? 0 : rows.front().size();
  if (num_columns == 0 || rows.size() < num_columns) {
    return InvalidArgumentError("too few measurements to fit " + std::to_string(num_columns) +
                                " costs: there are " + std::to_string(rows.size()));
  }
  std::vector<size_t> used(num_columns);
  std::iota(used.begin(), used.end(), size_t{0});
  std::vector<double> fitted(num_columns, 0.0);
  while (!used.empty()) {
    const std::vector<double> solved = SolveColumns(rows, ms, used);
    if (solved.empty()) {
      return InvalidArgumentError("the measurements do not tell their costs apart: vary them more");
    }
    const auto least = std::min_element(solved.begin(), solved.end());
    if (*least < 0.0) {
      used.erase(used.begin() + (least - solved.begin()));
      continue;
    }
    for (size_t i = 0; i < used.size(); ++i) fitted[used[i]] = solved[i];
    break;
  }
  return fitted;
}

OrderedJson ToJson(const CostModel& costs) {
  OrderedJson step, load;
  for (const CostField& field : kStepFields) step[field.name] = costs.*field.value;
  for (const CostField& field : kLoadFields) load[field.name] = costs.*field.value;
  OrderedJson served;
  for (const ServedField& field : kServedFields) served[field.name] = costs.served.*field.value;
  for (const SlownessField& field : kSlownessFields) {
    served[field.name] = costs.served.*field.values;
  }
  return {{"pads", costs.pads},
          {"decode", LineJson(costs.decode, costs.pads ? kPaddedUnit : kSumUnit)},
          {"prompt", LineJson(costs.prompt, "tokens")},
          {"step", std::move(step)},
          {"load", std::move(load)},
          {"served", std::move(served)}};
}

Result<CostModel> CostModelFromJson(const Json& json) {
  CostModel costs;
  const Json pads = PartOf(json, "pads");
  if (!pads.is_boolean()) return InvalidArgumentError("pads must be true or false");
  costs.pads = pads.get<bool>();
  RETURN_IF_ERROR(ReadLine(json, "decode", &costs.decode));
  RETURN_IF_ERROR(ReadLine(json, "prompt", &costs.prompt));
  for (const CostField& field : kStepFields) {
    if (field.is_optional && !PartOf(json, "step").contains(field.name)) continue;
    RETURN_IF_ERROR(ReadNumber(PartOf(json, "step"), "step", field.name, &(costs.*field.value)));
  }
  for (const CostField& field : kLoadFields) {
    RETURN_IF_ERROR(ReadNumber(PartOf(json, "load"), "load", field.name, &(costs.*field.value)));
  }
  RETURN_IF_ERROR(ReadServed(json, &costs.served));
  return costs;
}

Result<CostModel> ReadCostModel(const std::string& path) {
  ASSIGN_OR_RETURN(const Json json, ParseJsonFile(path));
  Result<CostModel> costs = CostModelFromJson(json);
  if (!costs.ok()) return costs.status().WithContext(path);
  return costs;
}

}  // namespace graft
