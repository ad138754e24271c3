#include "tuning/encoder_folder.h"

#include <algorithm>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "learn/learned_folder.h"
#include "tuning/task_set.h"

namespace graft {
namespace {

constexpr const char* kEncoder = "/encoder";
constexpr const char* kDecoder = "/decoder";

// An encoder that was learned before, in place of a new one's numbers.
Status ReadEncoder(const std::string& folder, const ModelConfig& config, EncoderRun& run) {
  ASSIGN_OR_RETURN(const TaskSet::FrozenDocument encoder,
                   ReadFrozenDocument("encoder", folder + kEncoder, config));
  ASSIGN_OR_RETURN(const TaskSet::FrozenDocument decoder,
                   ReadFrozenDocument("decoder", folder + kDecoder, config));
  RETURN_IF_ERROR(
      ReadInto(encoder, config, &run.encoder_lora(), &run.encoder_tokens()).WithContext(folder));
  return ReadInto(decoder, config, &run.decoder(), nullptr).WithContext(folder);
}

Status WriteEncoder(const EncoderOrder& order, const LoadedModel& model,
                    const OrderedJson& provenance, EncoderRun& run) {
  const DType dtype = model.weights.dtype;
  ASSIGN_OR_RETURN(const std::string encoder,
                   WriteLearnedFolder(order.folder + kEncoder, model.config,
                                      {&run.encoder_lora(), &run.encoder_tokens()}, dtype,
                                      model.name, provenance));
  return WriteLearnedFolder(order.folder + kDecoder, model.config, {.lora = &run.decoder()}, dtype,
                            model.name, provenance)
      .status();
}

OrderedJson ScoresJson(const EncoderReport& report) {
  const EncoderRun::Scores& scores = report.scores;
  return {{"reconstruction_loss", scores.reconstruction},
          {"loss_base", scores.answers_without},
          {"loss", scores.answers},
          {"held_out_loss_base", scores.held_out_without},
          {"held_out_loss", scores.held_out},
          {"steps", report.num_steps}};
}

}  // namespace

bool HasEncoder(const std::string& folder) {
  return FileExists(folder + kEncoder + "/graft.json") &&
         FileExists(folder + kDecoder + "/graft.json");
}

int32_t MemoryRowsMax(std::span<const size_t> document_tokens, const EncoderSettings& settings) {
  const int32_t windows = EncoderRun::WindowsMax(document_tokens, settings.window_tokens);
  return std::max(windows * settings.memory_tokens, settings.memory_tokens + 1);
}

int64_t EncoderBytes(std::span<const size_t> document_tokens, const EncoderSettings& settings,
                     const ModelConfig& config, DType dtype) {
  const auto tokens = [&](int32_t count) {
    return TrainedPrompt::BytesFor(config, VirtualTokenKind::kEmbedding, count, dtype);
  };
  int64_t bytes = TrainedLora::BytesFor(config, settings.rank, dtype) +
                  settings.rates.batch * tokens(settings.memory_tokens + 1);
  for (const size_t count : document_tokens) {
    bytes += tokens(MemoryRowsMax({&count, 1}, settings));
  }
  return bytes;
}

Result<EncoderReport> LearnByEncoder(EncoderOrder order, LoadedModel& model,
                                     const TrainingLimits& limits) {
  Trainer trainer(model.config, model.weights, limits, model.stream);
  std::vector<EncoderDocument> documents;
  for (EncodedDocument& document : order.documents) {
    documents.push_back(std::move(document.document));
  }
  const bool is_there = HasEncoder(order.folder);
  if (is_there) order.settings.has_answers = false;
  EncoderRun run(trainer, std::move(documents), order.settings);
  EncoderReport report;
  if (is_there) {
    RETURN_IF_ERROR(ReadEncoder(order.folder, model.config, run));
  } else {
    report.num_steps = run.num_steps();
    while (run.step() < run.num_steps()) {
      run.Step();
      order.on_step(run.step(), run.num_steps(), run.last_loss());
    }
  }
  run.EncodeAll();
  report.scores = run.Evaluate();
  const bool is_better = report.scores.answers < report.scores.answers_without;
  if (!is_there && order.settings.has_answers && !is_better) {  // NaN, too
    return FailedPreconditionError("the encoder was not learned: the loss on the answers is " +
                                   std::to_string(report.scores.answers) + ", the base's is " +
                                   std::to_string(report.scores.answers_without) +
                                   "; change --learning-rate or --prompt-learning-rate");
  }
  for (size_t i = 0; i < order.documents.size(); ++i) {
    OrderedJson provenance = order.documents[i].origin;
    if (!is_there && i == 0) RETURN_IF_ERROR(WriteEncoder(order, model, provenance, run));
    provenance["scores"] = ScoresJson(report);
    ASSIGN_OR_RETURN(std::string hash,
                     WriteLearnedFolder(order.documents[i].folder, model.config,
                                        {&run.decoder(), &run.memory(i)}, model.weights.dtype,
                                        model.name, provenance));
    report.hashes.push_back(std::move(hash));
  }
  return report;
}

}  // namespace graft
