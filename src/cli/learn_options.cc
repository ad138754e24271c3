#include "cli/learn_options.h"

#include <type_traits>
#include <utility>

#include "tuning/recipe.h"

namespace graft {

LearnOptions::LearnOptions() {
  runtime.log.level = "warn";
  runtime.device = {.kind = DeviceChoice::Kind::kCpu};
  runtime.limits.sequences_max = 0;  // by the device
  runtime.limits.adapters_max = 16;
  runtime.read_at_start_gib = 0.0;  // what is asked for is read when it is
}

std::vector<Option> LearnDocumentRows(LearnOptions& o) {
  return {{.name = "files",
           .target = Texts(o.files),
           .help = "documents: text, Markdown, HTML, or PDF by pdftotext",
           .is_positional = true},
          {"name", Texts(o.names),
           "an adapter's name, by which requests ask for it; repeated for the next file",
           "the file's, without its ending"},
          {"adapters", Text(o.adapters),
           "folder that the adapters' folders are made in: what graft serve reads"},
          {"replace", Switch(o.replace), "an adapter of that name is learned anew"},
          {"texts", Text(o.texts),
           "all but next-token: folder that keeps what the base writes; whoever learns the same "
           "document again, by another learner or rank, finds it there",
           "it is not kept"},
          {"sequences-max", Number(o.runtime.limits.sequences_max, Between(0, 2048)),
           "texts that the base writes, or answers, at once; 0: 1024 on a GPU, 16 on the CPU"},
          {"ask", Texts(o.questions),
           "afterwards, print how the base and the adapters answer this, by --prompts; may be "
           "repeated"},
          {"answer-tokens", Number(o.answer_tokens, AtLeast(1)), "of such an answer, at most"}};
}

namespace {

OptionTarget TargetOf(const MethodRow& row, int32_t& value) {
  return Number(value, Between(row.min, row.max));
}
OptionTarget TargetOf(const MethodRow& row, double& value) {
  return Number(value, Between(row.min, row.max));
}
OptionTarget TargetOf(const MethodRow& row, std::string& value) {
  return ChosenWord({row.words.begin(), row.words.end()}, value,
                    [&row, &value](size_t i) { value = row.words[i]; });
}
OptionTarget TargetOf(const MethodRow&, std::vector<std::string>& value) { return Texts(value); }

// Ends a flag's help with what its default of 0 means: "; 0: the learner's own", and their numbers.
std::string OwnText(const MethodRow& row) {
  const std::string numbers = OwnOfLearners(row);
  return std::string("; 0: ") + row.own + (numbers.empty() ? "" : ": " + numbers);
}

std::vector<Option> MethodOptions(DocumentMethod& method) {
  std::vector<Option> rows;
  VisitMethod(method, [&rows](const MethodRow& row, auto& value) {
    if (*row.flag == '\0') return;
    Option option = {.name = row.flag, .target = TargetOf(row, value), .help = row.help};
    const bool is_own = *row.own != '\0';
    if constexpr (std::is_arithmetic_v<std::remove_reference_t<decltype(value)>>) {
      if (is_own) option.help += OwnText(row);
    } else if constexpr (std::is_same_v<std::remove_reference_t<decltype(value)>, std::string>) {
      if (is_own) option.default_help = "distill; with --encoder encoder";
    } else {
      option.help += "; may be repeated";
      option.default_help = row.own;
    }
    rows.push_back(std::move(option));
  });
  rows.push_back({.name = "hidden-states",
                  .target = Removed("none", kHiddenStatesRemoved),
                  .is_removed = true});
  return rows;
}

// What an encoder is, and how it is taught.
std::vector<Option> EncoderRows(LearnOptions& o) {
  CorpusSettings& s = o.encoder.settings;
  return {
      {"encoder", Text(o.encoder.folder),
       "the folder of an encoder: documents become adapters by it, or with --learner distill begin "
       "so and learn further; with --corpus it is taught",
       "none"},
      {"corpus", Text(o.encoder.corpus),
       "encoder: documents with questions that it is taught by: lines of JSON in a file, in a "
       "folder's files *.jsonl, or - for the standard input (tools/reading/corpus.py writes them)",
       "none: it is there"},
      {"compressions", Numbers(o.encoder.compressions, Between(1, 1024)),
       "encoder: tokens of a document for each of its memory's: what it is taught in the end, with "
       "commas between several"},
      {"run-seconds", Number(o.encoder.run_seconds, Between(0, 1 << 30)),
       "encoder: this process ends after so many, and the next one goes on; 0: after all steps"},
      {"look-seconds", Number(o.encoder.look_seconds, Between(0, 1 << 20)),
       "encoder: how often it is asked about documents that are held out"},
      {"held-out-documents", Number(s.held_out, Between(1, 100'000)),
       "encoder: the corpus' first documents, which it never learns"},
      {"memory", OneOf(s.form.carrier, kCarrierWords),
       "encoder: what a memory is: keys and values of every layer, or final states as embeddings"},
      {"memory-rows", OneOf(s.form.rows, kMemoryRowsWords),
       "encoder: of which rows: of the last token of each piece of the document, of a virtual "
       "token "
       "behind each piece, or of --virtual-tokens behind each window"},
      {"memory-places", OneOf(s.form.places, kPlacesWords),
       "encoder: where a memory's keys stand: as far from a question as what was read, or close"},
      {"read-tokens", Number(s.form.window_tokens, Between(1, 1 << 20)),
       "encoder: tokens of a document that it reads at once"},
      {"decoder-rank", Number(s.decoder_rank, Between(0, 256)),
       "encoder: of the decoder's LoRA; 0: as --rank"},
      {"document-tokens", Number(s.document_tokens, Between(2, 1 << 20)),
       "encoder: of a document in training, at most"},
      {"document-questions", Number(s.questions, Between(1, 2000)),
       "encoder: of a document in a step, at most"},
      {"questions-together", Number(s.questions_together, Between(1, 2000)),
       "encoder: questions that follow each other behind one memory, at most"},
      {"pieces", Number(s.pieces, Between(0, 1000)),
       "encoder: pieces of a document and of what follows it that are said in a step"},
      {"piece-weight", Number(s.piece_weight, Between(0, 100)),
       "encoder: what their tokens count beside those of answers"},
      {"corpus-share", Number(s.corpus_share, Between(0, 1)),
       "encoder: of the corpus' own answers in what is taught, beside the base's probabilities"},
      {"readers", Number(o.encoder.readers, Between(1, 256)),
       "encoder: threads that tokenize the corpus"}};
}

// How a command learns, which is no document's business.
std::vector<Option> RunRows(LearnOptions& o) {
  return {
      {"seed", Number(o.seed), "the same seed learns the same bits"},
      {"together", Number(o.together, Between(1, 256)),
       "documents whose adapters learn in the same steps"},
      {"kept-gib", Number(o.kept_gib),
       "GiB of activations, then of transposed weights, that are kept for the backward; what "
       "is not is computed again, to the same bits; below 0: half of what is left, on a GPU 7/8"},
      {"checkpoint-seconds", Number(o.checkpoint_seconds, Between(0, 1 << 20)),
       "how often the state is written, from which a command that was killed goes on; 0: at every "
       "batch"},
      {"quiet", Switch(o.quiet), "no progress bars"},
      LogLevelOptionRow(o.runtime.log.level)};
}

}  // namespace

std::vector<Option> LearnTrainingRows(LearnOptions& o) {
  std::vector<Option> rows = MethodOptions(o.method);
  for (Option& row : EncoderRows(o)) rows.push_back(std::move(row));
  for (Option& row : RunRows(o)) rows.push_back(std::move(row));
  return rows;
}

}  // namespace graft
