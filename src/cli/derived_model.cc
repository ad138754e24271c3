#include "cli/derived_model.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <string_view>

#include "base/fault.h"
#include "base/file.h"
#include "base/new_file.h"
#include "runtime/memory_sum.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

constexpr char kPart[] = ".part";
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

Status CheckRoom(const fs::path& folder, int64_t bytes) {
  std::error_code error;
  const fs::space_info room = fs::space(folder, error);
  if (error) return SystemError(error.value(), "cannot write in " + folder.string());
  const int64_t needed = bytes + kSpareBytes;
  if (room.available >= static_cast<uintmax_t>(needed)) return OkStatus();
  const int64_t lacking = needed - static_cast<int64_t>(room.available);
  return ResourceExhaustedError("the new model takes " + BytesText(needed) + ", " +
                                BytesText(lacking) + " more than the disk of " + folder.string() +
                                " has left: name a folder on another one with --out");
}

}  // namespace

mode_t ModeOf(const std::string& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0) return S_IRWXU;
  return (found.st_mode & (S_IRWXU | S_IRWXG | S_IRWXO)) |
         (S_ISDIR(found.st_mode) ? S_IRWXU : S_IRUSR | S_IWUSR);
}

Result<NewFolder> NewFolder::Make(const std::string& path, int64_t bytes, mode_t mode,
                                  const std::string& what) {
  std::error_code error;
  fs::path out = fs::absolute(path, error);
  if (!error) out = fs::weakly_canonical(out, error);
  if (error) return SystemError(error.value(), "cannot write " + path);
  if (!out.has_filename()) out = out.parent_path();  // it ended with a slash
  NewFolder folder(out, fs::exists(fs::symlink_status(out, error)));
  if (folder.is_there_) RETURN_IF_ERROR(folder.CheckEmpty(what));
  RETURN_IF_ERROR(CheckRoom(folder.part_.parent_path(), bytes));
  if (mkdir(folder.part_.c_str(), mode) != 0) {
    if (errno != EEXIST) return SystemError(errno, "cannot make " + folder.part());
    return FailedPreconditionError(folder.part() + " is there: another " + what +
                                   " writes it, or one was interrupted; "
                                   "remove it if none runs");
  }
  folder.is_mine_ = true;
  return folder;
}

NewFolder::NewFolder(const fs::path& path, bool is_there)
    : path_(path),
      part_(is_there ? path / kPart : fs::path(path.string() + kPart)),
      is_there_(is_there) {}

NewFolder::NewFolder(NewFolder&& other) noexcept
    : path_(std::move(other.path_)),
      part_(std::move(other.part_)),
      is_there_(other.is_there_),
      is_mine_(std::exchange(other.is_mine_, false)) {}

NewFolder::~NewFolder() {
  std::error_code error;
  if (is_mine_) fs::remove_all(part_, error);
}

Status NewFolder::Finish() {
  RETURN_IF_ERROR(SyncFolder(part()));
  if (is_there_) {
    RETURN_IF_ERROR(MoveUp());
  } else if (rename(part_.c_str(), path_.c_str()) != 0) {
    return SystemError(errno, "cannot rename " + part());
  }
  is_mine_ = false;
  return SyncFolder(is_there_ ? path() : path_.parent_path().string());
}

Status NewFolder::CheckEmpty(const std::string& what) const {
  const Result<std::vector<std::string>> names = NamesIn(path_);
  const bool is_empty = names.ok() && std::ranges::all_of(*names, [](const std::string& name) {
                          return name == kPart || name == "lost+found";  // of a file system
                        });
  if (is_empty) return OkStatus();
  const bool is_rest = names.ok() && std::ranges::find(*names, kPart) != names->end();
  return FailedPreconditionError(
      "--out " + path() +
      (is_rest ? " holds a " + what + " that was interrupted: empty it if no other writes it"
               : " is there already: name a folder that is not, or is empty"));
}

// All files, or none.
Status NewFolder::MoveUp() const {
  RETURN_IF_ERROR(CheckEmpty("folder"));
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

// Calls with each name in the base's folder or a folder in it, but for hidden ones.
template <typename Function>
Status TakenFiles::ForEachFile(const std::string& below, const Function& function) const {
  const fs::path folder = fs::path(model_) / below;
  std::error_code unknown;
  if (!fs::is_directory(folder, unknown)) return OkStatus();
  ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(folder));
  for (const std::string& name : names) {
    if (name.starts_with('.')) continue;
    function((fs::path(below) / name).string(), fs::is_regular_file(folder / name, unknown));
  }
  return OkStatus();
}

Result<TakenFiles> TakenFiles::Find(const std::string& model, const SafetensorsSet& base,
                                    ChangedTexts texts) {
  TakenFiles found(model);
  found.texts_ = std::move(texts);
  std::set<std::string> shards;
  for (const SafetensorsFile& file : base.files()) {
    shards.insert(fs::path(file.label()).filename().string());
    found.weight_bytes_ += file.file_bytes();
  }
  // One file of weights needs no index; the shards that one names are not copied then.
  const std::string index = shards.contains("model.safetensors")
                                ? std::string()
                                : std::string("model.safetensors.index.json");
  RETURN_IF_ERROR(found.ForEachFile("", [&](const std::string& name, bool is_file) {
    if (shards.contains(name) || name == kTemplates) return;
    const bool is_weights = name != index && IsWeights(name);
    (is_file && !is_weights ? found.files_ : found.left_out_).push_back(name);
  }));
  RETURN_IF_ERROR(found.ForEachFile(kTemplates, [&](const std::string& name, bool is_file) {
    (is_file ? found.files_ : found.left_out_).push_back(name);
  }));
  RETURN_IF_ERROR(found.Count());
  return found;
}

Status TakenFiles::Count() {
  std::erase_if(files_, [this](const std::string& name) { return texts_.contains(name); });
  for (const std::string& name : files_) {
    const std::string path = model_ + "/" + name;
    if (access(path.c_str(), R_OK) != 0) return SystemError(errno, "cannot read " + path);
    ASSIGN_OR_RETURN(const FileStamp stamp, StampFile(path));
    bytes_ += stamp.bytes;
  }
  for (const auto& [name, text] : texts_) {
    bytes_ += static_cast<int64_t>(text.value_or("").size());
  }
  return OkStatus();
}

Status TakenFiles::Write(const std::string& to) const {
  for (const std::string& name : files_) {
    RETURN_IF_ERROR(MakeFolderOf(to + "/" + name));
    const std::string from = model_ + "/" + name;
    RETURN_IF_ERROR(CopyWholeFile(from, to + "/" + name, ModeOf(from)));
  }
  for (const auto& [name, text] : texts_) {
    if (!text.has_value()) continue;
    RETURN_IF_ERROR(MakeFolderOf(to + "/" + name));
    const std::string from = model_ + "/" + name;
    RETURN_IF_ERROR(WriteWholeFile(to + "/" + name, *text,
                                   ModeOf(FileExists(from) ? from : model_ + "/config.json")));
  }
  return OkStatus();
}

Status TakenFiles::MakeFolderOf(const std::string& file) const {
  const std::string folder = fs::path(file).parent_path().string();
  if (mkdir(folder.c_str(), ModeOf(model_)) == 0 || errno == EEXIST) return OkStatus();
  return SystemError(errno, "cannot make " + folder);
}

}  // namespace graft
