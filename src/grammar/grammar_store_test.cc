// Tests of GrammarStore: it compiles grammars on its own threads, keeps them, and drops those held
// least recently. The compilers are fakes.
#include "grammar/grammar_store.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

namespace graft {
namespace {

class NoGrammar : public CompiledGrammar {
 public:
  std::unique_ptr<GrammarMatcher> NewMatcher(std::shared_ptr<GrammarRoom> /*room*/) const override {
    return nullptr;
  }
  int64_t bytes() const override { return 1 << 20; }
};

class StoreCompiler : public GrammarCompiler {
 public:
  std::shared_ptr<const CompiledGrammar> Compile(const std::string& grammar,
                                                 const std::function<bool()>& /*stops*/,
                                                 std::string* error) const override {
    if (grammar != "bad") return std::make_shared<NoGrammar>();
    *error = "because";
    return nullptr;
  }
};

// Some texts take for ever, or until they are let go.
class HangingCompiler : public StoreCompiler {
 public:
  explicit HangingCompiler(std::atomic<bool>& may_go_on) : may_go_on_(may_go_on) {}
  std::shared_ptr<const CompiledGrammar> Compile(const std::string& grammar,
                                                 const std::function<bool()>& stops,
                                                 std::string* error) const override {
    while (grammar.starts_with("hostile") && !may_go_on_) {
      if (stops()) return nullptr;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return StoreCompiler::Compile(grammar, stops, error);
  }

 private:
  std::atomic<bool>& may_go_on_;
};

Result<std::unique_ptr<GrammarCompiler>> MakeCounting() {
  return std::unique_ptr<GrammarCompiler>(std::make_unique<StoreCompiler>());
}

void WaitUntilDone(const SharedGrammar& grammar) {
  while (!grammar.is_done()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
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

// No request holds it by the time it returns, and it is kept as it was counted.
void CompileAndLetGo(GrammarStore& store, const std::string& text) {
  WaitUntilDone(*store.Want(text, "t").value());
}

TEST(GrammarStoreTest, WhatWasUsedLeastIsDropped) {
  GrammarStore store(MakeCounting, {.threads = 1, .bytes_max = int64_t{5} << 19});  // room for two
  for (const char* text : {"a", "b", "a", "c"}) CompileAndLetGo(store, text);
  EXPECT_EQ(store.num_compiled(), 3);
  CompileAndLetGo(store, "a");
  CompileAndLetGo(store, "c");
  EXPECT_EQ(store.num_compiled(), 3) << "b was used least";
  CompileAndLetGo(store, "b");
  EXPECT_EQ(store.num_compiled(), 4);
  CompileAndLetGo(store, "c");
  EXPECT_EQ(store.num_compiled(), 4) << "a was";
  EXPECT_EQ(store.bytes_held(), 0);
  EXPECT_LE(store.bytes_idle(), int64_t{5} << 19);
}

TEST(GrammarStoreTest, WhatRequestsHoldIsBounded) {
  constexpr int64_t kMiB = 1 << 20;
  GrammarStore store(MakeCounting, {.bytes_max = kMiB / 2,
                                    .held_bytes_max = 4 * kMiB + kMiB / 2,
                                    .held_bytes_of_one = 2 * kMiB + kMiB / 2});
  std::vector<std::shared_ptr<const SharedGrammar>> held;
  const auto hold = [&](const std::string& text, const std::string& tenant) {
    auto wanted = store.Want(text, tenant);
    if (!wanted.ok()) return wanted.status();
    WaitUntilDone(**wanted);
    const Status status = (*wanted)->status();
    if (status.ok()) held.push_back(std::move(*wanted));
    return status;
  };
  EXPECT_TRUE(hold("a", "one").ok());
  EXPECT_TRUE(hold("b", "one").ok());
  // A third of the tenant's is too much, whether that is known before or after it is compiled.
  EXPECT_EQ(hold("c", "one").code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(hold("a", "one").ok()) << "it is there";
  EXPECT_TRUE(hold("d", "two").ok());
  EXPECT_TRUE(hold("e", "three").ok());
  EXPECT_EQ(hold("f", "four").code(), StatusCode::kResourceExhausted);
  EXPECT_LE(store.bytes_held(), 4 * kMiB + kMiB / 2);
  // The last holder's end makes room at once, and drops what is not to be kept.
  held.clear();
  EXPECT_EQ(store.bytes_held(), 0);
  EXPECT_LE(store.bytes_idle(), kMiB / 2);
  EXPECT_TRUE(hold("c", "one").ok());
}

// Texts that wait count as well.
TEST(GrammarStoreTest, TextsThatWaitAreBounded) {
  std::atomic<bool> may_go_on{false};
  GrammarStore store(
      [&may_go_on] {
        while (!may_go_on) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return MakeCounting();
      },
      {.held_bytes_max = 1 << 20});
  std::vector<std::shared_ptr<const SharedGrammar>> held;
  StatusCode last = StatusCode::kOk;
  for (int i = 0; i < 20 && last == StatusCode::kOk; ++i) {
    auto wanted = store.Want(std::to_string(i) + std::string(100 << 10, ' '), "t");
    last = wanted.status().code();
    if (wanted.ok()) held.push_back(std::move(*wanted));
  }
  EXPECT_EQ(last, StatusCode::kResourceExhausted);
  EXPECT_EQ(held.size(), 11u);
  may_go_on = true;
}

// A compilation without requests is broken off, and begun again if a request wants it after all.
TEST(GrammarStoreTest, ACompilationThatNobodyWaitsForStops) {
  std::atomic<bool> may_go_on{false};
  GrammarStore store([&may_go_on]() -> Result<std::unique_ptr<GrammarCompiler>> {
    return std::unique_ptr<GrammarCompiler>(std::make_unique<HangingCompiler>(may_go_on));
  });
  for (int i = 0; i < 20; ++i) {
    (void)store.Want("hostile " + std::to_string(i), "t").value();
    CompileAndLetGo(store, "mine " + std::to_string(i));
  }
  EXPECT_EQ(store.num_compiled(), 20);
  const auto wanted = store.Want("hostile 0", "t").value();
  may_go_on = true;
  WaitUntilDone(*wanted);
  EXPECT_TRUE(wanted->status().ok());
}

// The first one holds the thread up. No request waits for the second any more.
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
  // A grammar that both want comes by the turn of the one that has a turn.
  WaitUntilDone(*store.Want("shared", "other").value());
  EXPECT_TRUE(flood.back()->is_done());
  EXPECT_FALSE(flood[0]->is_done());
  may_go_on = true;
  for (const auto& grammar : flood) WaitUntilDone(*grammar);
  EXPECT_EQ(store.num_compiled(), 22) << "each once";
}

TEST(GrammarStoreTest, StatesOfAnswersCountAsWhatRequestsHold) {
  GrammarStore store(MakeCounting, {.held_bytes_max = 100, .held_bytes_of_one = 60});
  const auto a = store.RoomOf("a");
  const auto more_of_a = store.RoomOf("a");
  const auto b = store.RoomOf("b");
  EXPECT_TRUE(a->Take(40));
  EXPECT_FALSE(more_of_a->Take(21)) << "of one tenant";
  EXPECT_TRUE(more_of_a->Take(20));
  EXPECT_FALSE(b->Take(41)) << "of all";
  EXPECT_EQ(store.bytes_held(), 60);
  EXPECT_TRUE(a->Take(-40));
  EXPECT_TRUE(b->Take(60));
  EXPECT_TRUE(b->Take(-60));
  EXPECT_TRUE(more_of_a->Take(-20));
  EXPECT_EQ(store.bytes_held(), 0);
}

}  // namespace
}  // namespace graft
