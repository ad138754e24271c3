// What becomes of the fields of requests: one row each, from which bodies are read and
// docs/http-api.md's tables are made. A field without a row is refused by name, unless its value
// is null, {} or []. Immutable; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace graft {

enum class FieldUse : uint8_t {
  kRead,     // does what the row says
  kIgnored,  // changes no token, so that every client may send it
  kRefused,  // is not served, but clients send it with a value that asks for nothing
};

struct ApiField {
  const char* name;
  FieldUse use = FieldUse::kRead;
  // For kRead, as texts for people.
  const char* type = "";
  const char* initial = "";
  const char* note = "";
  // For kRefused: JSON of the value that asks for nothing, besides null and what is empty.
  const char* neutral = "";
};

// The rows of one endpoint.
class ApiFields {
 public:
  explicit ApiFields(std::vector<ApiField> rows);

  const ApiField* Find(std::string_view name) const;
  const std::vector<ApiField>& rows() const { return rows_; }

 private:
  std::vector<ApiField> rows_;
  std::unordered_map<std::string_view, size_t> index_;
};

const ApiFields& CompletionFields();
const ApiFields& ChatFields();
const ApiFields& ResponsesFields();
const ApiFields& EmbeddingFields();
const ApiFields& TokenizeTextFields();
const ApiFields& TokenizeChatFields();
const ApiFields& DetokenizeFields();
const ApiFields& FineTuningFields();
const ApiFields& HyperparameterFields();  // of the method "document"

// The tables of docs/http-api.md: of all endpoints for text, of completions and chat, and what each
// has besides.
std::string SamplingFieldsMarkdown();
std::string SharedFieldsMarkdown();
std::string CompletionFieldsMarkdown();
std::string ChatFieldsMarkdown();
std::string ResponsesFieldsMarkdown();
std::string EmbeddingFieldsMarkdown();
std::string TokenizeFieldsMarkdown();
std::string DetokenizeFieldsMarkdown();
std::string FineTuningFieldsMarkdown();
std::string HyperparameterFieldsMarkdown();

}  // namespace graft
