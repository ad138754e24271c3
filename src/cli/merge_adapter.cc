#include "cli/merge_adapter.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "adapters/base_copies.h"
#include "adapters/merged_file.h"
#include "adapters/peft_folder.h"
#include "base/fault.h"
#include "base/log_format.h"
#include "base/new_file.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "cli/merged_texts.h"
#include "runtime/memory_sum.h"
#include "runtime/progress.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

constexpr char kTemplates[] = "additional_chat_templates";
// Weights in other files and other formats are the base's, and in none of them the merged ones.
constexpr std::string_view kWeightsEndings[] = {".safetensors", ".safetensors.index.json",
                                                ".bin",         ".bin.index.json",
                                                ".pt",          ".pth",
                                                ".ckpt",        ".h5",
                                                ".gguf",        ".ggml",
                                                ".msgpack",     ".onnx",
                                                ".onnx_data",   ".onnx.data",
                                                ".ot",          ".nemo",
                                                ".npz",         ".pdparams",
                                                ".pdiparams",   ".pdmodel",
                                                ".tflite",      ".keras",
                                                ".mlmodel",     ".engine",
                                                ".llamafile"};
constexpr int64_t kSpareBytes = int64_t{1} << 20;  // what folders and rounded-up blocks take

bool IsWeights(const std::string& name) {
  return std::ranges::any_of(kWeightsEndings,
                             [&](std::string_view one) { return name.ends_with(one); });
}

Status SyncFolder(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = descriptor >= 0 && fsync(descriptor) == 0;
  const int error = errno;
  if (descriptor >= 0) close(descriptor);
  return synced ? OkStatus() : SystemError(error, "cannot write " + path);
}

// The names in a folder, sorted.
Result<std::vector<std::string>> NamesIn(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  if (error) return SystemError(error.value(), "cannot list " + folder.string());
  std::ranges::sort(names);
  return names;
}

// A folder's or a file's rights, with which its owner can write it.
mode_t ModeOf(const std::string& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0) return S_IRWXU;
  return (found.st_mode & (S_IRWXU | S_IRWXG | S_IRWXO)) |
         (S_ISDIR(found.st_mode) ? S_IRWXU : S_IRUSR | S_IWUSR);
}

// A folder that is written beside `path` and takes its place once it is whole. An empty one that is
// there may be a volume or a working folder, and stays: what is written inside it moves up at the
// end. What is not finished is removed.
class NewFolder {
 public:
  static Result<NewFolder> Make(const std::string& path, int64_t bytes, mode_t mode) {
    std::error_code error;
    fs::path out = fs::absolute(path, error);
    if (!error) out = fs::weakly_canonical(out, error);
    if (error) return SystemError(error.value(), "cannot write " + path);
    if (!out.has_filename()) out = out.parent_path();  // it ended with a slash
    NewFolder folder(out, fs::exists(fs::symlink_status(out, error)));
    if (folder.is_there_) RETURN_IF_ERROR(folder.CheckEmpty());
    RETURN_IF_ERROR(CheckRoom(folder.part_.parent_path(), bytes));
    if (mkdir(folder.part_.c_str(), mode) != 0) {
      if (errno != EEXIST) return SystemError(errno, "cannot make " + folder.part());
      return FailedPreconditionError(folder.part() +
                                     " is there: another merge writes it, or one was interrupted; "
                                     "remove it if none runs");
    }
    folder.is_mine_ = true;
    return folder;
  }
  NewFolder(NewFolder&& other) noexcept
      : path_(std::move(other.path_)),
        part_(std::move(other.part_)),
        is_there_(other.is_there_),
        is_mine_(std::exchange(other.is_mine_, false)) {}
  ~NewFolder() {
    std::error_code error;
    if (is_mine_) fs::remove_all(part_, error);
  }

  std::string path() const { return path_.string(); }
  // Where it is written.
  std::string part() const { return part_.string(); }

  Status Finish() {
    RETURN_IF_ERROR(SyncFolder(part()));
    if (is_there_) {
      RETURN_IF_ERROR(MoveUp());
    } else if (rename(part_.c_str(), path_.c_str()) != 0) {
      return SystemError(errno, "cannot rename " + part());
    }
    is_mine_ = false;
    return SyncFolder(is_there_ ? path() : path_.parent_path().string());
  }

 private:
  NewFolder(const fs::path& path, bool is_there)
      : path_(path),
        part_(is_there ? path / kPart : fs::path(path.string() + kPart)),
        is_there_(is_there) {}

  Status CheckEmpty() const {
    const Result<std::vector<std::string>> names = NamesIn(path_);
    const bool is_empty = names.ok() && std::ranges::all_of(*names, [](const std::string& name) {
                            return name == kPart || name == "lost+found";  // of a file system
                          });
    if (is_empty) return OkStatus();
    const bool is_rest = names.ok() && std::ranges::find(*names, kPart) != names->end();
    return FailedPreconditionError(
        "--out " + path() +
        (is_rest ? " holds a merge that was interrupted: empty it if no other merge writes it"
                 : " is there already: name a folder that is not, or is empty"));
  }

  static Status CheckRoom(const fs::path& folder, int64_t bytes) {
    std::error_code error;
    const fs::space_info room = fs::space(folder, error);
    if (error) return SystemError(error.value(), "cannot write in " + folder.string());
    const int64_t needed = bytes + kSpareBytes;
    if (room.available >= static_cast<uintmax_t>(needed)) return OkStatus();
    const int64_t lacking = needed - static_cast<int64_t>(room.available);
    return ResourceExhaustedError("the merged model takes " + BytesText(needed) + ", " +
                                  BytesText(lacking) + " more than the disk of " + folder.string() +
                                  " has left: name a folder on another one with --out");
  }

  // All files, or none.
  Status MoveUp() const {
    RETURN_IF_ERROR(CheckEmpty());
    ASSIGN_OR_RETURN(std::vector<std::string> names, NamesIn(part_));
    // The last one: without it the folder is no model yet.
    std::partition(names.begin(), names.end(),
                   [](const std::string& name) { return name != "config.json"; });
    std::error_code error;
    for (size_t i = 0; i < names.size() && !error; ++i) {
      fs::rename(part_ / names[i], path_ / names[i], error);
    }
    if (!error) fs::remove(part_, error);
    if (!error) return OkStatus();
    for (const std::string& name : names) {
      std::error_code unknown;
      fs::rename(path_ / name, part_ / name, unknown);
    }
    return SystemError(error.value(), "cannot move the files of " + part() + " up");
  }

  static constexpr char kPart[] = ".part";

  fs::path path_;
  fs::path part_;
  bool is_there_;
  bool is_mine_ = false;  // part_, to remove
};

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
    RETURN_IF_ERROR(FindFiles(base));
    ASSIGN_OR_RETURN(NewFolder out, NewFolder::Make(order_.out, weight_bytes_ + file_bytes_,
                                                    ModeOf(order_.model)));
    RETURN_IF_ERROR(WriteWeights(base, added, out.part()));
    RETURN_IF_ERROR(WriteFiles(out.part()));
    RETURN_IF_ERROR(out.Finish());
    Tell(base, added, out.path());
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

  // What the base's folder has: weights, and what is copied of it or left out.
  Status FindFiles(const SafetensorsSet& base) {
    std::set<std::string> shards;
    for (const SafetensorsFile& file : base.files()) {
      shards.insert(fs::path(file.label()).filename().string());
      weight_bytes_ += file.file_bytes();
    }
    // One file of weights needs no index; the shards that one names are not copied then.
    const std::string index = shards.contains("model.safetensors")
                                  ? std::string()
                                  : std::string("model.safetensors.index.json");
    RETURN_IF_ERROR(ForEachFile("", [&](const std::string& name, bool is_file) {
      if (shards.contains(name) || name == kTemplates) return;
      const bool is_weights = name != index && IsWeights(name);
      (is_file && !is_weights ? files_ : left_out_).push_back(name);
    }));
    RETURN_IF_ERROR(ForEachFile(kTemplates, [&](const std::string& name, bool is_file) {
      (is_file ? files_ : left_out_).push_back(name);
    }));
    return CountFiles();
  }

  // Calls with each name in the base's folder or a folder in it, but for hidden ones.
  template <typename Function>
  Status ForEachFile(const std::string& below, const Function& function) const {
    const fs::path folder = fs::path(order_.model) / below;
    std::error_code unknown;
    if (!fs::is_directory(folder, unknown)) return OkStatus();
    ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(folder));
    for (const std::string& name : names) {
      if (name.starts_with('.')) continue;
      function((fs::path(below) / name).string(), fs::is_regular_file(folder / name, unknown));
    }
    return OkStatus();
  }

  Status CountFiles() {
    std::erase_if(files_, [this](const std::string& name) { return texts_.contains(name); });
    for (const std::string& name : files_) {
      const std::string path = order_.model + "/" + name;
      if (access(path.c_str(), R_OK) != 0) return SystemError(errno, "cannot read " + path);
      ASSIGN_OR_RETURN(const FileStamp stamp, StampFile(path));
      file_bytes_ += stamp.bytes;
    }
    for (const auto& [name, text] : texts_) {
      file_bytes_ += static_cast<int64_t>(text.value_or("").size());
    }
    return OkStatus();
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

  Status WriteFiles(const std::string& to) const {
    for (const std::string& name : files_) {
      RETURN_IF_ERROR(MakeFolderOf(to + "/" + name));
      const std::string from = order_.model + "/" + name;
      RETURN_IF_ERROR(CopyWholeFile(from, to + "/" + name, ModeOf(from)));
    }
    for (const auto& [name, text] : texts_) {
      if (!text.has_value()) continue;
      RETURN_IF_ERROR(MakeFolderOf(to + "/" + name));
      const std::string from = order_.model + "/" + name;
      RETURN_IF_ERROR(WriteWholeFile(
          to + "/" + name, *text, ModeOf(FileExists(from) ? from : order_.model + "/config.json")));
    }
    return OkStatus();
  }

  Status MakeFolderOf(const std::string& file) const {
    const std::string folder = fs::path(file).parent_path().string();
    if (mkdir(folder.c_str(), ModeOf(order_.model)) == 0 || errno == EEXIST) return OkStatus();
    return SystemError(errno, "cannot make " + folder);
  }

  void Tell(const SafetensorsSet& base, const AddedToWeights& added, const std::string& out) const {
    const auto line = [](const std::string& text) {
      std::printf("%s\n", EscapeForLog(text).c_str());
    };
    line("merged " + order_.name + " into " + order_.model + ": " + std::to_string(added.size()) +
         " of " + std::to_string(base.Names().size()) + " tensors changed, " +
         BytesText(weight_bytes_) + " in " + std::to_string(base.files().size()) + " files");
    const std::string told = order_.text == nullptr ? "" : TellTexts(*order_.text, texts_);
    line("texts: " + (told.empty() ? "the base's"
                                   : "the base's, but the adapter's where it says "
                                     "otherwise: " +
                                         told));
    if (!left_out_.empty()) {
      line("not copied, as they may hold the base's weights: " + Joined(left_out_, ", "));
    }
    line(out + " is a model by itself: graft serve --model " + out);
  }

  const MergeOrder& order_;
  const ModelConfig& config_;
  MergedTexts texts_;
  std::vector<std::string> files_;     // that are copied
  std::vector<std::string> left_out_;  // that are not
  int64_t weight_bytes_ = 0;
  int64_t file_bytes_ = 0;
};

}  // namespace

Status MergeAdapter(const MergeOrder& order, const ModelConfig& config) {
  signal(SIGXFSZ, SIG_IGN);  // a file that becomes too large fails, and what was written goes
  return CheckpointMerge(order, config).Run();
}

}  // namespace graft
