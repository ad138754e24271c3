#include "cli/learn_options.h"

#include <utility>

#include "jobs/learning_records.h"
#include "model/prompt_config.h"

namespace graft {

LearnOptions::LearnOptions() {
  runtime.log_level = "warn";
  runtime.device = {.kind = DeviceChoice::Kind::kCpu};
  runtime.sequences_max = 0;  // by the device
  runtime.adapters_max = 16;
  runtime.read_at_start_gib = 0.0;  // what is asked for is read when it is
}

std::vector<Option> LearnDocumentRows(LearnOptions& o) {
  return {
      {.name = "files",
       .target = Texts(o.files),
       .help = "documents: text, Markdown, HTML, or PDF by pdftotext",
       .is_required = true,
       .is_positional = true},
      {.name = "name",
       .target = Texts(o.names),
       .help = "an adapter's name, by which requests ask for it; repeated for the next file",
       .default_help = "the file's, without its ending"},
      {"adapters", Text(o.adapters),
       "folder that the adapters' folders are made in: what graft serve reads"},
      {"replace", Switch(o.replace), "an adapter of that name is learned anew"},
      {.name = "texts",
       .target = Text(o.texts),
       .help =
           "all but next-token: folder that keeps what the base writes; whoever learns the same "
           "document again, by another learner or rank, finds it there",
       .default_help = "it is not kept"},
      {"sequences-max", Number(o.runtime.sequences_max, Between(0, 2048)),
       "texts that the base writes, or answers, at once; 0: 1024 on a GPU, 16 on the CPU"},
      {"ask", Texts(o.questions),
       "afterwards, print how the base and the adapters answer this, by --prompts; may be "
       "repeated"},
      {"answer-tokens", Number(o.answer_tokens, AtLeast(1)), "of such an answer, at most"}};
}

namespace {

// Learners and what they learn from.
std::vector<Option> LearnerRows(LearnOptions& o) {
  return {
      {"learner", OneOf(o.recipe.learner, kLearnerWords),
       "next-token: the document's own text, every token from those before it; distill: the base "
       "with the document in its context teaches the adapter without it; memory: it teaches "
       "virtual "
       "tokens in front of every prompt; prefix: it teaches keys and values there; task: answers "
       "to "
       "a file of questions, beside the frozen adapters that they name; encoder: one "
       "that makes virtual tokens of any document, over all files"},
      {"questions", Number(o.recipe.questions, Between(0, 10'000)),
       "all but next-token: questions that the base asks itself about each whole window (a shorter "
       "one has fewer), and answers "
       "with "
       "the window in its context; the adapter learns the answers without it"},
      {"outputs", Number(o.recipe.outputs, Between(0, 1000)),
       "all but next-token: texts that the base writes for each window, as often to go on and to "
       "sum "
       "it up"},
      {"output-tokens", Number(o.recipe.output_tokens, Between(4, 4096)),
       "of such a text, at most"},
      {"keep", Number(o.recipe.keep, Between(0, 10'000)),
       "all but next-token and encoder: short texts about nothing that the base writes, and that "
       "the adapter is to leave as likely as they are; one for eight of the document's at most"},
      {"keep-weight", Number(o.recipe.keep_weight, Between(0, 1000)),
       "what a token of these counts in the loss, where one of the document's counts 1"},
      {.name = "keep-text",
       .target = Texts(o.keep_texts),
       .help =
           "a file of such texts, cut to their length, in place of what the base writes; may be "
           "repeated",
       .default_help = "the base writes them"},
      {"prompts", OneOf(o.recipe.prompts, kTeacherPromptsWords),
       "how the base is told what to write, and how it and --ask ask: plain text to go on with, or "
       "its chat template's messages; auto: these where it has a template"},
      {.name = "hidden-states",
       .target = Removed("none", kHiddenStatesRemoved),
       .is_removed = true}};
}

std::vector<Option> EncoderRows(LearnOptions& o) {
  return {
      {"encoder", Text(o.encoder),
       "encoder: its folder; where it has one, documents are made by that, and nothing is learned"},
      {"embedder", OneOf(o.embedder, kEmbedderWords),
       "encoder: in place of LoRA and virtual tokens of its own the base's embeddings of equal "
       "pieces of each window, one a virtual token, by their last state or their mean, and a "
       "linear map that learns"},
      {"reconstruction-only", Switch(o.reconstruction_only),
       "encoder: its first stage alone, to say documents from their memories"},
      {"reconstruction-passes", Number(o.reconstruction_passes, Between(0, 100'000)),
       "encoder: of its first stage, over all windows; 0: as many as --passes"},
      {"window-answer-passes", Number(o.window_answer_passes, Between(0, 100'000)),
       "encoder: between its stages, over the answers behind the memory of their own window "
       "alone"}};
}

// How they learn it. Learners differ by a factor of fifty in these.
std::vector<Option> RateRows(LearnOptions& o) {
  const auto own = [](const std::function<double(const Learner&)>& value) {
    return "; 0: the learner's own: " + OwnOfLearners(value);
  };
  return {
      {"rank", Number(o.recipe.rank, Between(0, kLoraRankMax)),
       "of LoRA on all modules" + own([](const Learner& l) { return l.parts().rank; })},
      {"virtual-tokens", Number(o.recipe.virtual_tokens, Between(0, kVirtualTokensMax)),
       "how many, as many as the document has at most; of encoder for each window" +
           own([](const Learner& l) { return l.parts().virtual_tokens; })},
      {"alpha", Number(o.recipe.alpha, AtLeast(0)), "its products count alpha / rank; 0: the rank"},
      {"learning-rate", Number(o.recipe.learning_rate, Between(0, 1)),
       "of LoRA" + own([](const Learner& l) { return l.rates().learning_rate; })},
      {"prompt-learning-rate", Number(o.recipe.prompt_learning_rate, Between(0, 10)),
       "of virtual tokens" + own([](const Learner& l) {
         return l.parts().virtual_tokens > 0 ? l.rates().prompt_learning_rate : 0.0;
       })},
      {"passes", Number(o.recipe.passes, Between(0, 100'000)),
       "over all examples" + own([](const Learner& l) { return l.rates().passes; })},
      {"batch", Number(o.recipe.batch, Between(0, kTrainingSequencesMax)),
       "examples of an adapter's step" + own([](const Learner& l) { return l.rates().batch; })},
      {"window-tokens", Number(o.recipe.window_tokens, Between(16, 1 << 20)),
       "of the document in one example, at most"},
      {"held-out", Number(o.recipe.held_out_share, Between(0, 0.5)),
       "share of the examples that are not learned but looked at"},
      {"seed", Number(o.recipe.seed), "the same seed learns the same bits"},
      {"together", Number(o.together, Between(1, 256)),
       "documents whose adapters learn in the same steps"},
      {"kept-gib", Number(o.kept_gib),
       "GiB of activations, then of transposed weights, that are kept for the backward; what "
       "is not is computed again, to the same bits; below 0: half of what is left, on a GPU 7/8"},
      {"checkpoint-seconds", Number(o.checkpoint_seconds, Between(0, 1 << 20)),
       "how often the state is written, from which a command that was killed goes on; 0: at every "
       "step"},
      {"quiet", Switch(o.quiet), "no progress bars"},
      LogLevelOptionRow(o.runtime.log_level)};
}

}  // namespace

std::vector<Option> LearnTrainingRows(LearnOptions& o) {
  std::vector<Option> rows = LearnerRows(o);
  for (Option& row : EncoderRows(o)) rows.push_back(std::move(row));
  for (Option& row : RateRows(o)) rows.push_back(std::move(row));
  return rows;
}

}  // namespace graft
