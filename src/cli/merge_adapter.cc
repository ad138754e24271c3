#include "cli/merge_adapter.h"

#include <signal.h>

#include <cstdio>
#include <filesystem>
#include <utility>
#include <vector>

#include "adapters/base_copies.h"
#include "adapters/merged_file.h"
#include "adapters/peft_folder.h"
#include "base/log_format.h"
#include "base/new_file.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "cli/derived_model.h"
#include "cli/merged_texts.h"
#include "runtime/memory_sum.h"
#include "runtime/progress.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

class CheckpointMerge {
 public:
  CheckpointMerge(const MergeOrder& order, const ModelConfig& config)
      : order_(order), config_(config) {}

  Status Run() {
    ASSIGN_OR_RETURN(const SafetensorsSet base, SafetensorsSet::Open(order_.model));
    ASSIGN_OR_RETURN(PeftFolder folder, ReadLora());
    Result<PeftConfig> peft = ParsePeftConfig(folder.config);
    if (!peft.ok()) return peft.status().WithContext(folder.path);
    ASSIGN_OR_RETURN(const SafetensorsFile lora,
                     SafetensorsFile::FromBytes(std::move(folder.weights), folder.label));
    peft->base_copies = BaseCopiesIn(lora, config_);
    const Status copies = CheckBaseCopies(lora, peft->base_copies, config_, order_.model);
    if (!copies.ok()) return copies.WithContext(folder.label);
    ASSIGN_OR_RETURN(const AddedToWeights added, MatchAddedWeights(lora, *peft, config_, base));
    if (order_.text != nullptr) {
      ASSIGN_OR_RETURN(texts_, MergeTexts(order_.model, config_, *order_.text));
    }
    ASSIGN_OR_RETURN(const TakenFiles files, TakenFiles::Find(order_.model, base, texts_));
    ASSIGN_OR_RETURN(NewFolder out,
                     NewFolder::Make(order_.out, files.weight_bytes() + files.bytes(),
                                     ModeOf(order_.model), "merge"));
    RETURN_IF_ERROR(WriteWeights(base, added, out.part()));
    RETURN_IF_ERROR(files.Write(out.part()));
    RETURN_IF_ERROR(out.Finish());
    Tell(base, added, files, out.path());
    return OkStatus();
  }

 private:
  // The adapter's folder of LoRA. Its content is the one that was looked at.
  Result<PeftFolder> ReadLora() const {
    const TextFileUse use = order_.takes_texts ? TextFileUse::kContent : TextFileUse::kNone;
    ASSIGN_OR_RETURN(PeftContent content,
                     ReadAdapter(order_.path, AdapterWeightsBytesMax(config_), order_.jail, use));
    if (ContentHash(content) != order_.hash) {
      return FailedPreconditionError(order_.path + " has changed meanwhile; try again");
    }
    return std::move(content.folders.front());
  }

  Status WriteWeights(const SafetensorsSet& base, const AddedToWeights& added,
                      const std::string& to) const {
    ThreadPool threads(NumCpus());
    ProgressBar bar("merging " + order_.name, /*quiet=*/false);
    int64_t done = 0, total = 0;
    for (const SafetensorsFile& file : base.files()) {
      for (const auto& [name, entry] : file.entries()) total += entry.end - entry.begin;
    }
    for (const SafetensorsFile& file : base.files()) {
      const std::string name = fs::path(file.label()).filename().string();
      NewFile out(to + "/" + name, ModeOf(file.label()));
      RETURN_IF_ERROR(WriteMergedFile(base, file, added, out, threads,
                                      [&](const std::string& tensor, int64_t bytes) {
                                        done += bytes;
                                        bar.Update(done, total, EscapeForLog(tensor));
                                      }));
    }
    return OkStatus();
  }

  void Tell(const SafetensorsSet& base, const AddedToWeights& added, const TakenFiles& files,
            const std::string& out) const {
    const auto line = [](const std::string& text) {
      std::printf("%s\n", EscapeForLog(text).c_str());
    };
    line("merged " + order_.name + " into " + order_.model + ": " + std::to_string(added.size()) +
         " of " + std::to_string(base.Names().size()) + " tensors changed, " +
         BytesText(files.weight_bytes()) + " in " + std::to_string(base.files().size()) + " files");
    const std::string told = order_.text == nullptr ? "" : TellTexts(*order_.text, texts_);
    line("texts: " + (told.empty() ? "the base's"
                                   : "the base's, but the adapter's where it says "
                                     "otherwise: " +
                                         told));
    if (!files.left_out().empty()) {
      line("not copied, as they may hold the base's weights: " + Joined(files.left_out(), ", "));
    }
    line(out + " is a model by itself: graft serve --model " + out);
  }

  const MergeOrder& order_;
  const ModelConfig& config_;
  MergedTexts texts_;
};

}  // namespace

Status MergeAdapter(const MergeOrder& order, const ModelConfig& config) {
  if (config.quantisation.has_value()) {
    return UnimplementedError(order.model + " is " + config.quantisation->text +
                              ", and adapters are merged into plain numbers: give the model in 16 "
                              "bits that it was made of as --model");
  }
  signal(SIGXFSZ, SIG_IGN);  // a file that becomes too large fails, and what was written goes
  return CheckpointMerge(order, config).Run();
}

}  // namespace graft
