#include "engine/step_size.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

namespace graft {
namespace {

// What one more answer leaves of the weight of those before it.
constexpr double kAnswerMemory = 0.98;
// Means closer than this are equal: what is predicted is not known better.
constexpr double kEqual = 1.001;
// Ends of prompts that are tried as sizes.
constexpr size_t kEndsTried = 8;
// All prompts in so many steps alike, at most.
constexpr int32_t kPartsTried = 4;

// Sizes that are worth comparing, each once or more, in any order.
class Sizes {
 public:
  struct Size {
    double rows = 0.0;
    double mean_ns = 0.0;
  };
  Sizes(double least, double most) : least_(least), most_(most) {}
  void Add(double rows) {
    if (rows >= least_ && rows <= most_ && num_ < sizes_.size()) sizes_[num_++].rows = rows;
  }
  std::span<Size> all() { return std::span(sizes_).first(num_); }

 private:
  const double least_, most_;
  std::array<Size, 64> sizes_;
  size_t num_ = 0;
};

// The number of steps of so many rows after which prompts have ended. Ends of several are taken to
// lie evenly over their rows.
double StepsUntil(const StepDemand::Prompts& prompts, double num_rows) {
  if (prompts.num < 1.5) return std::ceil(prompts.rows_end / num_rows);
  // The integral of the steps over the rows, up to there.
  const auto summed = [](double steps) {
    const double whole = std::floor(steps);
    return (whole + 1.0) * (steps - whole / 2.0);
  };
  const double width = prompts.rows / num_rows;
  const double begin = prompts.rows_end / num_rows - width / 2.0;
  return (summed(begin + width) - summed(begin)) / width;
}

// Rows of sequences that decode, over the steps to come.
class DecodeRows {
 public:
  // So many sequences have a row in each of `tokens` steps behind the first ones.
  void Add(double num, double first, double tokens) {
    all_[num_++] = {num, first, tokens};
    last_end_ = std::max(last_end_, first + tokens);
  }
  // For each sequence the rows that all have until its end, summed up. They are counted at some
  // steps, which are close where many end, and in between they grow evenly.
  double SumAtEnds(double prompt_steps) const {
    std::array<double, 2 * kParts + 1> steps, rows;
    for (int i = 0; i <= kParts; ++i) {
      const double part = static_cast<double>(i) / kParts;
      steps[i] = prompt_steps * part;
      steps[kParts + i] = prompt_steps + (last_end_ - prompt_steps) * part * part;
    }
    for (size_t i = 0; i < steps.size(); ++i) rows[i] = Until(steps[i]);
    double sum = 0.0;
    for (size_t i = 0; i < num_; ++i) {
      const double end = all_[i].first + all_[i].tokens;
      size_t next = 1;
      while (next + 1 < steps.size() && steps[next] < end) ++next;
      const double width = steps[next] - steps[next - 1];
      const double part = width > 0.0 ? (end - steps[next - 1]) / width : 0.0;
      sum += all_[i].num * (rows[next - 1] + (rows[next] - rows[next - 1]) * part);
    }
    return sum;
  }

 private:
  static constexpr int kParts = 8;
  struct Some {
    double num = 0.0;
    double first = 0.0;
    double tokens = 0.0;
  };
  double Until(double step) const {
    double rows = 0.0;
    for (size_t i = 0; i < num_; ++i) {
      const Some& one = all_[i];
      rows += one.num * std::min(std::max(step - one.first, 0.0), one.tokens);
    }
    return rows;
  }

  std::array<Some, StepDemand::kStreamsMax + StepDemand::kPromptsMax> all_;
  size_t num_ = 0;
  double last_end_ = 0.0;
};

}  // namespace

void StepSize::Learn(const StepPlan& plan, int64_t step_ns) {
  int64_t prompt_rows = 0;
  for (const PlannedSequence& one : plan.sequences) {
    const bool decodes = one.num_tokens - one.num_drafts == 1 && one.num_prompt_rows == 0;
    if (!decodes) prompt_rows += one.num_tokens;
  }
  const int64_t decode_rows = static_cast<int64_t>(plan.tokens.size()) - prompt_rows;
  if (prompt_rows == 0) {
    decodes_.Observe(decode_rows, step_ns);
  } else if (prompt_rows >= kRowsMin) {
    const double decode_ns = decodes_.is_known() ? decodes_.At(decode_rows) : 0.0;
    prompts_.Observe(prompt_rows, static_cast<double>(step_ns) - decode_ns);
  }
}

void StepSize::LearnAnswer(int32_t num_tokens) {
  answers_ = answers_ * kAnswerMemory + 1.0;
  answer_tokens_ = answer_tokens_ * kAnswerMemory + num_tokens;
}

double StepSize::TokensOf(int32_t tokens_left) const {
  const double most = std::max(tokens_left, 1);
  return answers_ == 0.0 ? most : std::clamp(answer_tokens_ / answers_, 1.0, most);
}

StepSize::Course StepSize::CourseOf(const StepDemand& demand, double num_rows) const {
  // Without any step of streams alone, what these take is part of what prompts were observed to.
  const double fixed_ns = decodes_.is_known() ? decodes_.At(0) : 0.0;
  const double steps = std::ceil(demand.num_rows() / num_rows);
  const double rows_last = demand.num_rows() - (steps - 1.0) * num_rows;
  return {.steps = steps,
          .full_ns = fixed_ns + prompts_.At(num_rows),
          .last_ns = fixed_ns + prompts_.At(rows_last),
          .after_ns = decodes_.is_known() ? fixed_ns : prompts_.At(0.0)};
}

double StepSize::Course::At(double num) const {
  if (num <= steps - 1.0) return num * full_ns;
  const double before_last_ns = (steps - 1.0) * full_ns;
  if (num <= steps) return before_last_ns + (num - steps + 1.0) * last_ns;
  return before_last_ns + last_ns + (num - steps) * after_ns;
}

double StepSize::MeanEndNs(const StepDemand& demand, double num_rows) const {
  const Course course = CourseOf(demand, num_rows);
  DecodeRows decodes;
  double sum = 0.0;
  const auto add = [&](double num, double first, double tokens) {
    decodes.Add(num, first, tokens);
    sum += num * course.At(first + tokens);
  };
  for (const StepDemand::Streams& one : demand.streams()) {
    if (one.num > 0.0) add(one.num, 0.0, one.tokens);
  }
  for (const StepDemand::Prompts& one : demand.prompts()) {
    add(one.num, StepsUntil(one, num_rows), std::max(0.0, one.tokens - 1.0));
  }
  if (decodes_.is_known()) {
    const double row_ns = decodes_.At(1) - decodes_.At(0);
    if (row_ns > 0.0) sum += row_ns * decodes.SumAtEnds(course.steps);
  }
  return sum / (demand.num_streams() + demand.num_prompts());
}

int32_t StepSize::RowsFor(const StepDemand& demand, int32_t rows_max) const {
  const int64_t grown = std::max<int64_t>(kRowsFirst, 2 * prompts_.rows_most());
  const auto most = static_cast<int32_t>(std::min<int64_t>(rows_max, grown));
  if (demand.prompts().empty() || prompts_.num_known() < 2) return most;
  const double all = demand.num_rows();
  Sizes sizes(kRowsMin, std::min<double>(most, all));
  for (double rows = kRowsMin; rows <= most; rows *= 2.0) {
    sizes.Add(rows);
    sizes.Add(rows * 1.5);
  }
  for (size_t i = 0; i < std::min(demand.prompts().size(), kEndsTried); ++i) {
    sizes.Add(std::ceil(demand.prompts()[i].rows_end));
  }
  for (int32_t parts = 1; parts <= kPartsTried; ++parts) sizes.Add(std::ceil(all / parts));
  sizes.Add(most);
  if (sizes.all().empty()) return most;
  double least_ns = std::numeric_limits<double>::infinity();
  for (Sizes::Size& size : sizes.all()) {
    size.mean_ns = MeanEndNs(demand, size.rows);
    least_ns = std::min(least_ns, size.mean_ns);
  }
  double best = all;
  for (const Sizes::Size& size : sizes.all()) {
    if (size.mean_ns <= least_ns * kEqual) best = std::min(best, size.rows);
  }
  // A step that has room for all has it for prompts that were not foreseen, too.
  return best >= all ? most : static_cast<int32_t>(best);
}

}  // namespace graft
