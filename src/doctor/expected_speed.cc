#include "doctor/expected_speed.h"

#include <algorithm>
#include <cctype>
#include <iterator>

namespace graft {
namespace {

// Llama-3.1-8B: what a step reads of the weights, all but the embeddings' table; a position's keys
// and values; the operations of a prompt's token, a product and a sum for each number of the
// layers' matrices.
constexpr double kLayerNumbers = 6.98e9;
constexpr double kWeightBytes = 2 * (kLayerNumbers + 0.525e9);
constexpr double kPositionBytes = 32 * 2 * 8 * 128 * 2;
constexpr double kContext = 512;
constexpr double kPromptTokens = 2048;
// Its weights with the table, and what a server takes beside them (docs/getting-started-gpu.md).
constexpr double kModelGib = 15.0;
constexpr double kOthersGib = 3.5;
// The share of a card's memory that its driver and error correction leave free.
constexpr double kFreeShare = 0.95;

constexpr FamilyShares kHopper{.family = "hopper",
                               .sheet_copy = 0.89,
                               .sheet_product = 0.70,
                               .decode_of_1 = 0.89,
                               .decode_of_32 = 0.89,
                               .prompt = 0.87,
                               .measured_on = "one H100 and one H200, docs/benchmarks.md",
                               .is_tuned = true};
// The kernels of cards without Hopper's instructions, as they ran on an H200 that was told to be an
// A100 (docs/gpu.md). Products of prompts made 0.63 of what mma.sync makes there from registers,
// and that is taken to be 0.95 of a data sheet's rate on cards that have no other instruction.
constexpr FamilyShares kGeneral{.family = "general",
                                .sheet_copy = 0.89,
                                .sheet_product = 0.60,
                                .decode_of_1 = 0.71,
                                .decode_of_32 = 0.67,
                                .prompt = 0.95,
                                .measured_on = "one H200 with GRAFT_GPU_FAMILY=ampere"};
// The same with launches that overlap, which was not measured by itself.
constexpr FamilyShares kOverlapped{.family = "general, overlapped",
                                   .sheet_copy = 0.89,
                                   .sheet_product = 0.60,
                                   .decode_of_1 = 0.71,
                                   .decode_of_32 = 0.67,
                                   .prompt = 0.95,
                                   .measured_on = "one H200 with GRAFT_GPU_FAMILY=ampere"};

constexpr KnownCard kCards[] = {
    {"A100", 80, 80, 2039, 312, "NVIDIA A100 data sheet, SXM 80 GB"},
    {"A10", 86, 24, 600, 125, "NVIDIA A10 data sheet"},
    {"RTX 3090", 86, 24, 936, 71, "NVIDIA Ampere GA102 white paper, appendix A"},
    {"L4", 89, 24, 300, 121, "NVIDIA L4 data sheet, half of its rate with sparsity"},
    {"L40S", 89, 48, 864, 362, "NVIDIA L40S data sheet"},
    {"RTX 4090", 89, 24, 1008, 165, "NVIDIA Ada white paper, appendix A"},
    {"RTX 5090", 120, 32, 1792, 209.5, "NVIDIA RTX Blackwell white paper, appendix A"},
    {"B200", 100, 180, 8000, 2250,
     "NVIDIA HGX B200 data sheet, an eighth, half of its rate with "
     "sparsity",
     true},
    {"H100", 90, 80, 3350, 989, "NVIDIA H100 data sheet, SXM, half of its rate with sparsity",
     false, "measured: 5.6 / 6.4; 48"},
    {"H200", 90, 141, 4800, 989, "NVIDIA H200 data sheet, SXM, half of its rate with sparsity",
     false, "measured: 4.2 / 4.8"},
};

// Words by which other cards of the same number are told apart, with other memory or rates.
constexpr std::string_view kOtherCards[] = {"Ti",   "D",    "SUPER", "Laptop", "Max-Q",
                                            "PCIe", "PCIE", "NVL",   "40GB",   "64GB"};

// As tools/dist.sh packs it (CMakePresets.json).
constexpr std::string_view kDistArchitectures = "80-real,90a-real,100,120-real";

bool IsWordAt(std::string_view text, size_t begin, size_t size) {
  const auto is_part = [&](size_t i) {
    return i < text.size() && std::isalnum(static_cast<unsigned char>(text[i])) != 0;
  };
  return (begin == 0 || !is_part(begin - 1)) && !is_part(begin + size);
}

}  // namespace

const FamilyShares& SharesOf(const DeviceTraits& traits) {
  if (traits.has_hopper_code) return kHopper;
  return traits.overlaps_launches ? kOverlapped : kGeneral;
}

ExpectedSpeed ExpectSpeed(const CardRates& rates, const FamilyShares& shares) {
  const auto decode_ms = [&](double sequences, double share) {
    const double bytes = kWeightBytes + sequences * kContext * kPositionBytes;
    return bytes / (rates.gbytes_per_s * 1e9 * share) * 1e3;
  };
  const double operations = 2 * kLayerNumbers * kPromptTokens;
  return {.decode_ms_of_1 = decode_ms(1, shares.decode_of_1),
          .decode_ms_of_32 = decode_ms(32, shares.decode_of_32),
          .prompt_ms = operations / (rates.bf16_gflops * 1e9 * shares.prompt) * 1e3};
}

std::span<const KnownCard> KnownCards() { return kCards; }

const KnownCard* FindKnownCard(std::string_view description) {
  const std::string_view name = description.substr(0, description.find(','));
  const auto has_word = [&](std::string_view word) {
    size_t at = name.find(word);
    while (at != name.npos && !IsWordAt(name, at, word.size())) at = name.find(word, at + 1);
    return at != name.npos;
  };
  if (std::ranges::any_of(kOtherCards, has_word)) return nullptr;
  const auto* const card = std::ranges::find_if(kCards, has_word, &KnownCard::name);
  return card == std::end(kCards) ? nullptr : card;
}

DeviceTraits TraitsOfKnown(const KnownCard& card) {
  return TraitsOfCard({.compute = card.compute}, kDistArchitectures);
}

CardRates SheetRates(const KnownCard& card, const FamilyShares& shares) {
  return {.gbytes_per_s = card.gbytes_per_s * shares.sheet_copy,
          .bf16_gflops = card.bf16_tflops * 1e3 * shares.sheet_product};
}

ExpectedSpeed PredictSpeed(const KnownCard& card) {
  const FamilyShares& shares = SharesOf(TraitsOfKnown(card));
  ExpectedSpeed speed = ExpectSpeed(SheetRates(card, shares), shares);
  if (card.is_decode_alone) speed.prompt_ms = 0.0;
  return speed;
}

double PoolGibOf(const KnownCard& card) {
  return card.memory_gb * kFreeShare - kModelGib - kOthersGib;
}

}  // namespace graft
