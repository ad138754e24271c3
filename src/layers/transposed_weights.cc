#include "layers/transposed_weights.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace graft {
namespace {

// What each of a layer's products takes.
std::array<int64_t, kLayerProducts> ProductBytes(const ModelShape& shape, DType dtype,
                                                 const Device& device) {
  if (GemmReadsTransposed(dtype, device)) return {};
  const auto bytes = [&](int64_t n, int64_t k) {
    return GemmWeight::BytesFor(k, n, dtype, device);
  };
  return {bytes(shape.qkv_size(), shape.hidden()), bytes(shape.hidden(), shape.q_size()),
          bytes(shape.gate_up_size(), shape.hidden()), bytes(shape.hidden(), shape.intermediate())};
}

}  // namespace

int64_t TransposedWeights::LayerBytes(const ModelShape& shape, DType dtype, const Device& device) {
  const auto bytes = ProductBytes(shape, dtype, device);
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
}

// A GPU has room for all of a layer's, the CPU makes one after the other.
int64_t TransposedWeights::MadeBytes(const ModelShape& shape, DType dtype, const Device& device) {
  if (!device.is_cpu()) return LayerBytes(shape, dtype, device);
  return std::ranges::max(ProductBytes(shape, dtype, device));
}

const GemmWeight& WeightOf(const LayerWeights& layer, LayerProduct product) {
  switch (product) {
    case LayerProduct::kQkv:
      return layer.qkv;
    case LayerProduct::kO:
      return layer.o;
    case LayerProduct::kGateUp:
      return layer.gate_up;
    case LayerProduct::kDown:
      return layer.down;
  }
  CHECK(false) << "no such product: " << static_cast<int>(product);
  __builtin_unreachable();
}

TransposedWeights::TransposedWeights(std::span<const LayerWeights> layers, const GemmWeight& head,
                                     int32_t num_kept, Stream& stream,
                                     const std::function<void()>& pause)
    : layers_(layers),
      head_(head),
      stream_(stream),
      reads_(GemmReadsTransposed(head.dtype(), stream.device)) {
  if (reads_) return;
  transposed_head_ = head.Transposed(stream, pause);
  const auto num_layers = static_cast<int32_t>(layers.size());
  for (int32_t i = num_layers - num_kept; i < num_layers; ++i) {
    if (pause) pause();
    LayerTransposed& layer = kept_.emplace_back();
    for (int product = 0; product < kLayerProducts; ++product) {
      layer[product] = WeightOf(layers[static_cast<size_t>(i)], static_cast<LayerProduct>(product))
                           .Transposed(stream, pause);
    }
  }
  if (stream.device.is_cpu() || num_kept == num_layers) return;
  for (int product = 0; product < kLayerProducts; ++product) {
    room_[product] =
        GemmWeight::LikeTransposed(WeightOf(layers[0], static_cast<LayerProduct>(product)));
  }
}

GemmArgs TransposedWeights::ArgsOf(int32_t layer, LayerProduct product) {
  const GemmWeight& weight = WeightOf(layers_[static_cast<size_t>(layer)], product);
  if (reads_) return {.transposed = true, .weight = &weight};
  const int32_t first = static_cast<int32_t>(layers_.size()) - num_kept();
  const auto index = static_cast<size_t>(product);
  if (layer >= first) return {.weight = &kept_[static_cast<size_t>(layer - first)][index]};
  GemmWeight& room = room_[stream_.device.is_cpu() ? 0 : index];
  if (stream_.device.is_cpu()) {
    room = GemmWeight();  // before there is another
    room = weight.Transposed(stream_);
  } else {
    room.TransposeFrom(weight, stream_);
  }
  return {.weight = &room};
}

GemmArgs TransposedWeights::ArgsOfHead() const {
  if (reads_) return {.transposed = true, .weight = &head_};
  return {.weight = &transposed_head_};
}

}  // namespace graft
