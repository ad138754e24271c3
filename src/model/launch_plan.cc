#include "model/launch_plan.h"

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

ProductPlan PlanProduct(const LaunchConditions& conditions, LayerProduct product) {
  const bool is_activated = product == LayerProduct::kGateUp;
  const bool bridged = conditions.bridged;
  const LoraRows drawn = bridged ? LoraRows::kSettledDrawn : LoraRows::kDrawn;
  const LoraRows prompts = bridged ? LoraRows::kSettledPrompts : LoraRows::kPrompts;
  const bool fuses = conditions.has_prompts && conditions.on_gpu;
  const bool beside = conditions.has_drawn && conditions.can_beside && !fuses &&
                      IsInScope(conditions.beside_scope, product);
  // A shrink makes no difference between the rows, so one serves both.
  const bool shrinks_both = fuses && conditions.has_drawn && !bridged;

  ProductPlan plan;
  if (fuses) plan.inside = prompts;
  if (beside) plan.beside = drawn;
  plan.spares_shared_memory = conditions.has_drawn && !fuses;
  if (bridged) plan.Add(LaunchKind::kBridgeBegin);
  if (fuses) plan.Add(LaunchKind::kShrink, shrinks_both ? LoraRows::kDrawnAndPrompts : prompts);
  plan.Add(LaunchKind::kProduct);
  const size_t num_until_product = plan.launches().size();
  if (conditions.has_prompts && !fuses) AddLora(prompts, plan);
  if (shrinks_both) {
    plan.Add(LaunchKind::kExpand, drawn);
  } else if (conditions.has_drawn && !beside) {
    AddLora(drawn, plan);
  }
  if (bridged) plan.Add(LaunchKind::kBridgeFinish);
  if (is_activated) {
    const bool y_is_whole =
        plan.launches().size() == num_until_product && conditions.fuses_activation;
    plan.keeps_drawn = !y_is_whole && fuses && !bridged && conditions.fuses_activation;
    plan.activates = y_is_whole || plan.keeps_drawn;
    plan.expand_activates = conditions.on_gpu && conditions.fuses_activation && !fuses &&
                            plan.launches().back().kind == LaunchKind::kExpand;
    if (!y_is_whole && !plan.expand_activates) plan.Add(LaunchKind::kActivate);
  }
  const bool is_summand = product == LayerProduct::kO || product == LayerProduct::kDown;
  if (conditions.sums_ranks && is_summand) plan.Add(LaunchKind::kSumRanks);
  LinkNeighbours(plan, conditions.can_follow);
  return plan;
}

}  // namespace

void ProductPlan::Add(LaunchKind kind, LoraRows rows) {
  CHECK_LT(num_launches_, kLaunchesMax);
  launches_[num_launches_++] = {.kind = kind, .rows = rows};
}

void LinkNeighbours(ProductPlan& plan, bool can_follow) {
  const std::span<Launch> launches = plan.mutable_launches();
  const auto is_product = [&](size_t i) {
    return i < launches.size() && launches[i].kind == LaunchKind::kProduct;
  };
  for (size_t i = 0; i < launches.size(); ++i) {
    Launch& launch = launches[i];
    const bool shrinks = launch.kind == LaunchKind::kShrink;
    launch.precedes_product = shrinks && plan.inside.has_value() && is_product(i + 1);
    // A product with LoRA inside waits for h alone, not for all before it.
    launch.follows_product =
        shrinks && can_follow && !plan.inside.has_value() && i > 0 && is_product(i - 1);
    launch.follows_shrink = is_product(i) && i > 0 && launches[i - 1].precedes_product;
  }
}

LoraBesideScope ChooseBesideScope(int32_t rank_bound, int32_t num_tiles,
                                  int32_t num_multiprocessors) {
  // Where the ways take the same time on an H200, whose multiprocessors are so many; those of other
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
  plan.attention_holds_next = plan.of(LayerProduct::kO).beside.has_value();
  return plan;
}

}  // namespace graft
