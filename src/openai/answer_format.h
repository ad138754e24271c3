// The form that a client wants its answer to have: OpenAI's response_format and text.format, vLLM's
// structured_outputs and the guided_* fields before it. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "grammar/schema_work.h"
#include "http/api_error.h"
#include "http/field_reader.h"

namespace graft {

struct AnswerFormat {
  enum class Kind : uint8_t { kText, kJsonObject, kSchema, kRegex, kChoice, kGrammar, kTag };

  bool is_text() const { return kind == Kind::kText; }

  Kind kind = Kind::kText;
  std::string param;                 // the field that says so
  OrderedJson schema;                // of kSchema, and of kTag the whole tag
  std::string text;                  // of kRegex and kGrammar
  std::vector<std::string> choices;  // of kChoice
};

// Takes the fields that say it, of which one may.
void ReadAnswerFormat(FieldReader& reader, AnswerFormat* format);
// The same of a response's text.format, where a schema's fields lie beside the type. `reader` is at
// the format's owner.
void ReadTextFormat(FieldReader& reader, const Json& json, AnswerFormat* format);

// Gives the schema's keys the order that they have in `body`, which is what the format was read
// from: an answer has its properties in that order.
void UseOrderOf(std::string_view body, AnswerFormat* format);

// One format of a grammar (grammar/grammar_text.h). 400 names the keyword that is not followed.
// `work` is what reading all schemas of the request may take.
ApiResult<OrderedJson> GrammarFormatOf(const AnswerFormat& format, SchemaWork& work);
// The same for a request without other schemas.
ApiResult<OrderedJson> GrammarFormatOf(const AnswerFormat& format);
// The same of one schema; `param` is its field.
ApiResult<OrderedJson> SchemaFormatOf(const OrderedJson& schema, const std::string& param,
                                      SchemaWork& work);

}  // namespace graft
