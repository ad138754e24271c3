// LaunchPlan: the launches that compute a layer's four products with the adapters' share of them,
// in their order. It is made once a step from what the step is, and read by every layer: no layer
// decides anything. What one launch may rely on because of its neighbours (see LoraArgs) follows
// from the order here and is CHECKed where it is launched. Values; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/lora/lora.h"
#include "layers/lora_targets.h"

namespace graft {

// Products of a step beside which LoRA may run; each of these includes those before it.
enum class LoraBesideScope : uint8_t { kNone, kMlp, kAll };

// The rows that a LoRA launch serves; DeviceBatch has their segments. "Settled" ones leave out the
// adapters for which LoraBridge computes.
enum class LoraRows : uint8_t {
  kDrawn,
  kPrompts,
  kDrawnAndPrompts,
  kSettledDrawn,
  kSettledPrompts
};

enum class LaunchKind : uint8_t {
  kBridgeBegin,   // LoraBridge::Begin
  kShrink,        // h = x A^T of `rows`
  kProduct,       // y = x W^T + bias (+ y), and what ProductPlan says that its kernel does, too
  kExpand,        // y += h B^T of `rows`, and what ProductPlan says
  kBridgeFinish,  // LoraBridge::Finish
  kActivate,      // what the product left to activate, see ProductPlan::keeps_drawn
  kSumRanks,      // y of all ranks, each of which has a part of the product's inputs
};

struct Launch {
  LaunchKind kind = LaunchKind::kProduct;
  LoraRows rows = LoraRows::kDrawn;
  // In a kShrink these are LoraArgs' fields of the same names. In a kProduct they say that such a
  // shrink is right before it.
  bool precedes_product = false;
  bool follows_product = false;
  bool follows_shrink = false;

  bool operator==(const Launch&) const = default;
};

// Where the LoRA of each kind of row is computed in one product; kNone: the step has no such rows
// with an adapter.
struct LoraPlaces {
  LoraPlace drawn = LoraPlace::kNone;
  LoraPlace prompts = LoraPlace::kNone;
  LoraPlace arriving = LoraPlace::kNone;  // rows of either kind, of adapters under way

  // What the product's kernel has to do with LoRA: kInside, kBeside or kNone.
  LoraPlace in_product() const {
    if (prompts == LoraPlace::kInside) return prompts;
    return drawn == LoraPlace::kBeside ? drawn : LoraPlace::kNone;
  }
};

// One product's launches. Whatever has to stand between two of them is one more LaunchKind. What is
// put between two launches ends what these promised each other, because LinkNeighbours looks at the
// order alone.
class ProductPlan {
 public:
  static constexpr size_t kLaunchesMax = 8;

  std::span<const Launch> launches() const { return {launches_.data(), num_launches_}; }
  std::span<Launch> mutable_launches() { return {launches_.data(), num_launches_}; }
  void Add(LaunchKind kind, LoraRows rows = LoraRows::kDrawn);

  LoraPlaces lora;  // chosen first; the launches follow from it
  // The rows that the product computes LoRA for, inside or beside itself.
  LoraRows rows_in_product = LoraRows::kDrawn;
  bool is_summand = false;  // each rank computes a part of y, and kSumRanks adds them up
  bool activates = false;   // it activates its rows: GemmEpilogue::activated
  // The product activates, and leaves y of the drawn rows (GemmEpilogue::kept_rows) to
  // LaunchKind::kActivate. Where this is false, kActivate takes all rows.
  bool keeps_drawn = false;
  bool spares_shared_memory = false;  // for LoRA's launches to begin beside it
  bool expand_activates = false;      // kExpand also activates all rows: LoraArgs::activated

 private:
  std::array<Launch, kLaunchesMax> launches_;
  size_t num_launches_ = 0;
};

// Where a decode step's LoRA is fastest, of up to num_tiles tiles of kLoraTileRows rows with an
// adapter and ranks of up to rank_bound, a multiple of 16, on a GPU that can run it beside
// products.
LoraBesideScope ChooseBesideScope(int32_t rank_bound, int32_t num_tiles,
                                  int32_t num_multiprocessors);

// The properties of a step that its launches depend on.
struct LaunchConditions {
  bool on_gpu = false;
  bool can_inside = false;       // GemmTakesLora, of its weights and adapters
  bool can_beside = false;       // LayerContext::CanRunLoraBeside holds for its rows
  bool can_follow = false;       // LoraArgs::follows_product, of products without LoRA in them
  bool bridged = false;          // LoraBridge computes for adapters under way
  bool sums_ranks = false;       // several ranks share the products
  bool fuses_activation = true;  // the MLP's is one that a product's kernel can do: SwiGLU's
  bool has_drawn = false;        // segments of drawn rows; where bridged, settled ones
  bool has_prompts = false;      // the same of prompts' rows
  LoraBesideScope beside_scope = LoraBesideScope::kNone;
};

struct LaunchPlan {
  std::array<ProductPlan, kLayerProducts> products;
  // AttentionArgs::next_starts_late: the product after attention has LoRA beside it.
  bool attention_holds_next = false;

  const ProductPlan& of(LayerProduct product) const {
    return products[static_cast<size_t>(product)];
  }
};

LaunchPlan PlanLaunches(const LaunchConditions& conditions);

// Sets what every launch knows of its neighbours.
void LinkNeighbours(ProductPlan& plan, bool can_follow);

}  // namespace graft
