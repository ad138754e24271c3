#include "openai/learning/job_request.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/random.h"
#include "base/strings.h"
#include "http/field_reader.h"
#include "openai/api_fields.h"
#include "openai/shared_fields.h"
#include "request/adapter_name.h"

namespace graft {
namespace {

constexpr size_t kSuffixBytesMax = 64;

// Like null, it asks for nothing.
bool IsEmpty(const Json& json) { return (json.is_structured() && json.empty()) || json == ""; }

// "auto" asks for what the learner does by itself.
bool IsAuto(const Json* json) { return json == nullptr || *json == "auto"; }

template <typename Words>
std::string OneOf(const Words& words) {
  return "must be one of '" + Joined(words, "', '") + "'";
}

class MethodReader {
 public:
  explicit MethodReader(const Json& object)
      : reader_(object, kMethodPath, &HyperparameterFields()) {}

  // What the row's field says, if it is given.
  void Read(const MethodRow& row, int32_t* out) {
    const Json* const json = Given(row);
    if (json == nullptr) return;
    const int64_t min = LeastOf(row), max = static_cast<int64_t>(row.max);
    if (const std::optional<int64_t> value = IntegerOf(*json, min, max)) {
      *out = static_cast<int32_t>(*value);
      return;
    }
    reader_.Fail(row.field, "must be \"auto\" or an integer between " + std::to_string(min) +
                                " and " + std::to_string(max));
  }

  void Read(const MethodRow& row, double* out) {
    const Json* const json = Given(row);
    if (json == nullptr) return;
    const bool is_above = row.is_above || *row.own != '\0';
    const double value = json->is_number() ? json->get<double>() : row.min - 1.0;
    if ((is_above ? value > row.min : value >= row.min) && value <= row.max) {
      *out = value;
      return;
    }
    reader_.Fail(row.field, "must be \"auto\" or a number " +
                                std::string(is_above ? "above " : "from ") + Short(row.min) +
                                " to " + Short(row.max));
  }

  // One of the row's words. Which learners there are, the server says.
  void Read(const MethodRow& row, std::string* out) {
    if (row.words.data() == kLearnerNames) return;
    const Json* const json = Given(row);
    if (json == nullptr) return;
    const auto word = std::find(row.words.begin(), row.words.end(), *json);
    if (word == row.words.end()) return reader_.Fail(row.field, OneOf(row.words));
    *out = *word;
  }

  // Files' ids.
  void Read(const MethodRow& row, std::vector<std::string>* out) {
    const Json* const json = Given(row);
    if (json == nullptr) return;
    const auto is_id = [](const Json& one) {
      return one.is_string() && one.get_ref<const std::string&>().size() <= kNameBytesMax;
    };
    if (json->is_array() && json->size() <= static_cast<size_t>(row.max) &&
        std::all_of(json->begin(), json->end(), is_id)) {
      *out = json->get<std::vector<std::string>>();
      return;
    }
    reader_.Fail(row.field,
                 "must be \"auto\" or a list of up to " + Short(row.max) + " ids of files");
  }

  // A field that has been removed, unless it asks for what is done without it.
  void Removed(const char* name, const char* neutral, const char* why) {
    const Json* const json = reader_.Take(name);
    if (IsAuto(json) || IsEmpty(*json) || *json == neutral) return;
    const std::string path = std::string(kMethodPath) + name;
    ApiError error = InvalidRequestError(path, "'" + path + "' " + why);
    error.code = "unsupported";
    reader_.Fail(std::move(error));
  }

  void Learner(const std::vector<std::string>& learners, std::string* out) {
    std::string name;
    reader_.String("learner", &name, kNameBytesMax);
    *out = name.empty() || name == "auto" ? learners.front() : name;
    if (std::find(learners.begin(), learners.end(), *out) != learners.end()) return;
    reader_.Fail("learner", OneOf(learners) + ", got '" + name + "'");
  }

  std::optional<ApiError> Finish() { return reader_.Finish(); }

 private:
  // Null where nothing is asked for.
  const Json* Given(const MethodRow& row) {
    const Json* const json = reader_.Take(row.field);
    return IsAuto(json) ? nullptr : json;
  }
  static int64_t LeastOf(const MethodRow& row) {
    return static_cast<int64_t>(row.min) + (*row.own == '\0' ? 0 : 1);
  }
  static std::string Short(double number) {
    std::string text = std::to_string(number);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
    return text;
  }

  FieldReader reader_;
};

// OpenAI's own place for them was the body once, and each method has one now.
void RefuseMisplaced(FieldReader& reader, const std::string& path) {
  const Json* const given = reader.Take("hyperparameters");
  if (given == nullptr || IsEmpty(*given)) return;
  const std::string name = path + "hyperparameters";
  ApiError error = InvalidRequestError(
      name, "'" + name + "' is not read here; give it as method.document.hyperparameters");
  error.code = "unsupported";
  reader.Fail(std::move(error));
}

std::optional<ApiError> ReadMethod(const Json& method, const LearningSetup& setup,
                                   DocumentMethod* out) {
  FieldReader reader(method, "method.");
  reader.OneOf("type", {"document"}, "the one that this server has");
  const Json* const document = reader.Take("document");
  RefuseMisplaced(reader, "method.");
  if (auto error = reader.Finish()) return error;
  const Json nothing = Json::object();
  FieldReader inner(document == nullptr ? nothing : *document, "method.document.");
  const Json* const given = inner.Take("hyperparameters");
  if (auto error = inner.Finish()) return error;
  MethodReader fields(given == nullptr ? nothing : *given);
  fields.Learner(setup.learners, &out->learner);
  VisitMethod(*out, [&fields](const MethodRow& row, auto& value) {
    if (*row.field != '\0') fields.Read(row, &value);
  });
  fields.Removed("hidden_states", "none", kHiddenStatesRemoved);
  return fields.Finish();
}

}  // namespace

ApiResult<JobRequest> ParseJobRequest(const Json& body, const LearningSetup& setup) {
  JobRequest request;
  LearningJob& job = request.job;
  FieldReader reader(body, "", &FineTuningFields());
  reader.String("model", &request.model, kNameBytesMax);
  if (request.model.empty()) reader.Fail("model", "is required");
  reader.String("training_file", &job.training_file, kNameBytesMax);
  if (job.training_file.empty()) reader.Fail("training_file", "is required: a file's id");
  reader.String("suffix", &job.suffix, kSuffixBytesMax);
  if (AdapterNameFrom(job.suffix) != job.suffix)
    reader.Fail("suffix", "has letters, digits and . _ - alone");
  std::optional<int32_t> seed;
  reader.OptionalInt("seed", 0, kInt32Max, &seed);
  job.seed = seed.has_value() ? static_cast<uint32_t>(*seed)
                              : static_cast<uint32_t>(RandomSeed() & 0x7fffffff);
  Json metadata;
  ReadMetadata(reader, &metadata);
  if (!metadata.is_null()) job.metadata = DumpJson(metadata);
  const Json* const method = reader.Take("method");
  if (method == nullptr) {
    reader.Fail("method", "is required: {\"type\": \"document\"} makes an adapter of a document");
  }
  RefuseMisplaced(reader, "");
  reader.TakeUnread();
  if (!reader.failed()) {
    if (auto error = ReadMethod(*method, setup, &job.method)) reader.Fail(*std::move(error));
  }
  if (auto error = reader.Finish()) return *error;
  return request;
}

}  // namespace graft
