#include "kernels/round_rows/round_rows.h"

#include <gtest/gtest.h>

#include "kernels/common/op_test_util.h"

namespace graft {
namespace round_rows_test {

using testing::Input;
using testing::Output;
using testing::Shared;

template <typename T>
void ExpectRounded() {
  constexpr int64_t kElements = 2000;
  const auto x = Input<float>::Normal(kElements, 1, 1);
  testing::ForEachDevice([&](Stream& stream) {
    Output<T> out(kElements, 1);
    // Backwards, of many sizes, with a gap before each.
    std::vector<RoundedRow> list;
    int64_t begin = 0, end = kElements;
    for (const int64_t n : {1, 7, 8, 31, 300, 1024}) {
      end -= n + 1;
      list.push_back({begin, n, out.data() + end + 1});
      begin += n;
    }
    const Shared<RoundedRow> rows(list);
    RoundRows({.x = x.data(),
               .rows = rows.data(),
               .num_rows = static_cast<int64_t>(rows.size()),
               .dtype = DTypeOf<T>()},
              stream);
    Synchronize(stream);
    EXPECT_TRUE(out.GuardsIntact());
    for (const RoundedRow& row : list) {
      const int64_t first = static_cast<T*>(row.out) - out.data();
      EXPECT_TRUE(out.IsUntouched(first - 1));
      for (int64_t i = 0; i < row.n; ++i) {
        const T expected = FromFloat<T>(x[row.begin + i]);
        ASSERT_TRUE(testing::BitEqual(&expected, &out[first + i], 1)) << row.n << " " << i;
      }
    }
  });
}

TEST(RoundRowsTest, MatchesReference) {
  ExpectRounded<float>();
  ExpectRounded<Bfloat16>();
  ExpectRounded<Float16>();
}

}  // namespace round_rows_test
}  // namespace graft
