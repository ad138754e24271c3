// StepCurve: what rows of prompts add to a step's time, by their number, as steps of late took. It
// keeps a mean for each size class, from a power of two to the next, and joins the means by lines:
// products over many rows run better than a single line says, and rows of long contexts take more.
// There is no clock in it, and nothing of one machine. Engine thread only.
#pragma once

#include <array>
#include <cstdint>

namespace graft {

class StepCurve {
 public:
  // Once so many steps of other classes were observed, a class is not known any more. So a size
  // that was slow once, by its first launch for example, is tried again.
  static constexpr int64_t kForgottenAfter = 64;

  // A step with so many rows of prompts, one at least, took `ns` longer than one without them.
  void Observe(int64_t num_rows, double ns);
  // Classes that are known. With two of them, what is the same for all sizes can be told from what
  // grows with the rows.
  int32_t num_known() const { return num_known_; }
  // The most rows that were ever observed.
  int64_t rows_most() const { return rows_most_; }
  // Nanoseconds; 0 as long as no class is known. More rows never take less.
  double At(double num_rows) const;

 private:
  static constexpr int32_t kClasses = 32;
  // The last few steps count: contexts grow from step to step.
  static constexpr double kStepsRemembered = 4.0;

  struct SizeClass {
    double weight = 0.0;  // 0: not known
    double rows = 0.0;    // means
    double ns = 0.0;
    int64_t seen_at = 0;
  };
  struct Point {
    double rows = 0.0;
    double ns = 0.0;
  };
  void JoinPoints();
  static double OnLine(const Point& a, const Point& b, double num_rows);

  std::array<SizeClass, kClasses> classes_;
  std::array<Point, kClasses> points_;  // of the known classes, rising in both; num_known_ of them
  int32_t num_known_ = 0;
  int64_t num_observed_ = 0;
  int64_t rows_most_ = 0;
};

}  // namespace graft
