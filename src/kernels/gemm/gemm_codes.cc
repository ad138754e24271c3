#include "kernels/gemm/gemm_codes.h"

#include <cstring>
#include <vector>

namespace graft {

void PackCodesPanel(const CodeSource& source, const WeightFormat& format, int64_t panel,
                    char* out) {
  const GemmCodesLayout layout(format, source.n(), source.k());
  const int64_t k = source.k();
  std::vector<uint8_t> codes(static_cast<size_t>(layout.num_blocks * layout.block_k));
  std::vector<CodeScale> scales(static_cast<size_t>(NumScales(format, k)));
  std::memset(out, 0, static_cast<size_t>(layout.panel_bytes()));
  const int64_t num_rows = std::min(kGemmPanel, source.n() - panel * kGemmPanel);
  for (int64_t column = 0; column < num_rows; ++column) {
    source.ReadRow(panel * kGemmPanel + column, codes.data(), scales.data());
    char* block_out = out;
    for (int64_t block = 0; block < layout.num_blocks; ++block, block_out += layout.block_bytes) {
      const CodeScale& scale = scales[block * layout.block_k / format.scale_numbers];
      auto* const floats = reinterpret_cast<float*>(block_out);
      floats[column] = scale.scale;
      if (format.has_zero_points) floats[kGemmPanel + column] = scale.zero;
      auto* step_out = reinterpret_cast<uint8_t*>(block_out + layout.scale_bytes) + column * 4;
      const uint8_t* step = codes.data() + block * layout.block_k;
      for (int64_t i = 0; i < layout.block_k; i += layout.step_k, step_out += kGemmStepBytes) {
        for (int64_t j = 0; j < 4; ++j) {
          step_out[j] = format.bits == 8 ? step[i + j]
                                         : static_cast<uint8_t>(step[i + j] | step[i + 4 + j] << 4);
        }
      }
    }
  }
}

}  // namespace graft
