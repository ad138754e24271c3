#include "openai/learning/learning_endpoints.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/log.h"
#include "http/field_reader.h"
#include "http/http_message.h"
#include "http/multipart.h"
#include "openai/generation_plan.h"
#include "openai/learning/job_request.h"
#include "openai/learning/learning_answers.h"
#include "openai/shared_fields.h"
#include "text/utf8.h"

namespace graft {
namespace {

constexpr size_t kFileNameBytesMax = 512;
constexpr int32_t kFilesMax = 10'000;
constexpr int32_t kItemsMax = 100;
constexpr int64_t kHour = 3600;
constexpr int64_t kMonth = 30 * 24 * kHour;

struct ListQuery {
  PageQuery page;
  std::string purpose;
};

ApiResult<ListQuery> ParseListQuery(std::string_view query, int32_t limit, int32_t limit_max,
                                    bool is_of_files) {
  const Json fields = ListFields(query);
  ListQuery list;
  list.page.limit = limit;
  FieldReader reader(fields, "");
  ReadPage(reader, limit_max, &list.page);
  if (is_of_files) {
    reader.String("purpose", &list.purpose, kNameBytesMax);
    ReadOrder(reader, &list.page);
  }
  if (auto error = reader.Finish()) return *error;
  return list;
}

template <typename T, typename ToJson>
HttpResponse ListResponse(const Result<Page<T>>& page, const ToJson& to_json) {
  if (!page.ok()) return ErrorResponse(ErrorFromStatus(page.status()));
  Json data = Json::array();
  for (const T& item : page->items) data.push_back(to_json(item));
  return JsonResponse(ListJson(std::move(data), page->has_more));
}

// The server's setup or the state of things forbids it, not the request.
HttpResponse FailureResponse(const Status& status, const std::string& param = "") {
  if (status.code() == StatusCode::kFailedPrecondition) {
    return ErrorResponse(HttpError(409, "failed_precondition", status.message()));
  }
  return ErrorResponse(ErrorFromStatus(status, param));
}

// ---- files

struct Upload {
  std::string name;
  std::string purpose;
  std::string content;
  int64_t seconds = 0;
  bool has_anchor = false;  // says from when the seconds count
};

std::optional<ApiError> ReadField(const FormPart& part, Upload* upload) {
  const std::string value(part.content);
  if (part.name == "purpose") {
    if (value == "fine-tune" || value == "user_data") {
      upload->purpose = value;
      return std::nullopt;
    }
    return InvalidRequestError("purpose",
                               "'purpose' must be 'fine-tune' or 'user_data': files are documents "
                               "to learn, got '" +
                                   value.substr(0, 200) + "'");
  }
  if (part.name == "expires_after[anchor]") {
    upload->has_anchor = true;
    if (value == "created_at") return std::nullopt;
    return InvalidRequestError(part.name, "'" + part.name + "' is 'created_at'");
  }
  if (part.name == "expires_after[seconds]") {
    const Result<Json> number = ParseJson(value);
    const auto seconds = number.ok() ? IntegerOf(*number, kHour, kMonth) : std::nullopt;
    if (seconds.has_value()) {
      upload->seconds = *seconds;
      return std::nullopt;
    }
    return InvalidRequestError(part.name,
                               "'" + part.name + "' must be an integer from 3600 to 2592000");
  }
  if (part.name.starts_with("expires_after")) {
    return InvalidRequestError(part.name.substr(0, 200),
                               "Unrecognized field: '" + part.name.substr(0, 200) +
                                   "'; a form has 'expires_after[anchor]' with the value "
                                   "created_at, and 'expires_after[seconds]'");
  }
  return InvalidRequestError(part.name.substr(0, 200),
                             "Unrecognized field: '" + part.name.substr(0, 200) + "'");
}

ApiResult<Upload> ParseUpload(const HttpRequest& request) {
  ASSIGN_OR_RETURN_ERROR(const std::vector<FormPart> parts,
                         ParseForm(request.content_type, request.body));
  Upload upload;
  bool has_file = false;
  for (const FormPart& part : parts) {
    if (part.name == "file") {
      if (!part.is_file) return InvalidRequestError("file", "'file' must be a file with a name");
      has_file = true;
      upload.name = part.file_name;
      CutUtf8(kFileNameBytesMax, &upload.name);
      upload.content = part.content;
    } else if (auto error = ReadField(part, &upload)) {
      return *error;
    }
  }
  if (!has_file) return InvalidRequestError("file", "'file' is required");
  if (upload.purpose.empty()) return InvalidRequestError("purpose", "'purpose' is required");
  if (upload.has_anchor && upload.seconds == 0) {
    return InvalidRequestError("expires_after[seconds]",
                               "'expires_after[seconds]' is required beside "
                               "'expires_after[anchor]': without it the file would not expire");
  }
  return upload;
}

HttpResponse UploadFile(LearningJobs& jobs, const HttpRequest& request, const std::string& tenant) {
  ASSIGN_OR_RESPOND(const Upload upload, ParseUpload(request));
  const Result<LearningFile> file =
      jobs.Upload(tenant, upload.name, upload.purpose, upload.content, upload.seconds);
  if (!file.ok()) return FailureResponse(file.status(), "file");
  return JsonResponse(FileJson(*file));
}

HttpResponse AnswerFiles(LearningJobs& jobs, const HttpRequest& request,
                         const std::string& tenant) {
  if (request.method == "POST") return UploadFile(jobs, request, tenant);
  ASSIGN_OR_RESPOND(const ListQuery query,
                    ParseListQuery(request.query, kFilesMax, kFilesMax, true));
  return ListResponse(jobs.store().ListFiles(tenant, query.purpose, query.page), FileJson);
}

HttpResponse AnswerFile(LearningJobs& jobs, const RouteMatch& match, const HttpRequest& request,
                        const std::string& tenant) {
  if (match.route == Route::kFileContent) {
    Result<std::string> content = jobs.store().FileContent(tenant, match.id);
    if (!content.ok()) return FailureResponse(content.status());
    // Never as what a browser would show, or run.
    HttpResponse response{.content_type = "application/octet-stream", .body = std::move(*content)};
    response.headers.emplace_back("Content-Disposition", "attachment");
    response.headers.emplace_back("X-Content-Type-Options", "nosniff");
    return response;
  }
  if (request.method == "DELETE") {
    const Status deleted = jobs.store().DeleteFile(tenant, match.id);
    if (!deleted.ok()) return FailureResponse(deleted);
    return JsonResponse({{"id", match.id}, {"object", "file"}, {"deleted", true}});
  }
  const Result<LearningFile> file = jobs.store().FindFile(tenant, match.id);
  return file.ok() ? JsonResponse(FileJson(*file)) : FailureResponse(file.status());
}

// ---- jobs

HttpResponse CreateJob(const ApiContext& context, LearningJobs& jobs, const std::string& body,
                       const ApiKey& key) {
  ASSIGN_OR_RESPOND(const Json json, ParseBody(body));
  ASSIGN_OR_RESPOND(JobRequest order, ParseJobRequest(json, jobs.setup()));
  ASSIGN_OR_RESPOND(const AdapterInfo model, FindModel(context, key, order.model));
  if (order.model != context.base_model) {
    return ErrorResponse(InvalidRequestError(
        "model", "'" + order.model + "' is an adapter; a document is learned on the base model, '" +
                     context.base_model + "'"));
  }
  order.job.tenant = key.rights().tenant;
  const std::string tenant = order.job.tenant, file = order.job.training_file;
  const Result<LearningJob> job = jobs.Create(std::move(order.job));
  if (job.status().code() == StatusCode::kNotFound) {
    const bool has_file = jobs.store().FindFile(tenant, file).ok();
    return FailureResponse(job.status(),
                           has_file ? kMethodPath + FieldOf("keep_text") : "training_file");
  }
  if (!job.ok()) return FailureResponse(job.status());
  LOG_INFO("fine-tuning job {} of {}: {}", job->id, job->tenant, job->method.learner);
  return JsonResponse(JobJson(*job));
}

HttpResponse AnswerJobs(const ApiContext& context, LearningJobs& jobs, const HttpRequest& request,
                        const ApiKey& key) {
  if (request.method == "POST") return CreateJob(context, jobs, request.body, key);
  ASSIGN_OR_RESPOND(const ListQuery query, ParseListQuery(request.query, 20, kItemsMax, false));
  return ListResponse(jobs.store().ListJobs(key.rights().tenant, query.page), JobJson);
}

// An admin ends any tenant's job.
Result<LearningJob> CancelJob(LearningJobs& jobs, const std::string& id, const ApiKey& key) {
  Result<LearningJob> job = jobs.Cancel(key.rights().tenant, id);
  if (!key.rights().admin || job.status().code() != StatusCode::kNotFound) return job;
  return jobs.CancelAnybodys(id);
}

HttpResponse AnswerJob(LearningJobs& jobs, const RouteMatch& match, const HttpRequest& request,
                       const ApiKey& key) {
  const std::string& tenant = key.rights().tenant;
  const Result<LearningJob> job = match.route == Route::kFineTuningCancel
                                      ? CancelJob(jobs, match.id, key)
                                      : jobs.store().FindJob(tenant, match.id);
  if (!job.ok()) return FailureResponse(job.status());
  if (match.route == Route::kFineTuningJob || match.route == Route::kFineTuningCancel) {
    return JsonResponse(JobJson(*job));
  }
  ASSIGN_OR_RESPOND(const ListQuery query,
                    ParseListQuery(request.query, match.route == Route::kFineTuningEvents ? 20 : 10,
                                   kItemsMax, false));
  if (match.route == Route::kFineTuningEvents) {
    return ListResponse(jobs.store().ListEvents(tenant, match.id, query.page),
                        [&](const JobEvent& event) { return EventJson(match.id, event); });
  }
  return ListResponse(
      jobs.store().ListCheckpoints(tenant, match.id, query.page),
      [&](const JobCheckpoint& checkpoint) { return CheckpointJson(*job, checkpoint); });
}

ApiError NotLearnedError(const ApiContext& context, const std::string& name) {
  std::string message =
      "'" + name + "' was not learned here: only a learned model is deleted by its owner. ";
  message += name == context.base_model
                 ? "The base model stays."
                 : "An admin key takes an adapter's name away by POST /v1/unload_lora_adapter.";
  return HttpError(403, "permission_denied", std::move(message));
}

// Answers on a server without learning.
HttpResponse RefuseDelete(const ApiContext& context, const std::string& name, const ApiKey& key) {
  ASSIGN_OR_RESPOND(const AdapterInfo model, FindModel(context, key, name));
  // One that was learned elsewhere in the cluster is deleted where there are jobs.
  return ErrorResponse(model.owner.has_value() ? NoLearning(context)
                                               : NotLearnedError(context, name));
}

HttpResponse DeleteModel(const ApiContext& context, LearningJobs& jobs, const std::string& name,
                         const ApiKey& key) {
  ASSIGN_OR_RESPOND(const AdapterInfo model, FindModel(context, key, name));
  if (!model.owner.has_value()) return ErrorResponse(NotLearnedError(context, name));
  const Status deleted = jobs.DeleteAdapter(*model.owner, name);
  if (!deleted.ok()) return FailureResponse(deleted, "model");
  LOG_INFO("learned model {} of {} deleted", name, *model.owner);
  return JsonResponse({{"id", name}, {"object", "model"}, {"deleted", true}});
}

}  // namespace

ApiError NoLearning(const ApiContext& context) {
  ApiError error = HttpError(501, "unsupported", context.learning_refusal);
  error.type = "invalid_request_error";
  return error;
}

HttpResponse AnswerLearning(const ApiContext& context, const RouteMatch& match,
                            const HttpRequest& request, const ApiKey& key) {
  if (context.learning == nullptr) {
    return match.route == Route::kModel ? RefuseDelete(context, match.model, key)
                                        : ErrorResponse(NoLearning(context));
  }
  LearningJobs& jobs = *context.learning;
  const std::string& tenant = key.rights().tenant;
  switch (match.route) {
    case Route::kFiles:
      return AnswerFiles(jobs, request, tenant);
    case Route::kFile:
    case Route::kFileContent:
      return AnswerFile(jobs, match, request, tenant);
    case Route::kFineTuningJobs:
      return AnswerJobs(context, jobs, request, key);
    case Route::kModel:
      return DeleteModel(context, jobs, match.model, key);
    default:
      return AnswerJob(jobs, match, request, key);
  }
}

}  // namespace graft
