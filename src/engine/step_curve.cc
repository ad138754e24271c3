#include "engine/step_curve.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace graft {
namespace {

// Points tell a slope if one has at most this share of the other's rows.
constexpr double kApart = 0.75;

}  // namespace

void StepCurve::Observe(int64_t num_rows, double ns) {
  CHECK_GT(num_rows, 0);
  ++num_observed_;
  rows_most_ = std::max(rows_most_, num_rows);
  const int32_t idx = std::bit_width(static_cast<uint64_t>(num_rows)) - 1;
  SizeClass& its = classes_[static_cast<size_t>(std::min(idx, kClasses - 1))];
  its.weight = std::min(its.weight + 1.0, kStepsRemembered);
  its.rows += (static_cast<double>(num_rows) - its.rows) / its.weight;
  its.ns += (std::max(ns, 0.0) - its.ns) / its.weight;
  its.seen_at = num_observed_;
  JoinPoints();
}

void StepCurve::JoinPoints() {
  num_known_ = 0;
  double least_ns = 0.0;
  for (SizeClass& one : classes_) {
    if (one.weight == 0.0) continue;
    if (num_observed_ - one.seen_at >= kForgottenAfter) {
      one = {};
      continue;
    }
    least_ns = std::max(least_ns, one.ns);
    points_[static_cast<size_t>(num_known_++)] = {one.rows, least_ns};
  }
}

double StepCurve::OnLine(const Point& a, const Point& b, double num_rows) {
  return std::max(0.0, a.ns + (b.ns - a.ns) * (num_rows - a.rows) / (b.rows - a.rows));
}

// Beyond its ends the curve goes on straight, if there is a point that tells the slope. It is never
// steeper there than in proportion to the rows: where steps of more rows took more for each of
// them, the rows' contexts were longer.
double StepCurve::At(double num_rows) const {
  const auto begin = points_.begin();
  const auto end = begin + num_known_;
  if (begin == end) return 0.0;
  const auto next = std::find_if(begin, end, [&](const Point& p) { return p.rows >= num_rows; });
  if (next == begin) {
    const auto other =
        std::find_if(begin, end, [&](const Point& p) { return p.rows * kApart >= begin->rows; });
    const double in_proportion = OnLine({}, *begin, num_rows);
    return other == end ? in_proportion : std::max(in_proportion, OnLine(*other, *begin, num_rows));
  }
  if (next != end) return OnLine(next[-1], *next, num_rows);
  const Point& last = end[-1];
  auto other = end;
  while (other != begin && other[-1].rows > last.rows * kApart) --other;
  const double in_proportion = OnLine({}, last, num_rows);
  return other == begin ? in_proportion
                        : std::min(in_proportion, OnLine(other[-1], last, num_rows));
}

}  // namespace graft
