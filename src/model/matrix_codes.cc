#include "model/matrix_codes.h"

#include <algorithm>
#include <ranges>

#include "model/family.h"
#include "model/lora_module.h"
#include "model/quantisation_config.h"
#include "model/quantised_format.h"
#include "model/wrapper.h"

namespace graft {
namespace {

// Kernels take blocks of these sizes, or one for all of a row. The columns that each of several
// ranks has are whole groups, on all ranks alike.
bool IsGroupOfKernels(int64_t group, int64_t num_columns, bool is_only_one) {
  return is_only_one || (group % 32 == 0 && num_columns % group == 0);
}

// Readers let in no other code book of 4 bits.
bool IsNormal4(const PackedForm& form) { return form.bits == 4 && !form.code_book.empty(); }

// Whether a zero point is not the middle of the codes.
bool HasZeroPoints(const PackedMatrix& matrix) {
  const PackedForm& form = matrix.form();
  if (!form.code_book.empty()) return false;
  std::vector<uint8_t> zeros(static_cast<size_t>(form.groups));
  const auto middle = static_cast<uint8_t>(1 << (form.bits - 1));
  for (int64_t row = 0; row < form.n; ++row) {
    matrix.Zeros({row, row + 1}, zeros.data());
    if (std::ranges::any_of(zeros, [&](uint8_t zero) { return zero != middle; })) return true;
  }
  return false;
}

// The inputs of a matrix group after group; nothing where groups are of unequal sizes.
std::optional<std::vector<int32_t>> OrderByGroups(const PackedForm& form) {
  std::vector<int32_t> order;
  if (form.group_of.empty()) return order;
  const auto group_size = static_cast<size_t>(form.group_size());
  std::vector<size_t> counts(static_cast<size_t>(form.groups), 0);
  order.resize(form.group_of.size());
  for (size_t input = 0; input < order.size(); ++input) {
    const auto group = static_cast<size_t>(form.group_of[input]);
    if (counts[group] == group_size) return std::nullopt;
    order[group * group_size + counts[group]++] = static_cast<int32_t>(input);
  }
  return order;
}

}  // namespace

std::unique_ptr<StackedCodes> StackedCodes::Make(std::vector<CodesPart> parts, DType operands) {
  const PackedForm& first = parts[0].matrix->form();
  const bool is_normal = IsNormal4(first);
  if (!is_normal && !first.code_book.empty()) return nullptr;
  bool has_zero_points = false;
  bool has_bf16_scales = !is_normal;
  for (const CodesPart& part : parts) {
    const PackedForm& form = part.matrix->form();
    const int64_t group = form.group_size();
    if (form.bits != first.bits || form.code_book != first.code_book ||
        group != first.group_size() || form.group_of != first.group_of ||
        (!form.group_of.empty() && part.columns.size() != form.k) ||
        !IsGroupOfKernels(group, part.columns.size(), form.groups == 1)) {
      return nullptr;
    }
    has_zero_points = has_zero_points || HasZeroPoints(*part.matrix);
    has_bf16_scales = has_bf16_scales && form.dtype == DType::kBF16;  // integers' are their scales'
  }
  std::optional<std::vector<int32_t>> order = OrderByGroups(first);
  if (!order.has_value()) return nullptr;
  WeightFormat format =
      is_normal ? WeightFormat::Normal4(operands, first.group_size())
                : WeightFormat::Integers(operands, first.bits, first.group_size(), has_zero_points,
                                         has_bf16_scales ? DType::kBF16 : DType::kF32);
  format.has_input_order = !order->empty();
  return std::unique_ptr<StackedCodes>(
      new StackedCodes(std::move(parts), format, std::move(*order)));
}

StackedCodes::StackedCodes(std::vector<CodesPart> parts, const WeightFormat& format,
                           std::vector<int32_t> order)
    : parts_(std::move(parts)), format_(format), order_(std::move(order)) {
  for (const CodesPart& part : parts_) n_ += part.rows.size();
}

void StackedCodes::ReadRow(int64_t n, uint8_t* codes, CodeScale* scales) const {
  for (const CodesPart& part : parts_) {
    if (n >= part.rows.size()) {
      n -= part.rows.size();
      continue;
    }
    const PackedMatrix& matrix = *part.matrix;
    const int64_t groups = matrix.form().groups;
    const IndexRange row{part.rows.begin + n, part.rows.begin + n + 1};
    if (order_.empty()) {
      matrix.Codes(row, part.columns, codes);
    } else {
      static thread_local std::vector<uint8_t> of_inputs;
      of_inputs.resize(order_.size());
      matrix.Codes(row, part.columns, of_inputs.data());
      for (const int32_t input : order_) *codes++ = of_inputs[static_cast<size_t>(input)];
    }
    static thread_local std::vector<float> row_scales;
    static thread_local std::vector<uint8_t> zeros;
    row_scales.resize(static_cast<size_t>(groups));
    zeros.resize(static_cast<size_t>(groups));
    matrix.Scales(row, row_scales.data());
    if (format_.has_zero_points) matrix.Zeros(row, zeros.data());
    const int64_t first = part.columns.begin / format_.scale_numbers;
    const int64_t count = NumScales(format_, k());
    for (int64_t i = first; i < first + count; ++i) {
      *scales++ = {.scale = row_scales[i], .zero = static_cast<float>(zeros[i])};
    }
    return;
  }
}

MatrixFormats::MatrixFormats(const ModelConfig& config, const ServedTypes& types)
    : config_(config), types_(types) {
  if (!types.keeps_codes || !config.quantisation.has_value()) return;
  // A rule that does not compile is told when the weights are read.
  Result<ModuleSchemes> schemes = ModuleSchemes::Compile(*config.quantisation);
  if (schemes.ok()) schemes_ = std::make_unique<ModuleSchemes>(std::move(*schemes));
}
MatrixFormats::~MatrixFormats() = default;

WeightFormat MatrixFormats::Of(int32_t layer, LayerProduct product) const {
  if (schemes_ == nullptr || FamilyOf(config_.architecture).transposes_weights) {
    return types_.weights;
  }
  std::optional<CodeScheme> common;
  int64_t k = 0;
  for (const StoredProjection& projection : StoredProjections(config_)) {
    if (config_.lora_target(projection.first).product != product) continue;
    k = ShapeOfStoredProjection(config_, projection).in;
    if (projection.by_heads) return types_.weights;
    const std::string module = LoraModulePath(config_, layer, projection.first);
    const Result<std::optional<CodeScheme>> scheme = schemes_->Of(
        config_.wrapper == nullptr ? std::vector<std::string>{module} : WrappedNamesOf(module));
    if (!scheme.ok() || !scheme->has_value()) return types_.weights;
    if (common.has_value() && *common != **scheme) return types_.weights;
    common = **scheme;
  }
  if (config_.quantisation->format == &kBitsandbytesFormat) {
    const WeightFormat normal = WeightFormat::Normal4(types_.operands);
    return IsGroupOfKernels(normal.scale_numbers, k, false) ? normal : types_.weights;
  }
  const bool is_only_one = common->group_size == 0;
  const int64_t group = is_only_one ? k : common->group_size;
  if (!IsGroupOfKernels(group, k, is_only_one)) return types_.weights;
  WeightFormat format =
      WeightFormat::Integers(types_.operands, common->bits, group, !common->symmetric);
  // GPTQ's files have groups of inputs whatever desc_act says, and these may lie apart.
  const bool may_have_groups = config_.quantisation->format == &kGptqFormat && !is_only_one;
  format.has_input_order = common->has_groups || may_have_groups;
  return format;
}

}  // namespace graft
