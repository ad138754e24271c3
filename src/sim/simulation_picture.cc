#include "sim/simulation_picture.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

namespace graft {
namespace {

// In pixels.
constexpr double kPanelWidth = 470;
constexpr double kLabelWidth = 165;
constexpr double kBarWidth = 230;  // of the longest
constexpr double kRowHeight = 20;
constexpr double kBarHeight = 13;
constexpr double kPanelHead = 34;
constexpr double kPanelGap = 18;
constexpr double kTitleHeight = 30;
constexpr size_t kColumns = 2;
// The colors of placements, in turns. They differ without telling red from green, too.
constexpr const char* kColors[] = {"#0b6e99", "#c8553d", "#5b8c3a", "#7a4e9f",
                                   "#b58900", "#555555", "#d081b8", "#3aa6a0"};
// Runs have this only if runners come and go.
constexpr const char* kPaid = "paid_runner_hours";

// One placement: a figure by seed.
struct Row {
  std::string label;
  std::vector<double> values;
};

struct Panel {
  std::string title;
  std::vector<Row> rows;
};

double Percentile(const OrderedJson& run, const char* of, const char* which) {
  return run[of].is_null() ? 0.0 : run[of][which].get<double>();
}

std::string LabelOf(const OrderedJson& run) {
  const auto placement = run["placement"].get<std::string>();
  return run.contains(kPaid) ? placement + ", as wanted" : placement;
}

// Four digits, and never by an exponent.
std::string Number(double value) {
  return std::abs(value) < 1000.0 ? fmt::format("{:.4g}", value) : fmt::format("{:.0f}", value);
}

template <typename ValueOf>
Panel MakePanel(std::string title, const OrderedJson& runs, const ValueOf& value_of) {
  Panel panel = {.title = std::move(title)};
  for (const OrderedJson& run : runs) {
    const std::string label = LabelOf(run);
    auto row = std::find_if(panel.rows.begin(), panel.rows.end(),
                            [&](const Row& one) { return one.label == label; });
    if (row == panel.rows.end()) row = panel.rows.insert(row, {.label = label});
    row->values.push_back(value_of(run));
  }
  return panel;
}

std::vector<Panel> PanelsOf(const OrderedJson& runs) {
  const std::string bound = Number(runs[0]["slo_ms"].get<double>());
  std::vector<Panel> panels;
  panels.push_back(MakePanel("first token, P50 (ms)", runs, [](const OrderedJson& run) {
    return Percentile(run, "first_token_ms", "p50");
  }));
  panels.push_back(MakePanel("first token, P99 (ms)", runs, [](const OrderedJson& run) {
    return Percentile(run, "first_token_ms", "p99");
  }));
  panels.push_back(MakePanel("time per token, mean (ms)", runs, [](const OrderedJson& run) {
    return Percentile(run, "token_ms", "mean");
  }));
  panels.push_back(
      MakePanel("share of requests within " + bound + " ms a token", runs,
                [](const OrderedJson& run) { return run["slo_attainment"].get<double>(); }));
  panels.push_back(MakePanel("copies of adapters a request", runs, [](const OrderedJson& run) {
    return run["adapter_copies_a_request"].get<double>();
  }));
  const bool scales = std::any_of(runs.begin(), runs.end(),
                                  [](const OrderedJson& run) { return run.contains(kPaid); });
  panels.push_back(MakePanel(
      scales ? "runner-hours with requests; as wanted: paid" : "runner-hours with requests", runs,
      [](const OrderedJson& run) {
        return run[run.contains(kPaid) ? kPaid : "runner_hours"].get<double>();
      }));
  return panels;
}

void Text(double x, double y, const char* more, const std::string& text, std::string* svg) {
  *svg += "<text x=\"" + Number(x) + "\" y=\"" + Number(y) + "\"" + more + ">" + text + "</text>\n";
}

// A row: its name, the bar, the line over its seeds, the mean in digits.
void DrawRow(const Row& row, double x, double y, double most, const char* color, std::string* svg) {
  double sum = 0.0;
  for (const double value : row.values) sum += value;
  const double mean = sum / static_cast<double>(row.values.size());
  const auto [least, largest] = std::minmax_element(row.values.begin(), row.values.end());
  const double per_unit = most > 0.0 ? kBarWidth / most : 0.0;
  const double left = x + kLabelWidth;
  const double middle = y + kBarHeight / 2;
  Text(left - 6, y + kBarHeight - 2, " text-anchor=\"end\"", row.label, svg);
  *svg += "<rect x=\"" + Number(left) + "\" y=\"" + Number(y) + "\" width=\"" +
          Number(mean * per_unit) + "\" height=\"" + Number(kBarHeight) + "\" fill=\"" + color +
          "\"/>\n";
  if (*largest > *least) {
    *svg += "<line x1=\"" + Number(left + *least * per_unit) + "\" x2=\"" +
            Number(left + *largest * per_unit) + "\" y1=\"" + Number(middle) + "\" y2=\"" +
            Number(middle) + "\" stroke=\"#222222\"/>\n";
  }
  Text(left + std::max(mean, *largest) * per_unit + 5, y + kBarHeight - 2, "", Number(mean), svg);
}

void DrawPanel(const Panel& panel, double x, double y, std::string* svg) {
  Text(x + kLabelWidth, y + kPanelHead / 2, " font-weight=\"bold\"", panel.title, svg);
  double most = 0.0;
  for (const Row& row : panel.rows) {
    most = std::max(most, *std::max_element(row.values.begin(), row.values.end()));
  }
  for (size_t i = 0; i < panel.rows.size(); ++i) {
    DrawRow(panel.rows[i], x, y + kPanelHead - 8 + static_cast<double>(i) * kRowHeight, most,
            kColors[i % std::size(kColors)], svg);
  }
}

}  // namespace

std::string SimulationPicture(const std::string& title, const OrderedJson& runs) {
  const std::vector<Panel> panels = runs.empty() ? std::vector<Panel>() : PanelsOf(runs);
  const size_t num_rows = panels.empty() ? 0 : panels[0].rows.size();
  const double panel_height = kPanelHead + static_cast<double>(num_rows) * kRowHeight + kPanelGap;
  const size_t num_lines = (panels.size() + kColumns - 1) / kColumns;
  const std::string width = Number(kPanelWidth * kColumns);
  const std::string height = Number(kTitleHeight + static_cast<double>(num_lines) * panel_height);
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + width + "\" height=\"" +
                    height + "\" viewBox=\"0 0 " + width + " " + height +
                    "\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222222\">\n" +
                    "<rect width=\"" + width + "\" height=\"" + height + "\" fill=\"#ffffff\"/>\n";
  Text(12, 20, " font-size=\"14\"", title, &svg);
  for (size_t i = 0; i < panels.size(); ++i) {
    DrawPanel(panels[i], static_cast<double>(i % kColumns) * kPanelWidth,
              kTitleHeight + static_cast<double>(i / kColumns) * panel_height, &svg);
  }
  return svg + "</svg>\n";
}

}  // namespace graft
