#include "model/family.h"

#include <array>
#include <vector>

#include "base/check.h"

namespace graft {
namespace {

constexpr std::array<const ModelFamily*, 21> kFamilies = {
    &kLlamaFamily,      &kMistralFamily, &kQwen2Family,   &kQwen3Family,   &kGemmaFamily,
    &kGemma2Family,     &kGemma3Family,  &kPhi3Family,    &kSmolLm3Family, &kGraniteFamily,
    &kOlmo2Family,      &kOlmo3Family,   &kExaone4Family, &kGlmFamily,     &kGlm4Family,
    &kMinistral3Family, &kGpt2Family,    &kGptNeoFamily,  &kGptNeoXFamily, &kPhiFamily,
    &kStarCoder2Family};

}  // namespace

std::span<const ModelFamily* const> ModelFamilies() { return kFamilies; }

const ModelFamily& FamilyOf(Architecture architecture) {
  for (const ModelFamily* family : kFamilies) {
    if (family->architecture == architecture) return *family;
  }
  CHECK(false) << "no family: " << static_cast<int>(architecture);
  __builtin_unreachable();
}

std::string FamiliesThat(const std::function<bool(const ModelFamily&)>& have) {
  std::vector<std::string_view> names;
  for (const ModelFamily* family : kFamilies) {
    if (have(*family)) names.push_back(family->name);
  }
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " and " : ", ";
    text += names[i];
  }
  return text;
}

}  // namespace graft
