#include "openai/api_fields.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <optional>
#include <set>

#include "base/file.h"
#include "openai/embedding_request.h"
#include "openai/learning/job_request.h"
#include "openai/openai_request.h"
#include "openai/responses/responses_request.h"

namespace graft {
namespace {

// Reading a body checks that what is read and the rows are the same.
TEST(ApiFieldsTest, TheRowsAreWhatIsRead) {
  EXPECT_TRUE(ParseCompletionRequest({{"model", "m"}, {"prompt", "x"}}, RequestLimits()).ok());
  const Json messages = {{{"role", "user"}, {"content", "x"}}};
  EXPECT_TRUE(ParseChatRequest({{"model", "m"}, {"messages", messages}}, RequestLimits()).ok());
  const Json response = {{"model", "m"}, {"input", "x"}};
  EXPECT_TRUE(ParseResponsesRequest(response, response.dump(), RequestLimits()).ok());
  for (const ApiFields* fields :
       {&CompletionFields(), &ChatFields(), &ResponsesFields(), &EmbeddingFields(),
        &TokenizeTextFields(), &TokenizeChatFields(), &DetokenizeFields(), &FineTuningFields(),
        &HyperparameterFields()}) {
    std::set<std::string> names;
    for (const ApiField& row : fields->rows()) {
      EXPECT_TRUE(names.insert(row.name).second) << row.name;
    }
  }
}

// The error of parsing `body`, if any.
using ParseError = std::function<std::optional<ApiError>(const Json& body)>;

void ExpectUses(const ApiFields& fields, const Json& base, const ParseError& error_of) {
  for (const ApiField& row : fields.rows()) {
    if (row.use == FieldUse::kRead) continue;
    Json body = base;
    body[row.name] = {{"some", "thing"}};
    const std::optional<ApiError> error = error_of(body);
    EXPECT_EQ(error.has_value(), row.use == FieldUse::kRefused) << row.name;
    if (!error.has_value()) continue;
    EXPECT_EQ(error->param, row.name);
    EXPECT_EQ(error->code, "unsupported");
    body[row.name] = Json::parse(row.neutral);
    EXPECT_FALSE(error_of(body).has_value()) << row.name;
  }
}

template <typename T>
std::optional<ApiError> ErrorOf(const ApiResult<T>& result) {
  return result.ok() ? std::nullopt : std::optional<ApiError>(result.error());
}

// An endpoint's fields, its smallest body, and how a body is parsed.
struct Endpoint {
  const ApiFields* fields;
  Json body;
  ParseError error_of;
};

std::vector<Endpoint> Endpoints() {
  const Json messages = {{{"role", "user"}, {"content", "x"}}};
  const Json method = {{"type", "document"}};
  return {{&CompletionFields(),
           {{"model", "m"}, {"prompt", "x"}},
           [](const Json& body) { return ErrorOf(ParseCompletionRequest(body, RequestLimits())); }},
          {&ChatFields(),
           {{"model", "m"}, {"messages", messages}},
           [](const Json& body) { return ErrorOf(ParseChatRequest(body, RequestLimits())); }},
          {&ResponsesFields(),
           {{"model", "m"}, {"input", "x"}},
           [](const Json& body) {
             return ErrorOf(ParseResponsesRequest(body, body.dump(), RequestLimits()));
           }},
          {&EmbeddingFields(),
           {{"model", "m"}, {"input", "x"}},
           [](const Json& body) { return ErrorOf(ParseEmbeddingRequest(body, RequestLimits())); }},
          {&FineTuningFields(),
           {{"model", "m"}, {"training_file", "f"}, {"method", method}},
           [](const Json& body) {
             LearningSetup setup;
             setup.learners = {"next-token"};
             return ErrorOf(ParseJobRequest(body, setup));
           }}};
}

TEST(ApiFieldsTest, EveryRefusedFieldIsNamedAndItsNeutralValueIsNot) {
  for (const Endpoint& endpoint : Endpoints()) {
    ExpectUses(*endpoint.fields, endpoint.body, endpoint.error_of);
  }
}

// OpenAI's and vLLM's fields that Graft does not have, and one that neither of them has.
TEST(ApiFieldsTest, AFieldWithoutARowIsRefusedUnlessItsValueIsEmpty) {
  for (const Endpoint& endpoint : Endpoints()) {
    for (const char* name : {"kv_transfer_params", "mm_processor_kwargs", "moderation",
                             "web_search_options", "validation_file", "zzzzzzzzzz"}) {
      ASSERT_EQ(endpoint.fields->Find(name), nullptr) << name;
      for (const char* value : {"1", "false", R"("")", R"({"some": "thing"})", "[null]"}) {
        Json body = endpoint.body;
        body[name] = Json::parse(value);
        const std::optional<ApiError> error = endpoint.error_of(body);
        ASSERT_TRUE(error.has_value()) << name << " " << value;
        EXPECT_EQ(error->param, name);
        EXPECT_EQ(error->code, "unknown_field");
        EXPECT_NE(error->message.find("Graft does not have it"), std::string::npos);
      }
      for (const char* value : {"null", "{}", "[]"}) {
        Json body = endpoint.body;
        body[name] = Json::parse(value);
        EXPECT_FALSE(endpoint.error_of(body).has_value()) << name << " " << value;
      }
    }
  }
}

// Fields of OpenAI's openai 3.57 and of vLLM's protocol.py, as they stood in November 2026, that
// clients may send with a value that is not empty.
TEST(ApiFieldsTest, FieldsOfOpenAiAndVllmHaveRows) {
  const auto expect = [](const ApiFields& fields, std::initializer_list<const char*> names) {
    for (const char* name : names) EXPECT_NE(fields.Find(name), nullptr) << name;
  };
  for (const ApiFields* fields : {&CompletionFields(), &ChatFields()}) {
    expect(*fields, {"prompt_logprobs", "truncation_side", "session_id", "thinking_token_budget",
                     "watermarking", "routed_experts_prompt_start", "return_token_offsets",
                     "return_mm_kwargs", "stream_interval"});
  }
  expect(ChatFields(), {"prompt_cache_options", "return_prompt_text"});
  expect(EmbeddingFields(),
         {"padding", "truncation_side", "add_generation_prompt", "continue_final_message"});
}

// With GRAFT_WRITE_DOCS=1 the test writes the page instead.
TEST(ApiFieldsTest, ThePageHasTheTables) {
  const char* dir = std::getenv("GRAFT_SOURCE_DIR");
  const std::string path = std::string(dir == nullptr ? "." : dir) + "/docs/http-api.md";
  const Result<std::string> before = ReadFile(path);
  ASSERT_TRUE(before.ok()) << before.status().ToString();
  std::string page = *before;
  const std::pair<const char*, std::string> tables[] = {
      {"sampling", SamplingFieldsMarkdown()},
      {"both", SharedFieldsMarkdown()},
      {"completions", CompletionFieldsMarkdown()},
      {"chat", ChatFieldsMarkdown()},
      {"responses", ResponsesFieldsMarkdown()},
      {"embeddings", EmbeddingFieldsMarkdown()},
      {"tokenize", TokenizeFieldsMarkdown()},
      {"detokenize", DetokenizeFieldsMarkdown()},
      {"fine-tuning", FineTuningFieldsMarkdown()},
      {"hyperparameters", HyperparameterFieldsMarkdown()}};
  for (const auto& [name, table] : tables) {
    const std::string mark = std::string("<!-- fields: ") + name + " -->\n";
    const size_t begin = page.find(mark);
    ASSERT_NE(begin, std::string::npos) << mark;
    const size_t first = begin + mark.size();
    const size_t end = page.find("<!-- end -->", first);
    ASSERT_NE(end, std::string::npos) << mark;
    page.replace(first, end - first, "\n" + table + "\n");
  }
  if (std::getenv("GRAFT_WRITE_DOCS") != nullptr) std::ofstream(path) << page;
  EXPECT_TRUE(page == *before || std::getenv("GRAFT_WRITE_DOCS") != nullptr)
      << "docs/http-api.md is behind src/openai/api_fields.cc; run this test with "
         "GRAFT_WRITE_DOCS=1";
}

}  // namespace
}  // namespace graft
