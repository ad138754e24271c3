// The rows of every endpoint's fields, by which bodies are read. What each field takes and does is
// in docs/http-api.md, which has the same fields (api_fields_test.cc). Immutable; any thread.
#pragma once

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

}  // namespace graft
