#include "openai/api_fields.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "base/file.h"
#include "jobs/document_method.h"
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

std::string PagePath() {
  const char* dir = std::getenv("GRAFT_SOURCE_DIR");
  return std::string(dir == nullptr ? "." : dir) + "/docs/http-api.md";
}

// Where a table of the page begins, behind its mark, and where it ends.
std::pair<size_t, size_t> TableIn(const std::string& page, const std::string& name) {
  const std::string mark = "<!-- fields: " + name + " -->\n";
  const size_t begin = page.find(mark);
  EXPECT_NE(begin, std::string::npos) << mark;
  const size_t end = page.find("<!-- end -->", begin);
  EXPECT_NE(end, std::string::npos) << mark;
  return {begin + mark.size(), end};
}

// By their names, the fields' uses and neutral values.
using Uses = std::map<std::string, std::pair<FieldUse, std::string>>;

// A row names one field that is read, or all fields that are ignored, or refused with their values.
void AddTable(const std::string& page, const std::string& name, Uses* uses) {
  const auto [begin, end] = TableIn(page, name);
  std::istringstream lines(page.substr(begin, end - begin));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| `")) continue;
    const bool is_refused = line.find(" | | | refused unless") != std::string::npos;
    const bool is_ignored = line.find(" | | | accepted and without effect") != std::string::npos;
    std::vector<std::string> quoted;
    const size_t cell_end = line.find(" |", 2);
    for (size_t at = line.find('`'); at < cell_end; at = line.find('`', at + 1)) {
      const size_t close = line.find('`', at + 1);
      quoted.push_back(line.substr(at + 1, close - at - 1));
      at = close;
    }
    for (size_t i = 0; i < quoted.size(); i += is_refused ? 2 : 1) {
      (*uses)[quoted[i]] = {is_refused   ? FieldUse::kRefused
                            : is_ignored ? FieldUse::kIgnored
                                         : FieldUse::kRead,
                            is_refused ? quoted.at(i + 1) : ""};
    }
  }
}

TEST(ApiFieldsTest, ThePageHasTheFields) {
  const Result<std::string> page = ReadFile(PagePath());
  ASSERT_TRUE(page.ok()) << page.status().ToString();
  using Fields = std::vector<const ApiFields*>;
  const std::pair<Fields, std::vector<const char*>> tables[] = {
      {{&CompletionFields()}, {"sampling", "both", "completions"}},
      {{&ChatFields()}, {"sampling", "both", "chat"}},
      {{&ResponsesFields()}, {"sampling", "responses"}},
      {{&EmbeddingFields()}, {"embeddings"}},
      {{&TokenizeTextFields(), &TokenizeChatFields()}, {"tokenize"}},
      {{&DetokenizeFields()}, {"detokenize"}},
      {{&FineTuningFields()}, {"fine-tuning"}},
      {{&HyperparameterFields()}, {"hyperparameters"}}};
  for (const auto& [all_fields, names] : tables) {
    Uses expected, told;
    for (const ApiFields* fields : all_fields) {
      for (const ApiField& row : fields->rows()) expected[row.name] = {row.use, row.neutral};
    }
    for (const char* const name : names) AddTable(*page, name, &told);
    EXPECT_EQ(told, expected) << names.back();
  }
}

// "1,048,576", "0.5".
std::string NumberText(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.10g", number);
  std::string all = text;
  if (all.find_first_not_of("0123456789") != std::string::npos) return all;
  for (size_t i = all.size(); i > 3; i -= 3) all.insert(i - 3, ",");
  return all;
}

// What may be given for a setting of a method, and what stands where it is not given.
struct SettingText {
  std::string type, initial;
};
SettingText TextOf(const MethodRow& row, int32_t initial) {
  const bool is_own = *row.own != '\0';
  return {"integer, " + NumberText(row.min + (is_own ? 1 : 0)) + " to " + NumberText(row.max),
          is_own ? row.own : NumberText(initial)};
}
SettingText TextOf(const MethodRow& row, double initial) {
  const bool is_own = *row.own != '\0';
  return {"number, " +
              (is_own || row.is_above ? "above " + NumberText(row.min) + ", to "
                                      : NumberText(row.min) + " to ") +
              NumberText(row.max),
          is_own ? row.own : NumberText(initial)};
}
SettingText TextOf(const MethodRow& row, const std::string& initial) {
  if (*row.own != '\0') return {"string", row.own};
  std::string words;
  for (const char* const word : row.words) {
    words += (words.empty() ? "`\"" : ", `\"") + std::string(word) + "\"`";
  }
  return {words, "`\"" + initial + "\"`"};
}
SettingText TextOf(const MethodRow& row, const std::vector<std::string>&) {
  return {"list of up to " + NumberText(row.max) + " ids of files", row.own};
}

// The rows of jobs/document_method.h have ranges and defaults. With GRAFT_WRITE_DOCS=1 the test
// writes them into the page.
TEST(ApiFieldsTest, ThePageHasTheSettingsOfAJob) {
  const Result<std::string> before = ReadFile(PagePath());
  ASSERT_TRUE(before.ok()) << before.status().ToString();
  std::string page = *before;
  std::string rows;
  const DocumentMethod initial;
  VisitMethod(initial, [&rows](const MethodRow& row, const auto& value) {
    if (*row.field == '\0') return;
    const SettingText text = TextOf(row, value);
    rows += std::string("| `") + row.field + "` | " + text.type + " | " + text.initial + " | " +
            row.field_help + (*row.field_help == '\0' ? "|\n" : " |\n");
  });
  const auto [begin, end] = TableIn(page, "hyperparameters");
  const size_t first = page.find("| `", begin);
  const size_t others = page.find("| `hidden_states`", begin);
  ASSERT_TRUE(first < end && others < end);
  page.replace(first, others - first, rows);
  const bool writes = std::getenv("GRAFT_WRITE_DOCS") != nullptr;
  if (writes) std::ofstream(PagePath()) << page;
  EXPECT_TRUE(page == *before || writes)
      << "docs/http-api.md is behind src/jobs/document_method.cc; run this test with "
         "GRAFT_WRITE_DOCS=1";
}

}  // namespace
}  // namespace graft
