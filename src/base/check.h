// CHECK: a bug ends the process, in release builds too, with file, line, expression and a hint.
// Usage: CHECK(n > 0) << "pages come in ones and more, got " << n;
#pragma once

#include <sstream>

namespace graft::internal {

// Collects the hint and aborts when it goes out of scope at the end of the failing statement.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* expression);
  [[noreturn]] ~CheckFailure();
  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

// Gives both arms of CHECK's conditional the type void; & binds looser than <<.
struct CheckVoidify {
  void operator&(std::ostream&) {}
};

}  // namespace graft::internal

#define CHECK(condition)                    \
  __builtin_expect(!!(condition), 1)        \
      ? (void)0                             \
      : ::graft::internal::CheckVoidify() & \
            ::graft::internal::CheckFailure(__FILE__, __LINE__, #condition).stream()

#define CHECK_EQ(a, b) CHECK((a) == (b)) << (a) << " vs " << (b) << " "
#define CHECK_NE(a, b) CHECK((a) != (b)) << (a) << " vs " << (b) << " "
#define CHECK_LE(a, b) CHECK((a) <= (b)) << (a) << " vs " << (b) << " "
#define CHECK_LT(a, b) CHECK((a) < (b)) << (a) << " vs " << (b) << " "
#define CHECK_GE(a, b) CHECK((a) >= (b)) << (a) << " vs " << (b) << " "
#define CHECK_GT(a, b) CHECK((a) > (b)) << (a) << " vs " << (b) << " "
