// /v1/models, and loads and unloads of adapters. Blocking where said; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "http/http_message.h"
#include "keys/api_keys.h"
#include "openai/api_context.h"
#include "openai/routes.h"
#include "request/adapter_sources.h"

namespace graft {

// /v1/models. `start_time` is the base model's `created`, in Unix seconds.
HttpResponse AnswerModels(const ApiContext& context, int64_t start_time, const ApiKey& key);

// /v1/models/{model}.
HttpResponse AnswerModel(const ApiContext& context, int64_t start_time, const std::string& name,
                         const ApiKey& key);

// The name under a source that a load asks for in place of a folder, which is to be brought first;
// "": none. Takes as long as the body's JSON.
std::string NameToBring(const ApiContext& context, Route route, const std::string& body);

// /v1/load_lora_adapter and /v1/unload_lora_adapter. Blocks for a whole load. `brought`: what
// NameToBring's name has led to; null: it named none.
HttpResponse AnswerAdmin(const ApiContext& context, Route route, const std::string& body,
                         const ApiKey& key, const BroughtAdapter* brought = nullptr);

}  // namespace graft
