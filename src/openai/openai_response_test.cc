#include "openai/openai_response.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/fault.h"
#include "http/api_error.h"
#include "http/raw_client.h"
#include "openai/openai_testing.h"
#include "openai/prompt_echo.h"
#include "openai/token_logprobs.h"

namespace graft {
namespace {

std::vector<int32_t> Tokens(const std::string& text) {
  return DemoTokenizer().Encode(text, false).value();
}

std::shared_ptr<const StopStrings> Stops(const std::vector<std::string>& stops) {
  return std::make_shared<StopStrings>(stops, DemoTokenizer());
}

std::shared_ptr<const PromptEcho> Echo(const std::string& text) {
  return EchoPrompt(DemoTokenizer(), Tokens(text), &text, /*skips_special_tokens=*/true,
                    /*with_offsets=*/true);
}

TokenEvent Event(int32_t token, FinishReason finish = FinishReason::kNone) {
  return {.token = token, .logprob = -1.0f, .finish_reason = finish};
}

// Everything that a choice emits for these tokens, and how it ends.
struct Outcome {
  std::string text;
  std::vector<ChoiceLogprob> logprobs;
  FinishReason finish;
  int32_t output_tokens;
};

Outcome RunChoice(ChoiceOptions options, const std::vector<int32_t>& tokens,
                  FinishReason last = FinishReason::kLength) {
  Choice choice(DemoTokenizer(), std::move(options), {});
  Outcome outcome;
  for (size_t i = 0; i < tokens.size() && !choice.finished(); ++i) {
    choice.Push(Event(tokens[i], i + 1 == tokens.size() ? last : FinishReason::kNone));
    ChoicePiece piece = choice.TakePiece();
    outcome.text += piece.text;
    for (const ChoiceLogprob& entry : piece.logprobs) outcome.logprobs.push_back(entry);
  }
  outcome.finish = choice.finish();
  outcome.output_tokens = choice.output_tokens();
  return outcome;
}

TEST(ChoiceTest, TextIsTheTokensText) {
  const std::string text = "naïve café 你好 🙂 end";
  const Outcome outcome = RunChoice({.logprobs = true}, Tokens(text));
  EXPECT_EQ(outcome.text, text);
  EXPECT_EQ(outcome.finish, FinishReason::kLength);
  EXPECT_EQ(outcome.logprobs.size(), Tokens(text).size());
  EXPECT_EQ(outcome.output_tokens, static_cast<int32_t>(Tokens(text).size()));
  for (size_t i = 1; i < outcome.logprobs.size(); ++i) {
    EXPECT_GE(outcome.logprobs[i].text_offset, outcome.logprobs[i - 1].text_offset);
  }
  EXPECT_EQ(outcome.logprobs.back().text_offset, 15);  // " end" begins there, in code points
}

TEST(ChoiceTest, StopStringsAcrossTokensCutTextAndLogprobs) {
  const std::string text = "one two three four";
  const Outcome cut = RunChoice({.stop = Stops({"o th"}), .logprobs = true}, Tokens(text));
  EXPECT_EQ(cut.text, "one tw");
  EXPECT_EQ(cut.finish, FinishReason::kStop);
  for (const ChoiceLogprob& entry : cut.logprobs) EXPECT_LT(entry.text_offset, 6);
  const Outcome with =
      RunChoice({.stop = Stops({"o th"}), .include_stop_text = true}, Tokens(text));
  EXPECT_EQ(with.text, "one two th");
}

// The demo's special tokens are no text, and a stop may spell them out all the same.
TEST(ChoiceTest, AStopThatSpellsOutASpecialTokenStops) {
  const auto run = [](const std::string& stop, const std::string& text, bool skips = true,
                      bool include = false, int32_t tokens_min = 0) {
    return RunChoice({.stop = Stops({stop}),
                      .tokens_min = tokens_min,
                      .include_stop_text = include,
                      .skip_special_tokens = skips,
                      .logprobs = true},
                     Tokens(text));
  };
  for (const bool skips : {true, false}) {
    const Outcome alone = run("<|start|>", "<|start|>one two", skips);
    EXPECT_EQ(alone.finish, FinishReason::kStop);
    EXPECT_EQ(alone.text, "");
    EXPECT_EQ(alone.output_tokens, 1);
    EXPECT_TRUE(alone.logprobs.empty());
    const Outcome behind = run("e<|start|>", "one<|start|> two", skips);
    EXPECT_EQ(behind.text, "on");
    EXPECT_EQ(behind.finish, FinishReason::kStop);
    EXPECT_EQ(run("<|end|><|start|>", "one<|end|><|start|>", skips).text, "one");
    EXPECT_EQ(run("<|end|>", "one<|end|>", skips, /*include=*/true).text, "one<|end|>");
  }
  const Outcome other = run("<|start|>x", "one<|start|> two<|end|>");
  EXPECT_EQ(other.text, "one two");
  EXPECT_EQ(other.finish, FinishReason::kLength);
  EXPECT_EQ(other.logprobs.size(), Tokens("one<|start|> two<|end|>").size());
  const Outcome early = run("<|start|>", "<|start|>one<|start|>", true, false, /*tokens_min=*/2);
  EXPECT_EQ(early.text, "one");
  EXPECT_EQ(early.finish, FinishReason::kStop);
}

// Offsets count in the text that is echoed, whatever becomes of special tokens in it.
TEST(PromptEchoTest, OffsetsAreOfTheTextThatIsEchoed) {
  const Tokenizer& tokenizer = DemoTokenizer();
  const std::vector<int32_t> tokens = {0, 2, Tokens("us")[0], 3};
  const auto decoded = EchoPrompt(tokenizer, tokens, nullptr, /*skips_special_tokens=*/true, true);
  EXPECT_EQ(decoded->text, "us");
  EXPECT_EQ(decoded->offsets, (std::vector<int32_t>{0, 0, 0, 2}));
  const auto whole = EchoPrompt(tokenizer, tokens, nullptr, /*skips_special_tokens=*/false, true);
  EXPECT_EQ(whole->text, "<|begin_of_text|><|start|>us<|end|>");
  EXPECT_EQ(whole->offsets, (std::vector<int32_t>{0, 17, 26, 28}));
  const std::string text = "<|start|>user hi<|end|>";
  const std::vector<int32_t> of_text = tokenizer.Encode(text, /*add_special_tokens=*/true).value();
  const auto given = EchoPrompt(tokenizer, of_text, &text, /*skips_special_tokens=*/true, true);
  EXPECT_EQ(given->text, text);
  ASSERT_EQ(given->offsets.size(), of_text.size());
  EXPECT_EQ(given->offsets[0], 0) << "added by the tokenizer, it takes no room";
  EXPECT_EQ(given->offsets[1], 0);
  EXPECT_EQ(given->offsets[2], 9);
  EXPECT_EQ(given->offsets.back(), 16);
  const std::string wide = "n\xC3\xA4h \xF0\x9F\x99\x82!";
  const std::vector<int32_t> of_wide = tokenizer.Encode(wide, false).value();
  EXPECT_EQ(EchoPrompt(tokenizer, of_wide, &wide, true, true)->offsets.back(), 5);
}

TEST(ChoiceTest, HeldBackTextComesAtTheEnd) {
  const Outcome outcome = RunChoice({.stop = Stops({"three four five"}), .logprobs = true},
                                    Tokens("one two three four"));
  EXPECT_EQ(outcome.text, "one two three four");
  EXPECT_EQ(outcome.logprobs.size(), Tokens("one two three four").size());
}

TEST(ChoiceTest, TheStoppingTokenIsNoPartOfTheOutput) {
  std::vector<int32_t> tokens = Tokens("one two");
  const size_t num_tokens = tokens.size();
  tokens.push_back(Tokens("three")[0]);
  const Outcome outcome = RunChoice({.logprobs = true}, tokens, FinishReason::kStop);
  EXPECT_EQ(outcome.text, "one two");
  EXPECT_EQ(outcome.logprobs.size(), num_tokens);
  EXPECT_EQ(outcome.output_tokens, static_cast<int32_t>(tokens.size()));
  const Outcome with =
      RunChoice({.include_stop_text = true, .logprobs = true}, tokens, FinishReason::kStop);
  EXPECT_EQ(with.logprobs.size(), num_tokens + 1);
  EXPECT_GT(with.text.size(), std::string("one two").size());
}

TEST(ChoiceTest, EchoGoesFirstAndPastTheStopStrings) {
  Choice choice(DemoTokenizer(),
                {.stop = Stops({"one"}), .logprobs = true, .echo = Echo("say one:")}, {});
  TokenEvent first = Event(Tokens(" two")[0]);
  for (const int32_t token : Tokens("say one:")) {
    first.prompt_logprobs.push_back({token, first.prompt_logprobs.empty() ? std::nanf("") : -2.0f});
  }
  choice.Push(first);
  const ChoicePiece piece = choice.TakePiece();
  EXPECT_TRUE(piece.text.starts_with("say one:"));
  EXPECT_FALSE(choice.finished());
  ASSERT_EQ(piece.logprobs.size(), Tokens("say one:").size() + 1);
  EXPECT_TRUE(std::isnan(piece.logprobs[0].chosen.logprob));
  EXPECT_EQ(piece.logprobs.back().text_offset, 8);
}

TEST(ChoiceTest, AnErrorKeepsItsReason) {
  Choice choice(DemoTokenizer(), {}, {});
  choice.Push({.finish_reason = FinishReason::kError, .status = InternalError("broken")});
  EXPECT_TRUE(choice.closed());
  EXPECT_EQ(choice.finish(), FinishReason::kError);
  EXPECT_EQ(choice.status().message(), "broken");
}

TEST(ResponseWriterTest, CompletionBodyHasTheLegacyLogprobs) {
  ResponseWriter writer(DemoTokenizer(), {.logprobs = true, .id = "cmpl-1", .model = "m"});
  const int32_t one = Tokens("one")[0];
  const int32_t two = Tokens(" two")[0];
  ChoicePiece piece{.text = "a \"quoted\"\n",
                    .logprobs = {{.chosen = {one, std::nanf("")}},
                                 {.chosen = {two, -0.5f}, .text_offset = 3, .num_top = 2}},
                    .tops = {{one, -0.25f}, {two, -0.5f}}};
  const std::string body =
      writer.Body({piece}, {FinishReason::kLength},
                  {.prompt_tokens = 4, .cached_tokens = 1, .output_tokens = 2});
  const Json json = ParseJson(body).value();
  EXPECT_EQ(json["object"], "text_completion");
  const Json& choice = json["choices"][0];
  EXPECT_EQ(choice["text"], "a \"quoted\"\n");
  EXPECT_EQ(choice["finish_reason"], "length");
  const Json& logprobs = choice["logprobs"];
  EXPECT_EQ(logprobs["tokens"].size(), 2u);
  EXPECT_TRUE(logprobs["token_logprobs"][0].is_null());
  EXPECT_EQ(logprobs["token_logprobs"][1], -0.5);
  EXPECT_TRUE(logprobs["top_logprobs"][0].is_null());
  EXPECT_EQ(logprobs["top_logprobs"][1].size(), 2u);
  EXPECT_EQ(logprobs["text_offset"], Json::parse("[0,3]"));
  EXPECT_EQ(json["usage"]["total_tokens"], 6);
  EXPECT_EQ(json["usage"]["prompt_tokens_details"]["cached_tokens"], 1);
}

TEST(ResponseWriterTest, ChatChunksAreWhatTheClientExpects) {
  ResponseWriter writer(
      DemoTokenizer(),
      {.is_chat = true, .logprobs = true, .include_usage = true, .id = "chatcmpl-1", .model = "m"});
  std::string out;
  writer.AppendBeginning(1, &out);
  ChoicePiece piece{.text = "hi",
                    .logprobs = {{.chosen = {Tokens("é")[0], -INFINITY}, .num_top = 1}},
                    .tops = {{Tokens("a")[0], -0.5f}}};
  writer.AppendChunk(1, piece, FinishReason::kStop, &out);
  writer.AppendEnd({.prompt_tokens = 1, .output_tokens = 1}, &out);
  const std::vector<std::string> events = RawResponse{.body = out}.events();
  ASSERT_EQ(events.size(), 5u);
  const Json role = Json::parse(events[0]);
  EXPECT_EQ(role["object"], "chat.completion.chunk");
  EXPECT_EQ(role["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(role["choices"][0]["index"], 1);
  EXPECT_TRUE(role["usage"].is_null());
  const Json text = Json::parse(events[1])["choices"][0];
  EXPECT_EQ(text["delta"]["content"], "hi");
  EXPECT_TRUE(text["finish_reason"].is_null());
  EXPECT_EQ(text["logprobs"]["content"][0]["logprob"], -9999.0);
  EXPECT_FALSE(text["logprobs"]["content"][0]["bytes"].empty());
  EXPECT_EQ(text["logprobs"]["content"][0]["top_logprobs"].size(), 1u);
  const Json finish = Json::parse(events[2])["choices"][0];
  EXPECT_EQ(finish["finish_reason"], "stop");
  EXPECT_TRUE(finish["delta"].empty());
  EXPECT_TRUE(Json::parse(events[3])["choices"].empty());
  EXPECT_EQ(events[4], "[DONE]");
}

TEST(ChoiceTest, TokensThatAreAskedForComeAsTheyWereDrawn) {
  const std::vector<int32_t> prompt = {5, 6};
  Choice choice(DemoTokenizer(), {.stop = Stops({"never there"}), .returns_token_ids = true},
                prompt);
  // Half a character has no text, and what stops has none either.
  std::vector<int32_t> tokens = Tokens("🙂");
  ASSERT_GE(tokens.size(), 2u);
  choice.Push(Event(tokens[0]));
  const ChoicePiece first = choice.TakePiece();
  EXPECT_EQ(first.prompt_token_ids, prompt);
  EXPECT_EQ(first.token_ids, std::vector<int32_t>{tokens[0]});
  for (size_t i = 1; i < tokens.size(); ++i) choice.Push(Event(tokens[i]));
  choice.Push(Event(1, FinishReason::kStop));
  const ChoicePiece last = choice.TakePiece();
  EXPECT_TRUE(last.prompt_token_ids.empty());
  tokens.push_back(1);
  EXPECT_EQ(last.token_ids, std::vector<int32_t>(tokens.begin() + 1, tokens.end()));
  EXPECT_EQ(last.text, "🙂");
}

TEST(ResponseWriterTest, TokensAreAChoicesAndThePromptsAreAChatsOnce) {
  for (const bool is_chat : {false, true}) {
    const ResponseHead head = {.is_chat = is_chat, .returns_token_ids = true, .id = "1"};
    ResponseWriter writer(DemoTokenizer(), head);
    const ChoicePiece piece{.text = "a", .token_ids = {7, 8}, .prompt_token_ids = {5, 6}};
    const Json body =
        ParseJson(writer.Body({piece, piece}, {FinishReason::kStop, FinishReason::kStop}, {}))
            .value();
    EXPECT_EQ(body["choices"][1]["token_ids"], Json::parse("[7,8]"));
    const Json& has_prompt = is_chat ? body : body["choices"][1];
    EXPECT_EQ(has_prompt["prompt_token_ids"], Json::parse("[5,6]"));
    EXPECT_EQ(body["choices"][0].contains("prompt_token_ids"), !is_chat);
    // Chunks without a text have their tokens.
    std::string out;
    writer.AppendChunk(0, {.token_ids = {7}, .prompt_token_ids = {5, 6}}, FinishReason::kNone,
                       &out);
    writer.AppendChunk(0, {.text = "a", .token_ids = {8}}, FinishReason::kNone, &out);
    const std::vector<std::string> events = RawResponse{.body = out}.events();
    ASSERT_EQ(events.size(), 2u);
    const Json first = Json::parse(events[0]);
    EXPECT_EQ(first["choices"][0]["token_ids"], Json::parse("[7]"));
    EXPECT_EQ((is_chat ? first : first["choices"][0])["prompt_token_ids"], Json::parse("[5,6]"));
    const Json second = Json::parse(events[1]);
    EXPECT_EQ(second["choices"][0]["token_ids"], Json::parse("[8]"));
    EXPECT_FALSE(second.contains("prompt_token_ids"));
    EXPECT_FALSE(second["choices"][0].contains("prompt_token_ids"));
  }
}

// The engine gives both as many alternatives as the one that wants more.
TEST(ChoiceTest, APromptsLogprobsAreItsOwn) {
  const std::vector<int32_t> prompt = Tokens("say one");
  const int32_t one = Tokens(" one")[0], two = Tokens(" two")[0];
  TokenEvent event = Event(two, FinishReason::kLength);
  event.top_logprobs = {{two, -1.0f}, {one, -2.0f}};
  for (size_t i = 0; i < prompt.size(); ++i) {
    event.prompt_logprobs.push_back({prompt[i], i == 0 ? std::nanf("") : -3.0f});
    event.prompt_top_logprobs.emplace_back();
    if (i > 0) event.prompt_top_logprobs.back() = {{two, -0.5f}, {prompt[i], -3.0f}};
  }
  for (const int32_t num_top : {0, 1, 2}) {
    Choice choice(DemoTokenizer(), {.logprobs = true, .prompt_logprobs = num_top}, {});
    choice.Push(event);
    std::vector<ChoicePiece> pieces;
    pieces.push_back(choice.TakePiece());
    EXPECT_EQ(pieces[0].logprobs.at(0).num_top, 0);
    for (const bool is_chat : {true, false}) {
      ResponseWriter writer(DemoTokenizer(), {.is_chat = is_chat, .prompt_logprobs = true});
      const Json body = Json::parse(writer.Body({pieces[0]}, {FinishReason::kLength}, {}));
      const Json& list = (is_chat ? body : body["choices"][0])["prompt_logprobs"];
      ASSERT_EQ(list.size(), prompt.size()) << body;
      EXPECT_TRUE(list[0].is_null());
      const Json& last = list.back();
      EXPECT_EQ(last.size(), num_top == 0 ? 1u : 2u);
      const Json& own = last[std::to_string(prompt.back())];
      EXPECT_EQ(own["logprob"], -3.0f);
      EXPECT_EQ(own["decoded_token"], DemoTokenizer().TokenBytes(prompt.back()));
      EXPECT_EQ(own["rank"], num_top == 2 ? Json(2) : Json()) << "not among the likeliest: unknown";
      if (num_top > 0) {
        EXPECT_EQ(last[std::to_string(two)]["rank"], 1);
      }
    }
  }
}

TEST(ApiErrorTest, FoldersOfTheServerAreNotTold) {
  const std::string path = "/srv/adapters/x";
  EXPECT_EQ(HidePath("cannot open /srv/adapters/x/adapter_config.json: no such file", path),
            "cannot open adapter_config.json: no such file");
  EXPECT_EQ(HidePath("/srv/adapters/x has changed", path), "its folder has changed");
  EXPECT_EQ(HidePath("the adapter takes 3 / 4 pages", path), "the adapter takes 3 / 4 pages");
  const std::string comment =
      "x.json: not valid JSON: \"syntax error; last read: '/'; expected ...\"";
  EXPECT_EQ(HidePath(comment, path), comment) << "a comment's slash is no path";
  EXPECT_EQ(HidePath("see // here", path), "see // here");
  for (const std::string other : {"/srv/adapters/y has changed", "cannot open /srv/adapters/y/z",
                                  "cannot open //srv/x", "cannot open /.srv"}) {
    EXPECT_EQ(HidePath(other, path).find("srv"), std::string::npos) << other;
    EXPECT_EQ(HidePath(other, "").find("srv"), std::string::npos) << other;
  }
  const std::string outside = "path '/etc/x' is outside /srv/adapters";
  EXPECT_EQ(HidePath(outside, "/srv/adapters", "the adapters folder", "/etc/x"),
            "path '/etc/x' is outside the adapters folder");
  EXPECT_EQ(HidePath(outside, "/srv/adapters", "the adapters folder", "/etc").find("etc"),
            std::string::npos);
  // PEFT writes a local base's absolute path into every adapter.
  EXPECT_EQ(
      HidePath("'x' has 64 columns, this base 32, it says '/data/o'me/base-8b/' and r 8", path),
      "'x' has 64 columns, this base 32, it says '.../base-8b' and r 8");
  EXPECT_EQ(HidePath("it says '/base', not \"/a/b\"", path), "it says '...', not \".../b\"");
  EXPECT_EQ(HidePath("it says '/data/x and more", path).find("data"), std::string::npos);
  EXPECT_EQ(HidePath("it says '/data/x', read from /srv/z", path).find("srv"), std::string::npos);
}

TEST(ApiErrorTest, WhatPassesAsksForAnotherTry) {
  const std::pair<Status, int> cases[] = {{UnavailableError("x"), 503},
                                          {ResourceExhaustedError("x"), 429},
                                          {Status(StatusCode::kAborted, "x"), 503},
                                          {InvalidArgumentError("x"), 400},
                                          {NotFoundError("x"), 404},
                                          {PermissionDeniedError("x"), 403},
                                          {DataLossError("x"), 400},
                                          {FailedPreconditionError("x"), 400}};
  for (const auto& [status, http_status] : cases) {
    const ApiError error = ErrorFromStatus(status);
    EXPECT_EQ(error.http_status, http_status) << status.ToString();
    EXPECT_EQ(error.retry_after_s > 0, IsPassing(status)) << status.ToString();
  }
}

TEST(ResponseWriterTest, TokensThatAreNotUtf8KeepTheirBytes) {
  EXPECT_EQ(CompletionTokenText("plain"), "plain");
  EXPECT_EQ(CompletionTokenText("\xe2\x80"), "bytes:\\xe2\\x80");
  EXPECT_EQ(JsonString("a\xff"), "\"a\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace graft
