#include "bench/step_report.h"

#include <cstdio>

namespace graft {

std::string StepPartsHeader(bool with_floor) {
  return with_floor ? "  by kernels, ms (floor): gemm           lora      attention     rest"
                    : "  by kernels, ms: gemm    lora  attention   rest";
}

std::string StepPartsText(const StepRow& row) {
  char text[96];
  if (row.floor.Total() > 0.0) {
    std::snprintf(text, sizeof(text), "          %9.3f (%5.3f) %6.3f (%5.3f) %6.3f (%5.3f) %6.3f",
                  row.parts.gemm, row.floor.gemm, row.parts.lora, row.floor.lora,
                  row.parts.attention, row.floor.attention, row.parts.rest);
  } else {
    std::snprintf(text, sizeof(text), "          %10.3f %7.3f %10.3f %6.3f", row.parts.gemm,
                  row.parts.lora, row.parts.attention, row.parts.rest);
  }
  return text;
}

std::vector<DraftsRow> SpeedupsOfDrafts(int32_t num_drafts, double step_ratio,
                                        const std::vector<double>& acceptance) {
  std::vector<DraftsRow> rows;
  for (const double probability : acceptance) {
    // A step has its own token, and draft i if all up to i are right.
    double tokens = 1.0, reached = 1.0;
    for (int32_t i = 0; i < num_drafts; ++i) tokens += reached *= probability;
    rows.push_back({probability, tokens, tokens * step_ratio});
  }
  return rows;
}

std::string DraftsText(const std::vector<DraftsRow>& rows) {
  std::string text;
  for (const DraftsRow& row : rows) {
    char one[96];
    std::snprintf(one, sizeof(one), "  accepted with %.2f: %.2f tokens a step, %.3f of base;",
                  row.acceptance, row.tokens, row.ratio);
    text += one;
  }
  if (!text.empty()) text.pop_back();
  return text;
}

OrderedJson StepRowsJson(const std::vector<StepRow>& rows) {
  OrderedJson array = OrderedJson::array();
  for (const StepRow& row : rows) {
    OrderedJson json = {{"adapters", row.name}};
    if (row.batch > 0) {
      json.update(
          {{"batch", row.batch}, {"context", row.context}, {"context_min", row.context_min}});
    }
    if (row.prompt_tokens > 0) json["prompt_tokens"] = row.prompt_tokens;
    json["median_ms"] = row.median_ms;
    json["tokens_per_second"] = row.tokens_per_second;
    json["over_base"] = row.ratio;
    if (row.floor.Total() > 0.0) {
      json.update({{"floor_ms", row.floor.Total()},
                   {"bytes_over_base", row.bytes_ratio},
                   {"gemm_floor_ms", row.floor.gemm},
                   {"lora_floor_ms", row.floor.lora},
                   {"attention_floor_ms", row.floor.attention}});
    }
    for (const DraftsRow& drafts : row.drafts) {
      json["drafts"].push_back({{"acceptance", drafts.acceptance},
                                {"tokens", drafts.tokens},
                                {"tokens_over_base", drafts.ratio}});
    }
    json.update({{"gemm_ms", row.parts.gemm},
                 {"lora_ms", row.parts.lora},
                 {"attention_ms", row.parts.attention},
                 {"rest_ms", row.parts.rest}});
    array.push_back(std::move(json));
  }
  return array;
}

OrderedJson TurnsJson(const std::vector<TurnsRow>& rows) {
  OrderedJson array = OrderedJson::array();
  for (const TurnsRow& row : rows) {
    array.push_back({{"adapters", row.num_adapters},
                     {"batched_ms", row.batched_ms},
                     {"batched_tokens_per_second", row.batched_tokens_per_second},
                     {"merged_ms", row.merged_ms},
                     {"merged_tokens_per_second", row.merged_tokens_per_second}});
  }
  return array;
}

}  // namespace graft
