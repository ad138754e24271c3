#include "layers/launch_plan.h"

#include <algorithm>

#include "base/check.h"

namespace graft {
namespace {

bool IsInScope(LoraBesideScope scope, LayerProduct product) {
  const bool is_mlp = product == LayerProduct::kGateUp || product == LayerProduct::kDown;
  return scope == LoraBesideScope::kAll || (scope == LoraBesideScope::kMlp && is_mlp);
}

void AddLora(LoraRows rows, ProductPlan& plan) {
  plan.Add(LaunchKind::kShrink, rows);
  plan.Add(LaunchKind::kExpand, rows);
}

LoraPlaces PlacesOf(const LaunchConditions& conditions, LayerProduct product) {
  LoraPlaces places;
  if (conditions.bridged) places.arriving = LoraPlace::kAssisted;
  if (conditions.has_prompts) {
    places.prompts = conditions.can_inside ? LoraPlace::kInside : LoraPlace::kAfter;
  }
  if (conditions.has_drawn) {
    // One kernel takes LoRA in one way, and prompts have more of it.
    const bool beside = conditions.can_beside && !conditions.has_prompts &&
                        IsInScope(conditions.beside_scope, product);
    places.drawn = beside ? LoraPlace::kBeside : LoraPlace::kAfter;
  }
  return places;
}

// The launches of all LoRA but the bridge's, with the product among them.
void AddProductAndLora(const LaunchConditions& conditions, ProductPlan& plan) {
  const bool bridged = conditions.bridged;
  const LoraRows drawn = bridged ? LoraRows::kSettledDrawn : LoraRows::kDrawn;
  const LoraRows prompts = bridged ? LoraRows::kSettledPrompts : LoraRows::kPrompts;
  const bool inside = plan.lora.prompts == LoraPlace::kInside;
  // LoRA's kernels make no difference between the rows, so one launch may serve both.
  const bool joins =
      conditions.has_drawn && conditions.has_prompts && conditions.on_gpu && !bridged;
  plan.rows_in_product = inside ? prompts : drawn;
  if (inside) plan.Add(LaunchKind::kShrink, joins ? LoraRows::kDrawnAndPrompts : prompts);
  plan.Add(LaunchKind::kProduct);
  if (joins) {
    if (inside) return plan.Add(LaunchKind::kExpand, drawn);
    return AddLora(LoraRows::kDrawnAndPrompts, plan);
  }
  if (plan.lora.prompts == LoraPlace::kAfter) AddLora(prompts, plan);
  if (plan.lora.drawn == LoraPlace::kAfter) AddLora(drawn, plan);
}

// For gate and up: what activates, and which rows are left to a launch of its own.
void AddActivation(const LaunchConditions& conditions, ProductPlan& plan) {
  const bool fuses = conditions.fuses_activation;
  const bool inside = plan.lora.prompts == LoraPlace::kInside;
  const bool y_is_whole = plan.launches().back().kind == LaunchKind::kProduct && fuses;
  plan.keeps_drawn = !y_is_whole && inside && !conditions.bridged && fuses;
  plan.activates = y_is_whole || plan.keeps_drawn;
  // An expand leaves rows without LoRA to few of its blocks, which is for decode's and not for
  // prompts'.
  plan.expand_activates = conditions.on_gpu && fuses && !conditions.has_prompts &&
                          plan.launches().back().kind == LaunchKind::kExpand;
  if (!y_is_whole && !plan.expand_activates) plan.Add(LaunchKind::kActivate);
}

// Every row that has an adapter gets its LoRA once, from where the plan says.
void CheckPlaces(const LaunchConditions& conditions, const ProductPlan& plan) {
  const LoraPlaces& places = plan.lora;
  CHECK(places.prompts != LoraPlace::kInside || conditions.can_inside);
  CHECK(places.drawn != LoraPlace::kBeside || conditions.can_beside);
  int drawn = places.drawn == LoraPlace::kBeside;
  int prompts = places.prompts == LoraPlace::kInside;
  for (const Launch& launch : plan.launches()) {
    if (launch.kind != LaunchKind::kExpand) continue;
    const bool both = launch.rows == LoraRows::kDrawnAndPrompts;
    drawn += both || launch.rows == LoraRows::kDrawn || launch.rows == LoraRows::kSettledDrawn;
    prompts +=
        both || launch.rows == LoraRows::kPrompts || launch.rows == LoraRows::kSettledPrompts;
  }
  CHECK(drawn == int{conditions.has_drawn} && prompts == int{conditions.has_prompts})
      << drawn << " times drawn rows, " << prompts << " times prompts";
  const auto count = [&](LaunchKind kind) {
    return std::ranges::count(plan.launches(), kind, &Launch::kind);
  };
  CHECK(count(LaunchKind::kBridgeBegin) == int{conditions.bridged} &&
        count(LaunchKind::kBridgeFinish) == int{conditions.bridged});
}

ProductPlan PlanProduct(const LaunchConditions& conditions, LayerProduct product) {
  ProductPlan plan;
  plan.lora = PlacesOf(conditions, product);
  plan.spares_shared_memory = conditions.has_drawn && plan.lora.prompts != LoraPlace::kInside;
  const bool assisted = plan.lora.arriving == LoraPlace::kAssisted;
  if (assisted) plan.Add(LaunchKind::kBridgeBegin);
  AddProductAndLora(conditions, plan);
  if (assisted) plan.Add(LaunchKind::kBridgeFinish);
  if (product == LayerProduct::kGateUp) AddActivation(conditions, plan);
  const bool leads_back = product == LayerProduct::kO || product == LayerProduct::kDown;
  plan.is_summand = conditions.sums_ranks && leads_back;
  if (plan.is_summand) plan.Add(LaunchKind::kSumRanks);
  LinkNeighbours(plan, conditions.can_follow);
  CheckPlaces(conditions, plan);
  return plan;
}

}  // namespace

void ProductPlan::Add(LaunchKind kind, LoraRows rows) {
  CHECK_LT(num_launches_, kLaunchesMax);
  launches_[num_launches_++] = {.kind = kind, .rows = rows};
}

void LinkNeighbours(ProductPlan& plan, bool can_follow) {
  const std::span<Launch> launches = plan.mutable_launches();
  const bool inside = plan.lora.prompts == LoraPlace::kInside;
  const auto is_product = [&](size_t i) {
    return i < launches.size() && launches[i].kind == LaunchKind::kProduct;
  };
  for (size_t i = 0; i < launches.size(); ++i) {
    Launch& launch = launches[i];
    const bool shrinks = launch.kind == LaunchKind::kShrink;
    launch.precedes_product = shrinks && inside && is_product(i + 1);
    // A product with LoRA inside waits for h alone, not for all before it.
    launch.follows_product = shrinks && can_follow && !inside && i > 0 && is_product(i - 1);
    launch.follows_shrink = is_product(i) && i > 0 && launches[i - 1].precedes_product;
  }
}

LoraBesideScope ChooseBesideScope(int32_t rank_bound, int32_t num_tiles,
                                  int32_t num_multiprocessors) {
  // Where the ways take the same time on an H200, which has so many multiprocessors; those of other
  // cards are taken for as fast. Beside its products LoRA has a fifth of the card, which more
  // adapters' bytes take longer to pass than the products'. The MLP's products take longest; beside
  // the others, which are short, a tile of rows costs as much again as 16 of its ranks.
  constexpr int kMeasuredMultiprocessors = 132;
  constexpr int kCostOfAll = 22;
  constexpr int kRankTilesOfMlp = 32;
  if (rank_bound == 0) return LoraBesideScope::kNone;
  const int rank_tiles = num_tiles * (rank_bound / 16);
  const auto is_at_most = [&](int cost, int bound) {
    return cost * kMeasuredMultiprocessors <= bound * num_multiprocessors;
  };
  if (is_at_most(num_tiles + rank_tiles, kCostOfAll)) return LoraBesideScope::kAll;
  return is_at_most(rank_tiles, kRankTilesOfMlp) ? LoraBesideScope::kMlp : LoraBesideScope::kNone;
}

LaunchPlan PlanLaunches(const LaunchConditions& conditions) {
  LaunchPlan plan;
  for (int i = 0; i < kLayerProducts; ++i) {
    plan.products[i] = PlanProduct(conditions, static_cast<LayerProduct>(i));
  }
  plan.attention_holds_next = plan.of(LayerProduct::kO).lora.drawn == LoraPlace::kBeside;
  return plan;
}

}  // namespace graft
