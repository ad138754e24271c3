#include "engine/step_demand.h"

#include <algorithm>
#include <bit>

namespace graft {
namespace {

// Prompts that are added as a number are as many points as this at most.
constexpr double kPartsMax = 8.0;

}  // namespace

void StepDemand::Clear() {
  streams_.fill({});
  prompts_.clear();
  num_streams_ = num_prompts_ = num_rows_ = 0.0;
}

void StepDemand::AddStream(double tokens) {
  const auto whole = static_cast<uint64_t>(std::clamp(tokens, 1.0, 1e9));
  Streams& alike = streams_[static_cast<size_t>(std::bit_width(whole) - 1)];
  alike.num += 1.0;
  alike.tokens += (tokens - alike.tokens) / alike.num;
  num_streams_ += 1.0;
}

void StepDemand::AddPrompts(double num, double rows, double tokens) {
  if (num <= 0.0) return;
  const double part = num / std::min(num, kPartsMax);
  for (double left = num; left > 0.5 * part; left -= part) {
    if (prompts_.size() == kPromptsMax) Halve();
    prompts_.push_back({.num = part,
                        .rows = rows * part,
                        .rows_end = num_rows_ + rows * (part + 1.0) / 2.0,
                        .tokens = tokens});
    num_rows_ += rows * part;
  }
  num_prompts_ += num;
}

void StepDemand::Halve() {
  for (size_t i = 0; i < prompts_.size() / 2; ++i) {
    const Prompts& a = prompts_[2 * i];
    const Prompts& b = prompts_[2 * i + 1];
    const double num = a.num + b.num;
    prompts_[i] = {.num = num,
                   .rows = a.rows + b.rows,
                   .rows_end = (a.rows_end * a.num + b.rows_end * b.num) / num,
                   .tokens = (a.tokens * a.num + b.tokens * b.num) / num};
  }
  prompts_.resize(prompts_.size() / 2);
}

}  // namespace graft
