// graft generate: one prompt to the base model and any number of adapters, in one batch, printed as
// it comes (one answer) or side by side (several).
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "cli/answer_text.h"
#include "cli/commands.h"
#include "cli/foreign_flags.h"
#include "cli/start_checks.h"
#include "cli/tokenizer_rules.h"
#include "runtime/named_model.h"
#include "runtime/runtime.h"

namespace graft {
namespace {

struct GenerateOptions {
  RuntimeOptions runtime;
  std::vector<std::string> names;  // adapters, or the base model's name
  std::string prompt;
  std::vector<std::string> stops;
  SamplingParams sampling;
  TokenizerRules tokenizer_rules = TokenizerRules::kFile;
  bool quiet = false;

  GenerateOptions() {
    runtime.limits.sequences_max = 16;
    runtime.log.level = "warn";
    sampling.tokens_max = 128;
  }
};

Status SubmitOne(const GenerateOptions& options, const LoadedModel& model, Runtime& runtime,
                 const std::string& name, const std::vector<int32_t>& prompt, RequestId id,
                 const AnswerText& answer) {
  Request request;
  request.id = id;
  request.prompt_tokens = prompt;
  request.sampling = options.sampling;
  if (!name.empty() && name != model.name) {
    const Result<AdapterInfo> info = runtime.catalog().Find(name);
    if (!info.ok()) return NoSuchAdapter(runtime.catalog(), name);
    request.UseAdapter(info->key());
    if (info->text != nullptr && !options.sampling.ignore_eos) {
      request.sampling.stop_token_ids = info->text->stop_token_ids;
    }
  }
  return runtime.engine().Submit(std::move(request), answer.stream());
}

Status RunGenerate(GenerateOptions& options) {
  RETURN_IF_ERROR(InitLog(options.runtime.log.level));
  if (options.prompt.empty()) return InvalidArgumentError("what prompt? --prompt TEXT");
  RETURN_IF_ERROR(FindNamedModel(options.quiet, &options.runtime));
  RETURN_IF_ERROR(CheckFolders(options.runtime).status());
  RETURN_IF_ERROR(CheckAdapterNames(options.runtime, options.names));
  ASSIGN_OR_RETURN(const auto ranks, RankProcesses::Start(options.runtime));  // before any thread
  ASSIGN_OR_RETURN(const auto model, LoadModel(options.runtime, options.quiet, {}, ranks.get()));
  ASSIGN_OR_RETURN(const auto tokenizer,
                   Tokenizer::Load(options.runtime.model, options.tokenizer_rules));
  const std::string beyond = tokenizer->TokensBeyond(model->config.vocab_size);
  if (!beyond.empty()) LOG_WARN("{}", beyond);
  ASSIGN_OR_RETURN(const auto runtime, Runtime::Create(options.runtime, *model, /*lora=*/true));
  RETURN_IF_ERROR(runtime->LoadAdapters());
  runtime->RecordGraphs(options.quiet);
  ASSIGN_OR_RETURN(const std::vector<int32_t> prompt,
                   tokenizer->Encode(options.prompt, /*add_special_tokens=*/true));
  if (ranks != nullptr) ranks->BeginServing();
  runtime->engine().Start();

  std::vector<std::string> names = options.names;
  if (names.empty()) names.push_back(model->name);
  std::vector<std::unique_ptr<AnswerText>> answers;
  for (const std::string& name : names) {
    answers.push_back(std::make_unique<AnswerText>(*tokenizer, options.stops));
    RETURN_IF_ERROR(
        SubmitOne(options, *model, *runtime, name, prompt, answers.size(), *answers.back()));
  }
  for (size_t i = 0; i < answers.size(); ++i) {
    if (answers.size() > 1) std::printf("%s== %s\n", i == 0 ? "" : "\n", names[i].c_str());
    for (bool more = true; more;) {
      std::string text;
      ASSIGN_OR_RETURN(more, answers[i]->Next(&text));
      std::fwrite(text.data(), 1, text.size(), stdout);
      std::fflush(stdout);
    }
    std::printf("\n");
    runtime->engine().Cancel(i + 1);  // a stop string ends an answer before the engine knows
  }
  return OkStatus();
}

}  // namespace

Command GenerateCommand() {
  const auto options = std::make_shared<GenerateOptions>();  // lives as long as the command
  SamplingParams& sampling = options->sampling;
  std::vector<OptionGroup> groups = {
      {"Generation",
       {{"prompt", Text(options->prompt), "the text to go on from"},
        {.name = "adapter",
         .target = Texts(options->names),
         .help = "an adapter, or the base model's name; may be repeated",
         .default_help = "the base model"},
        {"max-tokens", Number(sampling.tokens_max, AtLeast(1)), "tokens of output"},
        {"temperature", Number(sampling.temperature, AtLeast(0)), "0 is greedy"},
        {"top-p", Number(sampling.top_p, Between(0, 1)), "nucleus sampling"},
        {"top-k", Number(sampling.top_k, AtLeast(0)), "0: off"},
        {"min-p", Number(sampling.min_p, Between(0, 1)), "0: off"},
        {"seed", Number(sampling.seed), "the same seed draws the same text"},
        {"repetition-penalty", Number(sampling.repetition_penalty, Above(0)), "1: off"},
        {"stop", Texts(options->stops), "end before this text; may be repeated"},
        {"ignore-eos", Switch(sampling.ignore_eos), "go on past the model's own end"},
        {"tokenizer-rules", OneOf(options->tokenizer_rules, kTokenizerRulesWords),
         kTokenizerRulesHelp},
        {"quiet", Switch(options->quiet), "no progress bars"}}}};
  for (OptionGroup& group : RuntimeOptionGroups(options->runtime)) {
    groups.push_back(std::move(group));
  }
  return {.name = "generate",
          .help =
              "Complete a prompt with the base model or adapters, all in one batch.\n"
              "  graft generate --model demo/base --adapters demo/adapters --adapter austen \\\n"
              "                 --adapter doyle --prompt 'It was a dark and stormy night'",
          .groups = std::move(groups),
          .run = [options] { return RunGenerate(*options); },
          .foreign_flags = VllmFlags()};
}

}  // namespace graft
