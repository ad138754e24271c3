// What commands share that write a model folder made of another one: a folder that gets its name
// only when it is whole, and the files that are taken over from the base's. Main thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "model/safetensors.h"

namespace graft {

// The rights of a folder or a file, with which its owner can write it.
mode_t ModeOf(const std::string& path);

// A folder that is written beside `path` and takes its place once it is whole. An empty one that is
// there may be a volume or a working folder, and stays: what is written inside it moves up at the
// end. What is not finished is removed.
class NewFolder {
 public:
  // `what`: for errors, "merge". kFailedPrecondition: `path` is taken, or another one writes it.
  // kResourceExhausted: the disk has no room for `bytes`.
  static Result<NewFolder> Make(const std::string& path, int64_t bytes, mode_t mode,
                                const std::string& what);
  NewFolder(NewFolder&& other) noexcept;
  ~NewFolder();

  std::string path() const { return path_.string(); }
  // Where it is written.
  std::string part() const { return part_.string(); }

  Status Finish();

 private:
  NewFolder(const std::filesystem::path& path, bool is_there);
  Status CheckEmpty(const std::string& what) const;
  Status MoveUp() const;

  std::filesystem::path path_;
  std::filesystem::path part_;
  bool is_there_;
  bool is_mine_ = false;  // part_, to remove
};

// Texts in place of the base's files of these names; nothing: the new folder has no such file.
using ChangedTexts = std::map<std::string, std::optional<std::string>>;

// The files of a model's folder besides its weights.
class TakenFiles {
 public:
  // Weights in other files and other formats than `base` are the base's, and are left out.
  static Result<TakenFiles> Find(const std::string& model, const SafetensorsSet& base,
                                 ChangedTexts texts);

  const std::vector<std::string>& left_out() const { return left_out_; }
  int64_t weight_bytes() const { return weight_bytes_; }  // of the base's files
  int64_t bytes() const { return bytes_; }                // of what Write writes
  Status Write(const std::string& to) const;

 private:
  explicit TakenFiles(std::string model) : model_(std::move(model)) {}
  template <typename Function>
  Status ForEachFile(const std::string& below, const Function& function) const;
  Status Count();
  Status MakeFolderOf(const std::string& file) const;

  const std::string model_;
  ChangedTexts texts_;
  std::vector<std::string> files_;     // that are copied
  std::vector<std::string> left_out_;  // that are not
  int64_t weight_bytes_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace graft
