// The rows of every endpoint's fields, from which bodies are read and docs/http-api.md's tables are
// made. Immutable; any thread.
#pragma once

#include <string>

#include "http/field_rows.h"

namespace graft {

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
