// Compiling beside those who wait, keeping, dropping; over a compiler that counts.
#include "grammar/grammar_store.h"

#include <gtest/gtest.h>

#include <chrono>

namespace graft {
namespace {

class NoGrammar : public CompiledGrammar {
 public:
  std::unique_ptr<GrammarMatcher> NewMatcher() const override { return nullptr; }
  int64_t bytes() const override { return 1 << 20; }
};

class StoreCompiler : public GrammarCompiler {
 public:
  std::shared_ptr<const CompiledGrammar> Compile(const std::string& grammar,
                                                 std::string* error) const override {
    if (grammar != "bad") return std::make_shared<NoGrammar>();
    *error = "because";
    return nullptr;
  }
};

Result<std::unique_ptr<GrammarCompiler>> MakeCounting() {
  return std::unique_ptr<GrammarCompiler>(std::make_unique<StoreCompiler>());
}

void WaitUntilDone(const SharedGrammar& grammar) {
  while (!grammar.is_done()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// The count goes up when it is booked, after it is done.
void WaitForCount(const GrammarStore& store, int64_t count) {
  while (store.num_compiled() < count) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(GrammarStoreTest, CompilesEachTextOnceAndWakes) {
  GrammarStore store(MakeCounting);
  std::atomic<int> num_wakes{0};
  store.SetWaker([&num_wakes] { ++num_wakes; });
  const auto first = store.Want("a", "t").value();
  WaitUntilDone(*first);
  EXPECT_TRUE(first->status().ok());
  EXPECT_EQ(store.Want("a", "t").value(), first);
  const auto second = store.Want("b", "t").value();
  EXPECT_NE(second, first);
  WaitUntilDone(*second);
  while (num_wakes < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(store.num_compiled(), 2);
  store.SetWaker({});
}

TEST(GrammarStoreTest, ATextThatCannotBeCompiledSaysWhy) {
  GrammarStore store(MakeCounting, {.text_bytes_max = 10});
  const auto bad = store.Want("bad", "t").value();
  WaitUntilDone(*bad);
  EXPECT_EQ(bad->status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(bad->status().message().find("because"), std::string::npos);
  EXPECT_EQ(store.Want("far too long", "t").status().code(), StatusCode::kInvalidArgument);
}

TEST(GrammarStoreTest, ACompilerThatIsNotThereMayComeLater) {
  std::atomic<bool> is_there{false};
  GrammarStore store([&is_there]() -> Result<std::unique_ptr<GrammarCompiler>> {
    if (!is_there) return UnimplementedError("build it");
    return MakeCounting();
  });
  const auto early = store.Want("a", "t").value();
  WaitUntilDone(*early);
  EXPECT_EQ(early->status().code(), StatusCode::kUnimplemented);
  is_there = true;
  for (;;) {
    const auto late = store.Want("a", "t").value();
    WaitUntilDone(*late);
    if (late->status().ok()) break;  // else it was asked for before the failure was forgotten
  }
}

TEST(GrammarStoreTest, WhatWasUsedLeastIsDropped) {
  GrammarStore store(MakeCounting, {.threads = 1, .bytes_max = int64_t{5} << 19});  // room for two
  for (const char* text : {"a", "b", "a", "c"}) WaitUntilDone(*store.Want(text, "t").value());
  WaitForCount(store, 3);
  WaitUntilDone(*store.Want("d", "t").value());  // c is booked by now
  WaitForCount(store, 4);
  WaitUntilDone(*store.Want("b", "t").value());
  WaitForCount(store, 5);
}

// Who held the thread up is the first; the second nobody waits for any more.
TEST(GrammarStoreTest, WhatNobodyWaitsForIsNotCompiled) {
  std::atomic<bool> may_go_on{false};
  GrammarStore store(
      [&may_go_on] {
        while (!may_go_on) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return MakeCounting();
      },
      {.threads = 1});
  const auto first = store.Want("a", "t").value();
  (void)store.Want("b", "t").value();
  const auto third = store.Want("c", "t").value();
  may_go_on = true;
  WaitUntilDone(*third);
  EXPECT_EQ(store.num_compiled(), 2);
}

// Two texts that take for ever, or until they are let go.
class HangingCompiler : public StoreCompiler {
 public:
  explicit HangingCompiler(std::atomic<bool>& may_go_on) : may_go_on_(may_go_on) {}
  std::shared_ptr<const CompiledGrammar> Compile(const std::string& grammar,
                                                 std::string* error) const override {
    while (grammar.starts_with("hostile") && !may_go_on_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return StoreCompiler::Compile(grammar, error);
  }

 private:
  std::atomic<bool>& may_go_on_;
};

TEST(GrammarStoreTest, ATenantsHostileGrammarsHoldUpItsOwnAlone) {
  std::atomic<bool> may_go_on{false};
  GrammarStore store([&may_go_on]() -> Result<std::unique_ptr<GrammarCompiler>> {
    return std::unique_ptr<GrammarCompiler>(std::make_unique<HangingCompiler>(may_go_on));
  });
  std::vector<std::shared_ptr<const SharedGrammar>> flood;
  for (int i = 0; i < 20; ++i) {
    flood.push_back(store.Want("hostile " + std::to_string(i), "flood").value());
  }
  flood.push_back(store.Want("shared", "flood").value());
  WaitUntilDone(*store.Want("mine", "other").value());
  // What both want comes by the turn of who has one.
  WaitUntilDone(*store.Want("shared", "other").value());
  EXPECT_TRUE(flood.back()->is_done());
  EXPECT_FALSE(flood[0]->is_done());
  may_go_on = true;
  for (const auto& grammar : flood) WaitUntilDone(*grammar);
  WaitForCount(store, 22);
  EXPECT_EQ(store.num_compiled(), 22) << "each once";
}

}  // namespace
}  // namespace graft
