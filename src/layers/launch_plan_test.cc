#include "layers/launch_plan.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace graft {
namespace {

constexpr LayerProduct kAllProducts[] = {LayerProduct::kQkv, LayerProduct::kO,
                                         LayerProduct::kGateUp, LayerProduct::kDown};

std::string NameOf(LoraRows rows) {
  switch (rows) {
    case LoraRows::kDrawn:
      return "drawn";
    case LoraRows::kPrompts:
      return "prompts";
    case LoraRows::kDrawnAndPrompts:
      return "both";
    case LoraRows::kSettledDrawn:
      return "settled-drawn";
    case LoraRows::kSettledPrompts:
      return "settled-prompts";
  }
  return "?";
}

std::string ProductText(const ProductPlan& plan, const Launch& launch) {
  std::string text = "product";
  const LoraPlace place = plan.lora.in_product();
  if (place == LoraPlace::kInside) text += " inside:" + NameOf(plan.rows_in_product);
  if (place == LoraPlace::kBeside) text += " beside:" + NameOf(plan.rows_in_product);
  if (plan.activates) text += " activates";
  if (plan.keeps_drawn) text += " keeps";
  if (plan.spares_shared_memory) text += " spares";
  if (launch.follows_shrink) text += " follows";
  return text;
}

std::string TextOf(const ProductPlan& plan, const Launch& launch) {
  switch (launch.kind) {
    case LaunchKind::kBridgeBegin:
      return "bridge-begin";
    case LaunchKind::kBridgeFinish:
      return "bridge-finish";
    case LaunchKind::kProduct:
      return ProductText(plan, launch);
    case LaunchKind::kExpand:
      return "expand:" + NameOf(launch.rows) + (plan.expand_activates ? " activates" : "");
    case LaunchKind::kActivate:
      return plan.keeps_drawn ? "activate:drawn" : "activate:all";
    case LaunchKind::kSumRanks:
      return "sum-ranks";
    case LaunchKind::kShrink:
      break;
  }
  return "shrink:" + NameOf(launch.rows) + (launch.precedes_product ? " precedes" : "") +
         (launch.follows_product ? " follows" : "");
}

std::vector<std::string> Texts(const ProductPlan& plan) {
  std::vector<std::string> texts;
  for (const Launch& launch : plan.launches()) texts.push_back(TextOf(plan, launch));
  return texts;
}

std::vector<std::string> Planned(const LaunchConditions& conditions, LayerProduct product) {
  return Texts(PlanLaunches(conditions).of(product));
}

// What Transformer::Project launched when it still decided product by product and layer by layer:
// the old code, with texts in place of launches. The plan is compared with it for every possible
// step. Since then an expand activates what comes after it, and on a GPU without LoRA inside its
// products one launch serves drawn rows and prompts.
class ByHand {
 public:
  ByHand(const LaunchConditions& c, LayerProduct product) : c_(c) {
    const std::string drawn = c.bridged ? "settled-drawn" : "drawn";
    const std::string prompts = c.bridged ? "settled-prompts" : "prompts";
    const bool activated = product == LayerProduct::kGateUp;
    const bool is_mlp = product == LayerProduct::kGateUp || product == LayerProduct::kDown;
    const bool in_scope = c.beside_scope == LoraBesideScope::kAll ||
                          (c.beside_scope == LoraBesideScope::kMlp && is_mlp);
    if (c.bridged) texts_.push_back("bridge-begin");
    const bool fuses = c.has_prompts && c.can_inside;
    const bool beside = c.has_drawn && in_scope;
    const bool all_is_listed = c.on_gpu && c.has_drawn && c.has_prompts;
    const bool shrinks_all = fuses && !beside && !c.bridged && all_is_listed;
    if (fuses) texts_.push_back("shrink:" + (shrinks_all ? "both" : prompts) + " precedes");
    const bool has_prompts_left = c.has_prompts && !fuses;
    const bool has_drawn_left = c.has_drawn && !beside;
    const bool has_lora_left = has_prompts_left || has_drawn_left || c.bridged;
    const bool keeps_rows = has_lora_left && fuses && !c.bridged;
    texts_.push_back(std::string("product") + (fuses ? " inside:" + prompts : "") +
                     (beside ? " beside:" + drawn : "") +
                     (activated && (!has_lora_left || keeps_rows) ? " activates" : "") +
                     (activated && keeps_rows ? " keeps" : "") +
                     (c.has_drawn && !fuses ? " spares" : "") + (fuses ? " follows" : ""));
    if (!has_lora_left) return;
    if (!fuses && !c.bridged && all_is_listed) {
      Lora("both", c.can_follow);
      if (activated) texts_.push_back("activate:all");
      return;
    }
    if (has_prompts_left) Lora(prompts, c.can_follow);
    if (shrinks_all) {
      texts_.push_back("expand:" + drawn);
    } else if (has_drawn_left) {
      Lora(drawn, !c.has_prompts && c.can_follow);
    }
    if (activated && has_drawn_left && c.on_gpu && !c.has_prompts && !c.bridged) {
      texts_.back() += " activates";
      return;
    }
    if (c.bridged) texts_.push_back("bridge-finish");
    if (activated) texts_.push_back(keeps_rows ? "activate:drawn" : "activate:all");
  }

  const std::vector<std::string>& texts() const { return texts_; }

 private:
  void Lora(const std::string& rows, bool follows) {
    texts_.push_back("shrink:" + rows + (follows ? " follows" : ""));
    texts_.push_back("expand:" + rows);
  }

  const LaunchConditions c_;
  std::vector<std::string> texts_;
};

// Every possible step: on each device, with LoRA inside the products where a card can, few enough
// rows for LoRA beside them or not, with a shrink that may follow its product or not, drawn rows
// and prompts with adapters or without (base steps have neither), bridged or not. Only recorded
// steps have LoRA beside the products, and these have neither prompts nor a bridge.
std::vector<LaunchConditions> AllConditions() {
  std::vector<LaunchConditions> all;
  for (int bits = 0; bits < 128; ++bits) {
    const LaunchConditions c{.on_gpu = (bits & 1) != 0,
                             .can_inside = (bits & 64) != 0,
                             .can_beside = (bits & 2) != 0,
                             .can_follow = (bits & 4) != 0,
                             .bridged = (bits & 8) != 0,
                             .has_drawn = (bits & 16) != 0,
                             .has_prompts = (bits & 32) != 0};
    if (c.can_beside && !c.can_follow) continue;
    if ((c.can_follow || c.can_inside) && !c.on_gpu) continue;
    all.push_back(c);
    if (!c.can_beside || c.bridged || c.has_prompts || !c.has_drawn) continue;
    for (const LoraBesideScope scope : {LoraBesideScope::kMlp, LoraBesideScope::kAll}) {
      all.push_back(c);
      all.back().beside_scope = scope;
    }
  }
  return all;
}

std::string Describe(const LaunchConditions& c) {
  return std::string(c.on_gpu ? "gpu" : "cpu") + (c.can_inside ? " inside" : "") +
         (c.can_beside ? " few-rows" : "") + (c.can_follow ? " follow" : "") +
         (c.bridged ? " bridged" : "") + (c.has_drawn ? " drawn" : "") +
         (c.has_prompts ? " prompts" : "") + " scope " +
         std::to_string(static_cast<int>(c.beside_scope));
}

TEST(LaunchPlanTest, LaunchesWhatWasDecidedByHand) {
  const std::vector<LaunchConditions> all = AllConditions();
  EXPECT_EQ(all.size(), 60u);
  for (const LaunchConditions& conditions : all) {
    for (const LayerProduct product : kAllProducts) {
      EXPECT_EQ(Planned(conditions, product), ByHand(conditions, product).texts())
          << Describe(conditions) << ", product " << static_cast<int>(product);
    }
  }
}

struct Row {
  const char* name;
  LaunchConditions conditions;
  LayerProduct product;
  std::vector<std::string> expected;
};

// The steps on which servers spend most of their time, written out.
TEST(LaunchPlanTest, StepsOfServers) {
  const LaunchConditions decode{
      .on_gpu = true, .can_beside = true, .can_follow = true, .has_drawn = true};
  LaunchConditions beside = decode;
  beside.beside_scope = LoraBesideScope::kMlp;
  const LaunchConditions mixed{
      .on_gpu = true, .can_inside = true, .has_drawn = true, .has_prompts = true};
  const LaunchConditions lesser{.on_gpu = true, .has_drawn = true, .has_prompts = true};
  LaunchConditions bridged = mixed;
  bridged.bridged = true;
  const LaunchConditions cpu{.has_drawn = true, .has_prompts = true};
  const LaunchConditions rank{.sums_ranks = true, .has_drawn = true};
  const std::vector<Row> rows = {
      {"base", {.on_gpu = true}, LayerProduct::kGateUp, {"product activates"}},
      {"decode",
       decode,
       LayerProduct::kGateUp,
       {"product spares", "shrink:drawn follows", "expand:drawn activates"}},
      {"decode, beside the MLP's",
       beside,
       LayerProduct::kGateUp,
       {"product beside:drawn activates spares"}},
      {"decode, beside the MLP's",
       beside,
       LayerProduct::kO,
       {"product spares", "shrink:drawn follows", "expand:drawn"}},
      {"mixed",
       mixed,
       LayerProduct::kGateUp,
       {"shrink:both precedes", "product inside:prompts activates keeps follows", "expand:drawn",
        "activate:drawn"}},
      {"mixed on a card without LoRA inside products",
       lesser,
       LayerProduct::kGateUp,
       {"product spares", "shrink:both", "expand:both", "activate:all"}},
      {"mixed, bridged",
       bridged,
       LayerProduct::kGateUp,
       {"bridge-begin", "shrink:settled-prompts precedes", "product inside:settled-prompts follows",
        "shrink:settled-drawn", "expand:settled-drawn", "bridge-finish", "activate:all"}},
      {"mixed on a CPU",
       cpu,
       LayerProduct::kDown,
       {"product spares", "shrink:prompts", "expand:prompts", "shrink:drawn", "expand:drawn"}},
      {"a rank", rank, LayerProduct::kQkv, {"product spares", "shrink:drawn", "expand:drawn"}},
      {"a rank",
       rank,
       LayerProduct::kO,
       {"product spares", "shrink:drawn", "expand:drawn", "sum-ranks"}},
      {"a rank",
       rank,
       LayerProduct::kDown,
       {"product spares", "shrink:drawn", "expand:drawn", "sum-ranks"}},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(Planned(row.conditions, row.product), row.expected) << row.name;
  }
}

TEST(LaunchPlanTest, AttentionHoldsTheNextKernelForLoraBesideIt) {
  for (const LaunchConditions& conditions : AllConditions()) {
    EXPECT_EQ(PlanLaunches(conditions).attention_holds_next,
              conditions.beside_scope == LoraBesideScope::kAll)
        << Describe(conditions);
  }
}

// These bounds were measured on an H200.
TEST(LaunchPlanTest, FewAdaptersGoBesideTheProducts) {
  constexpr int32_t kH200 = 132;
  EXPECT_EQ(ChooseBesideScope(0, 1, kH200), LoraBesideScope::kNone);
  EXPECT_EQ(ChooseBesideScope(16, 11, kH200), LoraBesideScope::kAll);
  EXPECT_EQ(ChooseBesideScope(16, 12, kH200), LoraBesideScope::kMlp);
  EXPECT_EQ(ChooseBesideScope(16, 32, kH200), LoraBesideScope::kMlp);
  EXPECT_EQ(ChooseBesideScope(16, 33, kH200), LoraBesideScope::kNone);
  EXPECT_EQ(ChooseBesideScope(64, 4, kH200), LoraBesideScope::kAll);
  EXPECT_EQ(ChooseBesideScope(64, 5, kH200), LoraBesideScope::kMlp);
  EXPECT_EQ(ChooseBesideScope(64, 9, kH200), LoraBesideScope::kNone);
  EXPECT_EQ(ChooseBesideScope(16, 10, kH200 - 12), LoraBesideScope::kAll);
  EXPECT_EQ(ChooseBesideScope(16, 11, kH200 - 12), LoraBesideScope::kMlp);
}

// A launch between two neighbours, such as a collective, ends what they may expect of each other.
TEST(LaunchPlanTest, WhatStandsBetweenEndsPromises) {
  ProductPlan plan;
  plan.lora.prompts = LoraPlace::kInside;
  plan.rows_in_product = LoraRows::kPrompts;
  plan.Add(LaunchKind::kShrink, LoraRows::kPrompts);
  plan.Add(LaunchKind::kBridgeBegin);
  plan.Add(LaunchKind::kProduct);
  LinkNeighbours(plan, true);
  EXPECT_EQ(Texts(plan),
            (std::vector<std::string>{"shrink:prompts", "bridge-begin", "product inside:prompts"}));
  ProductPlan after;
  after.Add(LaunchKind::kProduct);
  after.Add(LaunchKind::kBridgeFinish);
  after.Add(LaunchKind::kShrink);
  LinkNeighbours(after, true);
  EXPECT_EQ(Texts(after), (std::vector<std::string>{"product", "bridge-finish", "shrink:drawn"}));
}

// GeGLU is in no product's kernel, so a launch of its own computes it for all rows.
TEST(LaunchPlanTest, OtherActivationsStayApart) {
  for (const bool on_gpu : {false, true}) {
    for (const bool has_drawn : {false, true}) {
      for (const bool has_prompts : {false, true}) {
        const LaunchConditions conditions{.on_gpu = on_gpu,
                                          .can_inside = on_gpu,
                                          .can_beside = on_gpu,
                                          .can_follow = on_gpu,
                                          .fuses_activation = false,
                                          .has_drawn = has_drawn,
                                          .has_prompts = has_prompts,
                                          .beside_scope = LoraBesideScope::kAll};
        const LaunchPlan plan = PlanLaunches(conditions);
        const ProductPlan& gate_up = plan.of(LayerProduct::kGateUp);
        EXPECT_FALSE(gate_up.activates || gate_up.keeps_drawn);
        EXPECT_EQ(Texts(gate_up).back(), "activate:all");
        LaunchConditions fused = conditions;
        fused.fuses_activation = true;
        EXPECT_EQ(Planned(conditions, LayerProduct::kDown), Planned(fused, LayerProduct::kDown));
      }
    }
  }
}

// After a launch was put between two others, linking the plan again takes their promises back.
TEST(LaunchPlanTest, LinkingAgainForgets) {
  ProductPlan plan;
  plan.Add(LaunchKind::kProduct);
  plan.Add(LaunchKind::kShrink);
  LinkNeighbours(plan, true);
  EXPECT_TRUE(plan.launches()[1].follows_product);
  plan.mutable_launches()[0].kind = LaunchKind::kBridgeFinish;
  LinkNeighbours(plan, true);
  EXPECT_FALSE(plan.launches()[1].follows_product);
}

TEST(LaunchPlanTest, NeverMoreThanThereIsRoomFor) {
  ProductPlan plan;
  for (size_t i = 0; i < ProductPlan::kLaunchesMax; ++i) plan.Add(LaunchKind::kProduct);
  EXPECT_DEATH(plan.Add(LaunchKind::kProduct), "kLaunchesMax");
}

}  // namespace
}  // namespace graft
