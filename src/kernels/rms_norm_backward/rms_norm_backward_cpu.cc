#include "kernels/rms_norm_backward/rms_norm_backward.h"

#include "kernels/common/parallel_rows.h"
#include "kernels/common/simd.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

// One vector's arrays; of d_x and d_x_copy one may be null.
struct NormBackwardVector {
  const float* x;
  const float* d_out;
  float* d_x;
  float* d_x_copy;
};

// d_x += r (d_out w - x r^2 mean(d_out w x)), where r is 1 / sqrt(mean(x^2) + epsilon).
void BackwardVector(const RmsNormBackwardArgs& args, const NormBackwardVector& vector) {
  constexpr int kLanes = Vec::kLanes;
  const float* x = vector.x;
  const float* d_out = vector.d_out;
  Vec squares = Vec::Zero();
  Vec products = Vec::Zero();
  for (int64_t i = 0; i < args.n; i += kLanes) {
    const int lanes = args.n - i < kLanes ? static_cast<int>(args.n - i) : kLanes;
    const Vec v = Vec::LoadPartial(x + i, lanes);
    const Vec d = Vec::LoadPartial(d_out + i, lanes) * Vec::LoadPartial(args.weight + i, lanes);
    squares = Fma(v, v, squares);
    products = Fma(d, v, products);
  }
  const auto n = static_cast<float>(args.n);
  const float r = 1.0f / __builtin_sqrtf(squares.Sum() / n + args.epsilon);
  const Vec along = Vec::Set(-r * r * r * products.Sum() / n);
  const Vec scale = Vec::Set(args.copy_scale);
  for (int64_t i = 0; i < args.n; i += kLanes) {
    const int lanes = args.n - i < kLanes ? static_cast<int>(args.n - i) : kLanes;
    const Vec d = Vec::LoadPartial(d_out + i, lanes) * Vec::LoadPartial(args.weight + i, lanes);
    Vec change = Fma(along, Vec::LoadPartial(x + i, lanes), d * Vec::Set(r));
    if (vector.d_x != nullptr) {
      change = Vec::LoadPartial(vector.d_x + i, lanes) + change;
      change.StorePartial(vector.d_x + i, lanes);
    }
    if (vector.d_x_copy != nullptr) (change * scale).StorePartial(vector.d_x_copy + i, lanes);
  }
}

void BackwardRow(const RmsNormBackwardArgs& args, int64_t row) {
  const int64_t to = args.rows == nullptr ? row : args.rows[row];
  for (int64_t head = 0; head < args.num_heads; ++head) {
    const int64_t column = head * args.n;
    const int64_t place = to * args.d_x_stride + column;
    BackwardVector(
        args, {.x = static_cast<const float*>(args.x) + row * args.x_stride + column,
               .d_out = static_cast<const float*>(args.d_out) + row * args.d_out_stride + column,
               .d_x = args.d_x == nullptr ? nullptr : args.d_x + place,
               .d_x_copy = args.d_x_copy == nullptr ? nullptr
                                                    : static_cast<float*>(args.d_x_copy) + place});
  }
}

}  // namespace

void RmsNormBackward(const RmsNormBackwardArgs& args, Stream& stream) {
  const int64_t row_bytes = args.num_heads * args.n * 16;
  ParallelRows(args.num_rows, row_bytes, stream, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) BackwardRow(args, row);
  });
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
