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

std::string DecodeHeader(int32_t batch, int32_t context_min, int32_t context, int32_t prompt_tokens,
                         double gbytes_per_s) {
  std::string text = "\ndecode, batch " + std::to_string(batch) + ", context ";
  if (context_min > 0) text += std::to_string(context_min) + " to ";
  text += std::to_string(context);
  if (prompt_tokens > 0) {
    text += ", one of them a prompt of " + std::to_string(prompt_tokens) + " tokens";
  }
  char columns[160];
  std::snprintf(columns, sizeof(columns),
                " (floor: bytes at %.0f GB/s)\n%-26s %8s %8s %6s %8s %7s %7s", gbytes_per_s,
                "adapters", "ms", "floor", "share", "tok/s", "/ base", "bytes");
  return text + columns + StepPartsHeader(/*with_floor=*/true) + "\n";
}

std::string DecodeRowText(const StepRow& row) {
  char text[128];
  std::snprintf(text, sizeof(text), "%-26.60s %8.3f %8.3f %5.1f%% %8.0f %7.3f %7.3f",
                row.name.c_str(), row.median_ms, row.floor.Total(),
                100.0 * row.floor.Total() / row.median_ms, row.tokens_per_second, row.ratio,
                row.bytes_ratio);
  return text + StepPartsText(row);
}

std::string RankOfText(int rank_of, size_t num_exchanges, const LinkModel& link) {
  if (rank_of == 1) return "";
  char cost[96] = "no time";
  if (link.us > 0.0 || link.gbytes_per_s > 0.0) {
    std::snprintf(cost, sizeof(cost), "%g us each and a link of %g GB/s", link.us,
                  link.gbytes_per_s);
  }
  return "one rank of " + std::to_string(rank_of) +
         ", alone: its slices of weights, pages and adapters; " + std::to_string(num_exchanges) +
         " exchanges a step with the others, which are taken to cost " + cost + "\n";
}

OrderedJson RankOfJson(int rank_of, const LinkModel& link) {
  return {{"of", rank_of}, {"link_us", link.us}, {"link_gbytes_per_s", link.gbytes_per_s}};
}

std::vector<Option> RankOfOptionRows(int& rank_of, LinkModel& link) {
  constexpr int kRankOfMax = 16;
  return {{"rank-of", Number(rank_of, Between(1, kRankOfMax)),
           "one rank of so many, alone: its slices of the model, the pages and the adapters; "
           "exchanges with the others take what is said of the link"},
          {.name = "both-sides",
           .target = RemovedSwitch("was removed, since servers keep one side of adapters whole; "
                                   "time those without it"),
           .is_removed = true},
          {"link-us", Number(link.us, AtLeast(0)),
           "what an exchange with --rank-of takes beside the bytes"},
          {"link-gbytes", Number(link.gbytes_per_s, AtLeast(0)),
           "GB/s that a rank receives from the others; 0: bytes take no time"}};
}

}  // namespace graft
