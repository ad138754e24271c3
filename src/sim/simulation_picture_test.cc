#include "sim/simulation_picture.h"

#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

namespace graft {
namespace {

// As SimulationJson writes it, as far as it is drawn.
OrderedJson RunOf(const char* placement, uint64_t seed, double token_ms, double within) {
  return {{"placement", placement},
          {"seed", seed},
          {"first_token_ms", {{"p50", 10.0}, {"p99", 100.0}}},
          {"token_ms", {{"mean", token_ms}}},
          {"slo_ms", 7.8},
          {"slo_attainment", within},
          {"adapter_copies_a_request", 0.25},
          {"runner_hours", 2.0}};
}

// Widths of all bars, in order: panel by panel, placement by placement.
std::vector<double> BarsOf(const std::string& svg) {
  std::vector<double> widths;
  const std::regex bar("<rect x=\"[^\"]*\" y=\"[^\"]*\" width=\"([^\"]*)\"");
  for (std::sregex_iterator it(svg.begin(), svg.end(), bar), end; it != end; ++it) {
    widths.push_back(std::stod((*it)[1]));
  }
  return widths;
}

TEST(SimulationPictureTest, ABarIsAsLongAsTheMeanOfItsSeeds) {
  const OrderedJson runs = {RunOf("most-idle", 1, 8.0, 0.5), RunOf("auto", 1, 5.0, 1.0),
                            RunOf("most-idle", 2, 10.0, 0.5), RunOf("auto", 2, 5.0, 1.0)};
  const std::string svg = SimulationPicture("a cluster", runs);
  const std::vector<double> bars = BarsOf(svg);
  ASSERT_EQ(bars.size(), 12u);  // two placements, six figures
  // The longest seed of a panel fills it: 10 ms.
  EXPECT_NEAR(bars[4] / bars[5], 9.0 / 5.0, 1e-3);
  EXPECT_NEAR(bars[6] / bars[7], 0.5, 1e-3);
  EXPECT_EQ(bars[0], bars[1]);
  // Seeds differ in one placement's time per token alone.
  const std::string line = "<line ";
  const size_t first = svg.find(line);
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(svg.find(line, first + 1), std::string::npos);
  for (const char* const said : {"a cluster", ">most-idle<", ">auto<", "within 7.8 ms a token"}) {
    EXPECT_NE(svg.find(said), std::string::npos) << said;
  }
}

TEST(SimulationPictureTest, RunnersThatComeAndGoHaveABarOfTheirOwn) {
  OrderedJson wanted = RunOf("punica", 1, 5.0, 1.0);
  wanted["paid_runner_hours"] = 1.0;
  const std::string svg = SimulationPicture("a hill", {RunOf("punica", 1, 5.0, 1.0), wanted});
  const std::vector<double> bars = BarsOf(svg);
  ASSERT_EQ(bars.size(), 12u);
  EXPECT_NEAR(bars[10] / bars[11], 2.0, 1e-3);
  EXPECT_NE(svg.find(">punica, as wanted<"), std::string::npos);
}

// A run without requests that count has no times.
TEST(SimulationPictureTest, WhatWasNotCountedIsDrawnAsNothing) {
  OrderedJson run = RunOf("auto", 1, 5.0, 0.0);
  run["first_token_ms"] = run["token_ms"] = nullptr;
  const std::vector<double> bars = BarsOf(SimulationPicture("short", OrderedJson::array({run})));
  EXPECT_EQ(bars, (std::vector<double>{0.0, 0.0, 0.0, 0.0, bars[4], bars[5]}));
  EXPECT_EQ(BarsOf(SimulationPicture("none", OrderedJson::array())), std::vector<double>());
}

}  // namespace
}  // namespace graft
