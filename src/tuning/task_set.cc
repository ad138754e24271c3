#include "tuning/task_set.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

#include "adapters/peft_config.h"
#include "adapters/prompt_config.h"
#include "adapters/virtual_tokens.h"
#include "base/json.h"
#include "tuning/learn_memory.h"
#include "tuning/teacher_prompts.h"

namespace graft {
namespace {

struct Parts {
  const PeftFolder* lora = nullptr;
  const PeftFolder* prompt = nullptr;
};

Parts PartsOf(const PeftContent& content) {
  Parts parts;
  for (const PeftFolder& folder : content.folders) {
    if (folder.path.empty()) continue;
    (IsPromptConfig(folder.config) ? parts.prompt : parts.lora) = &folder;
  }
  return parts;
}

Result<LoraWeights> LoadLora(const PeftFolder& folder, const ModelConfig& config) {
  ASSIGN_OR_RETURN(const PeftConfig peft, ParsePeftConfig(folder.config));
  ASSIGN_OR_RETURN(const SafetensorsFile file,
                   SafetensorsFile::FromBytes(folder.weights, folder.path));
  return LoraWeights::Load(file, peft, config, DType::kF32);
}

Result<VirtualTokens> LoadPrompt(const PeftFolder& folder, const ModelConfig& config) {
  ASSIGN_OR_RETURN(const PromptConfig prompt, ParsePromptConfig(folder.config, config));
  ASSIGN_OR_RETURN(const SafetensorsFile file,
                   SafetensorsFile::FromBytes(folder.weights, folder.path));
  return VirtualTokens::Load(file, prompt, config, TypesOf(DType::kF32));
}

struct Line {
  std::string adapter, question, answer;
};

Result<Line> ParseLine(const std::string& text) {
  ASSIGN_OR_RETURN(const Json json, ParseJson(text));
  Line line;
  const std::pair<const char*, std::string*> fields[] = {
      {"adapter", &line.adapter}, {"question", &line.question}, {"answer", &line.answer}};
  for (const auto& [key, value] : fields) {
    const bool is_there = json.is_object() && json.contains(key) && json[key].is_string();
    if (is_there) *value = json[key].get<std::string>();
    if (value->empty() && value != &line.adapter) {
      return InvalidArgumentError(std::string("there is no text \"") + key +
                                  "\"; a line is {\"question\": ..., \"answer\": ..., "
                                  "\"adapter\": ...}");
    }
  }
  return line;
}

}  // namespace

Result<TaskSet> ReadTaskSet(const std::string& lines, const std::string& adapters,
                            const LearnRecipe& recipe, const ModelConfig& config,
                            const Tokenizer& tokenizer, const std::string& model_dir) {
  std::optional<ChatTemplate> chat;
  if (recipe.prompts == TeacherPrompts::kChat) {
    ASSIGN_OR_RETURN(chat, LoadChatTemplate(model_dir));
  }
  TaskSet set;
  std::map<std::string, int32_t> numbers;  // of documents, by name
  std::istringstream stream(lines);
  std::string text;
  for (int number = 1; std::getline(stream, text); ++number) {
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Result<Line> line = ParseLine(text);
    if (!line.ok()) return line.status().WithContext("line " + std::to_string(number));
    ASSIGN_OR_RETURN(TaskQuestion question,
                     TaskQuestionOf(chat.has_value() ? &*chat : nullptr, tokenizer, line->question,
                                    line->answer));
    if (!line->adapter.empty()) {
      const auto [known, is_new] =
          numbers.emplace(line->adapter, static_cast<int32_t>(set.documents.size()));
      if (is_new) {
        Result<TaskSet::FrozenDocument> document =
            ReadFrozenDocument(line->adapter, adapters + "/" + line->adapter, config);
        if (!document.ok()) return document.status().WithContext("adapter " + line->adapter);
        set.bytes += BytesOnHost(document->shape, config);
        set.documents.push_back(std::move(*document));
      }
      question.document = known->second;
    }
    set.questions.push_back(std::move(question));
  }
  return set;
}

Result<TaskSet::FrozenDocument> ReadFrozenDocument(const std::string& name, const std::string& path,
                                                   const ModelConfig& config) {
  TaskSet::FrozenDocument document{.name = name};
  ASSIGN_OR_RETURN(document.content, ReadAdapter(path, AdapterWeightsBytesMax(config)));
  const PeftContent& content = document.content;
  document.hash = content.is_bundle ? ContentHash(content) : AdapterHash(content.folders[0]);
  document.shape.is_frozen = true;
  const Parts parts = PartsOf(content);
  if (parts.lora != nullptr) {
    ASSIGN_OR_RETURN(const LoraWeights lora, LoadLora(*parts.lora, config));
    document.shape.rank = lora.matrices()[0].rank;
    document.shape.scale = lora.matrices()[0].scale;
    if (document.shape.rank == 0) {
      return UnimplementedError("its LoRA is not on all modules; those of graft learn are");
    }
  }
  if (parts.prompt != nullptr) {
    ASSIGN_OR_RETURN(const PromptConfig prompt, ParsePromptConfig(parts.prompt->config, config));
    document.shape.virtual_tokens = prompt.num_tokens;
    document.shape.kind = prompt.kind;
  }
  return document;
}

Status ReadInto(const TaskSet::FrozenDocument& document, const ModelConfig& config,
                TrainedLora* lora, TrainedPrompt* prompt) {
  const Parts parts = PartsOf(document.content);
  if ((parts.lora == nullptr) != (lora == nullptr) ||
      (parts.prompt == nullptr) != (prompt == nullptr)) {
    return InvalidArgumentError("the adapter has other parts than it should");
  }
  if (lora != nullptr) {
    ASSIGN_OR_RETURN(const LoraWeights weights, LoadLora(*parts.lora, config));
    RETURN_IF_ERROR(lora->Read(weights));
  }
  if (prompt == nullptr) return OkStatus();
  ASSIGN_OR_RETURN(const VirtualTokens tokens, LoadPrompt(*parts.prompt, config));
  return prompt->Read(tokens);
}

Status AddDocuments(const TaskSet& set, const ModelConfig& config, Trainer& trainer) {
  for (const TaskSet::FrozenDocument& document : set.documents) {
    const int32_t index = trainer.Add(document.shape);
    const Status read = ReadInto(document, config, trainer.lora(index), trainer.prompt(index));
    if (!read.ok()) return read.WithContext("adapter " + document.name);
  }
  return OkStatus();
}

std::unique_ptr<TrainedLora> JoinLora(const ModelConfig& config, TrainedLora* first,
                                      TrainedLora* second, DType dtype) {
  int32_t rank = 0;
  for (const TrainedLora* lora : {first, second}) rank += lora == nullptr ? 0 : lora->rank();
  if (rank == 0) return nullptr;
  auto joined = std::make_unique<TrainedLora>(config, rank, 1.0f, dtype);
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    for (const LoraModule module : joined->shape().lora_modules()) {
      for (const LoraSide side : {LoraSide::kA, LoraSide::kB}) {
        const TrainedLora::Place to = joined->place(layer, module, side);
        float* next = joined->parameters().data() + to.begin;
        for (TrainedLora* lora : {first, second}) {
          if (lora == nullptr) continue;
          const TrainedLora::Place from = lora->place(layer, module, side);
          const float factor = side == LoraSide::kA ? 1.0f : lora->scale();
          const float* numbers = lora->parameters().data() + from.begin;
          next = std::transform(numbers, numbers + lora->rank() * from.n, next,
                                [factor](float number) { return factor * number; });
        }
      }
    }
  }
  joined->Refresh();
  return joined;
}

}  // namespace graft
