#include "openai/model_endpoints.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/unwanted_work.h"
#include "http/field_reader.h"
#include "openai/generation_plan.h"

namespace graft {
namespace {

// Entries of /v1/models.
void AppendBaseEntry(const ApiContext& context, int64_t start_time, std::string* out) {
  AppendBaseModel(context.base_model, context.base_revision, start_time,
                  context.generator.limits().context_tokens_max, out);
}

// Only admins see which tenant loaded an adapter.
void AppendAdapterEntry(const ApiContext& context, const AdapterInfo& adapter, const ApiKey& key,
                        std::string* out) {
  AppendAdapterModel(adapter, context.catalog.StateOf(adapter), context.base_model,
                     context.generator.limits().context_tokens_max,
                     /*with_tenant=*/key.rights().admin, out);
}

// Answers a load or unload that failed. Places on this machine are in the log and not in the
// answer, where a path in the adapters folder goes by its name there.
HttpResponse AdapterErrorResponse(const ApiContext& context, const Status& status,
                                  const std::string& param, const std::string& given_path) {
  ApiError error = ErrorFromStatus(status, param);
  // The server's setup forbids it, not the request.
  if (status.code() == StatusCode::kFailedPrecondition) {
    error = HttpError(409, "failed_precondition", status.message());
  }
  error.message = HidePath(error.message, context.adapters_dir, "the adapters folder", given_path);
  return ErrorResponse(error);
}

// Where a source's files lie is no client's matter.
Status WithoutFolder(const Status& status, const BroughtAdapter* brought) {
  if (brought == nullptr) return status;
  return Status(status.code(), HidePath(status.message(), brought->path, "its folder"));
}

HttpResponse LoadAdapter(const ApiContext& context, const Json& body, const ApiKey& key,
                         const BroughtAdapter* brought) {
  ASSIGN_OR_RESPOND(AdapterLoad load, ParseLoadAdapterRequest(body));
  const std::string asked_path = load.path;
  if (context.sources != nullptr && context.sources->MayHave(load.name)) {
    return ErrorResponse(InvalidRequestError(
        "lora_name",
        "'" + load.name + "' is a source's name, which requests have looked up; choose another."));
  }
  if (brought != nullptr) {
    load.path = brought->path;
    load.fetched_revision = brought->revision;
  }
  if (load.name == context.base_model) {
    return ErrorResponse(ErrorFromStatus(
        AlreadyExistsError("'" + load.name + "' is the base model's name."), "lora_name"));
  }
  const Result<AdapterInfo> known = context.catalog.Find(load.name);
  if (known.ok() && known->owner.has_value()) {
    return ErrorResponse(InvalidRequestError(
        "lora_name",
        "'" + load.name + "' was learned here, and is its owner's alone; choose another name."));
  }
  load.tenant = key.rights().tenant;
  const Result<AdapterInfo> adapter = context.catalog.Load(load);
  if (!adapter.ok()) {
    LOG_WARN("loading adapter {} from {} failed: {}", load.name, load.path,
             adapter.status().ToString());
    const StatusCode code = adapter.status().code();
    const bool is_about_path =
        code == StatusCode::kNotFound || code == StatusCode::kPermissionDenied;
    return AdapterErrorResponse(context, WithoutFolder(adapter.status(), brought),
                                is_about_path ? "lora_path" : "", asked_path);
  }
  LOG_INFO("adapter {} loaded for {}: rank {}, {}", load.name, load.tenant, adapter->rank_max,
           adapter->hash);
  HttpResponse response;
  AppendAdapterEntry(context, *adapter, key, &response.body);
  const auto add = [&response](const std::string& field, const std::string& text) {
    response.body.back() = ',';
    response.body += '"' + field + R"(":)" + DumpJson(text) + '}';
  };
  if (adapter->changes_nothing) add("warning", load.name + " " + kChangesNothing);
  const std::string error = ChatTextOf(context, adapter->text).error;
  const bool brings_template = adapter->text != nullptr && adapter->text->brings_template();
  if (brings_template && !error.empty()) {
    LOG_WARN("chat with adapter {} is refused: {}", load.name, error);
    add("chat_template_error", error);
  }
  return response;
}

HttpResponse UnloadAdapter(const ApiContext& context, const Json& body, const ApiKey& key) {
  ASSIGN_OR_RESPOND(const std::string name, ParseUnloadAdapterRequest(body));
  if (name == context.base_model) {
    return ErrorResponse(InvalidRequestError(
        "lora_name", "'" + name + "' is the base model, which cannot be unloaded."));
  }
  const Result<AdapterInfo> adapter = context.catalog.Find(name);
  if (adapter.ok() && adapter->owner.has_value()) {
    return ErrorResponse(
        InvalidRequestError("lora_name", "'" + name +
                                             "' was learned here; its owner deletes it by DELETE "
                                             "/v1/models/" +
                                             name + "."));
  }
  const Status status = context.catalog.Unload(name, key.rights().tenant);
  if (!status.ok()) {
    LOG_WARN("unloading adapter {} failed: {}", name, status.ToString());
    return AdapterErrorResponse(context, status, "lora_name", "");
  }
  LOG_INFO("adapter {} unloaded for {}", name, key.rights().tenant);
  return JsonResponse({{"id", name}, {"object", "model"}, {"deleted", true}});
}

}  // namespace

// There may be tens of thousands of adapters. They come out of the catalog in pieces, so that no
// load or unload waits for all of them, and go straight into the text.
HttpResponse AnswerModels(const ApiContext& context, int64_t start_time, const ApiKey& key) {
  constexpr size_t kPieceInfos = 512;
  std::string body = R"({"object":"list","data":[)";
  const char* comma = "";
  if (key.Allows(context.base_model)) {
    AppendBaseEntry(context, start_time, &body);
    comma = ",";
  }
  std::string last;
  for (;;) {
    const std::vector<AdapterInfo> adapters = context.catalog.ListAfter(last, kPieceInfos);
    for (const AdapterInfo& adapter : adapters) {
      if (!MayUseListed(context, key, adapter)) continue;
      body += std::exchange(comma, ",");
      AppendAdapterEntry(context, adapter, key, &body);
    }
    if (adapters.size() < kPieceInfos || WorkIsUnwanted()) break;
    last = adapters.back().name;
  }
  return {.body = body + "]}"};
}

HttpResponse AnswerModel(const ApiContext& context, int64_t start_time, const std::string& name,
                         const ApiKey& key) {
  ASSIGN_OR_RESPOND(const AdapterInfo model, FindModel(context, key, name));
  HttpResponse response;
  if (name == context.base_model) {
    AppendBaseEntry(context, start_time, &response.body);
  } else {
    AppendAdapterEntry(context, model, key, &response.body);
  }
  return response;
}

std::string NameToBring(const ApiContext& context, Route route, const std::string& body) {
  if (route != Route::kLoadAdapter || context.sources == nullptr) return "";
  ApiResult<Json> json = ParseBody(body);
  if (!json.ok()) return "";  // AnswerAdmin says why
  ApiResult<AdapterLoad> load = ParseLoadAdapterRequest(*json);
  return load.ok() && context.sources->MayHave(load->path) ? load->path : "";
}

HttpResponse AnswerAdmin(const ApiContext& context, Route route, const std::string& body,
                         const ApiKey& key, const BroughtAdapter* brought) {
  ASSIGN_OR_RESPOND(const Json json, ParseBody(body));
  return route == Route::kLoadAdapter ? LoadAdapter(context, json, key, brought)
                                      : UnloadAdapter(context, json, key);
}

}  // namespace graft
