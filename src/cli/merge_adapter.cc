#include "cli/merge_adapter.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fault.h"
#include "base/log_format.h"
#include "base/thread_pool.h"
#include "cli/merged_texts.h"
#include "model/adapter_folder.h"
#include "model/merged_file.h"
#include "model/safetensors_writer.h"
#include "runtime/progress.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

constexpr char kTemplates[] = "additional_chat_templates";
// Weights in other files and other formats are the base's, and in none of them the merged ones.
constexpr std::array<std::string_view, 11> kWeightsEndings = {
    ".safetensors", ".safetensors.index.json",
    ".bin",         ".bin.index.json",
    ".pt",          ".pth",
    ".ckpt",        ".h5",
    ".gguf",        ".msgpack",
    ".onnx"};
constexpr int64_t kSpareBytes = int64_t{1} << 20;  // what folders and rounded-up blocks take

bool HasEnding(const std::string& name, std::span<const std::string_view> endings) {
  return std::ranges::any_of(endings, [&](std::string_view one) { return name.ends_with(one); });
}

std::string Mebibytes(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

Status SyncFolder(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = descriptor >= 0 && fsync(descriptor) == 0;
  const int error = errno;
  if (descriptor >= 0) close(descriptor);
  return synced ? OkStatus() : SystemError(error, "cannot write " + path);
}

// A folder beside `path` that takes its place once it is whole. What is not finished is removed.
class NewFolder {
 public:
  static Result<NewFolder> Make(const std::string& path, int64_t bytes) {
    std::error_code error;
    fs::path out = fs::weakly_canonical(fs::absolute(path), error);
    if (!out.has_filename()) out = out.parent_path();  // it ended with a slash
    if (error) return SystemError(error.value(), "cannot write " + path);
    RETURN_IF_ERROR(CheckFree(out));
    RETURN_IF_ERROR(CheckRoom(out, bytes));
    NewFolder folder(out.string());
    if (mkdir(folder.part().c_str(), 0755) != 0) {
      if (errno != EEXIST) return SystemError(errno, "cannot make " + folder.part());
      return FailedPreconditionError(folder.part() +
                                     " is there: another merge writes it, or one was interrupted; "
                                     "remove it if none runs");
    }
    folder.is_mine_ = true;
    return folder;
  }
  NewFolder(NewFolder&& other) noexcept
      : path_(std::move(other.path_)), is_mine_(std::exchange(other.is_mine_, false)) {}
  ~NewFolder() {
    std::error_code error;
    if (is_mine_) fs::remove_all(part(), error);
  }

  const std::string& path() const { return path_; }
  // Where it is written.
  std::string part() const { return path_ + ".part"; }

  Status Finish() {
    RETURN_IF_ERROR(SyncFolder(part()));
    if (rename(part().c_str(), path_.c_str()) != 0) {
      return SystemError(errno, "cannot rename " + part());
    }
    is_mine_ = false;
    return SyncFolder(fs::path(path_).parent_path().string());
  }

 private:
  explicit NewFolder(std::string path) : path_(std::move(path)) {}

  static Status CheckFree(const fs::path& out) {
    std::error_code error;
    if (!fs::exists(out, error)) return OkStatus();
    if (fs::is_directory(out, error) && fs::is_empty(out, error)) return OkStatus();
    return FailedPreconditionError("--out " + out.string() +
                                   " is there already: name a folder that is not, or is empty");
  }

  static Status CheckRoom(const fs::path& out, int64_t bytes) {
    std::error_code error;
    const fs::space_info room = fs::space(out.parent_path(), error);
    if (error) return SystemError(error.value(), "cannot write in " + out.parent_path().string());
    const int64_t needed = bytes + kSpareBytes;
    if (room.available >= static_cast<uintmax_t>(needed)) return OkStatus();
    return ResourceExhaustedError("the merged model takes " + Mebibytes(needed) + ", the disk of " +
                                  out.string() + " has " +
                                  Mebibytes(static_cast<int64_t>(room.available)) +
                                  " left: name a folder on another one with --out");
  }

  std::string path_;
  bool is_mine_ = false;  // to remove
};

class CheckpointMerge {
 public:
  CheckpointMerge(const MergeOrder& order, const ModelConfig& config)
      : order_(order), config_(config) {}

  Status Run() {
    ASSIGN_OR_RETURN(const SafetensorsSet base, SafetensorsSet::Open(order_.model));
    ASSIGN_OR_RETURN(AdapterFolder folder, ReadLora());
    const Result<PeftConfig> peft = ParsePeftConfig(folder.config);
    if (!peft.ok()) return peft.status().WithContext(folder.path);
    ASSIGN_OR_RETURN(const SafetensorsFile lora,
                     SafetensorsFile::FromBytes(std::move(folder.weights),
                                                folder.path + "/adapter_model.safetensors"));
    ASSIGN_OR_RETURN(const AddedToWeights added, MatchAddedWeights(lora, *peft, config_, base));
    if (order_.text != nullptr) {
      ASSIGN_OR_RETURN(texts_, MergeTexts(order_.model, config_, *order_.text));
    }
    RETURN_IF_ERROR(FindFiles(base));
    ASSIGN_OR_RETURN(NewFolder out, NewFolder::Make(order_.out, weight_bytes_ + file_bytes_));
    RETURN_IF_ERROR(WriteWeights(base, added, out.part()));
    RETURN_IF_ERROR(WriteFiles(out.part()));
    RETURN_IF_ERROR(out.Finish());
    Tell(base, added, out.path());
    return OkStatus();
  }

 private:
  // The adapter's folder of LoRA. Its content is the one that was looked at.
  Result<AdapterFolder> ReadLora() const {
    const TextFileUse use = order_.takes_texts ? TextFileUse::kContent : TextFileUse::kNone;
    ASSIGN_OR_RETURN(AdapterContent content,
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
      weight_bytes_ += static_cast<int64_t>(file.header().size());
      for (const auto& [name, entry] : file.entries()) weight_bytes_ += entry.end - entry.begin;
    }
    // One file of weights needs no index; the shards that one names are not copied then.
    const std::string index = shards.contains("model.safetensors")
                                  ? std::string()
                                  : std::string("model.safetensors.index.json");
    RETURN_IF_ERROR(ForEachFile("", [&](const std::string& name, bool is_file) {
      if (shards.contains(name) || name == kTemplates) return;
      const bool is_weights = name != index && HasEnding(name, kWeightsEndings);
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
    std::error_code error;
    if (!fs::is_directory(folder, error)) return OkStatus();
    for (fs::directory_iterator it(folder, error); !error && it != fs::directory_iterator();
         it.increment(error)) {
      const std::string name = it->path().filename().string();
      std::error_code unknown;
      if (name.starts_with('.')) continue;
      function((fs::path(below) / name).string(), it->is_regular_file(unknown));
    }
    return error ? SystemError(error.value(), "cannot list " + folder.string()) : OkStatus();
  }

  Status CountFiles() {
    std::erase_if(files_, [this](const std::string& name) { return texts_.contains(name); });
    std::ranges::sort(files_);
    std::ranges::sort(left_out_);
    for (const std::string& name : files_) {
      ASSIGN_OR_RETURN(const FileStamp stamp, StampFile(order_.model + "/" + name));
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
      RETURN_IF_ERROR(WriteMergedFile(file, added, to + "/" + name, threads,
                                      [&](const std::string& tensor, int64_t bytes) {
                                        done += bytes;
                                        bar.Update(done, total, EscapeForLog(tensor));
                                      }));
    }
    return OkStatus();
  }

  Status WriteFiles(const std::string& to) const {
    for (const std::string& name : files_) {
      ASSIGN_OR_RETURN(const std::string bytes, ReadFile(order_.model + "/" + name));
      RETURN_IF_ERROR(WriteFile(to, name, bytes));
    }
    for (const auto& [name, text] : texts_) {
      if (text.has_value()) RETURN_IF_ERROR(WriteFile(to, name, *text));
    }
    return OkStatus();
  }

  static Status WriteFile(const std::string& to, const std::string& name,
                          const std::string& bytes) {
    const fs::path path = fs::path(to) / name;
    std::error_code error;
    fs::create_directory(path.parent_path(), error);
    if (error) return SystemError(error.value(), "cannot make " + path.parent_path().string());
    return WriteWholeFile(path.string(), bytes);
  }

  void Tell(const SafetensorsSet& base, const AddedToWeights& added, const std::string& out) const {
    const auto line = [](const std::string& text) {
      std::printf("%s\n", EscapeForLog(text).c_str());
    };
    line("merged " + order_.name + " into " + order_.model + ": " + std::to_string(added.size()) +
         " of " + std::to_string(base.Names().size()) + " tensors changed, " +
         Mebibytes(weight_bytes_) + " in " + std::to_string(base.files().size()) + " files");
    const std::string told = order_.text == nullptr ? "" : TellTexts(*order_.text);
    line("texts: " + (told.empty() ? "the base's"
                                   : "the base's, but the adapter's where it says "
                                     "otherwise: " +
                                         told));
    if (!left_out_.empty()) {
      std::string names;
      for (const std::string& name : left_out_) names += (names.empty() ? "" : ", ") + name;
      line("not copied, as they may hold the base's weights: " + names);
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
  return CheckpointMerge(order, config).Run();
}

}  // namespace graft
