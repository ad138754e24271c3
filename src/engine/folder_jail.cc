#include "engine/folder_jail.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/adapter_files.h"
#include "base/fault.h"
#include "request/adapter_name.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

constexpr char kConfigFile[] = "/adapter_config.json";
constexpr std::string_view kHubPrefix = "models--";
constexpr int64_t kRevisionBytesMax = 256;

std::vector<std::string> RootsOf(const std::string& root, std::vector<std::string> link_roots) {
  if (root.empty()) return {};
  link_roots.insert(link_roots.begin(), root);
  return link_roots;
}

std::vector<std::string> WithFetched(std::vector<std::string> roots,
                                     const std::vector<std::string>& fetched) {
  roots.insert(roots.end(), fetched.begin(), fetched.end());
  return roots;
}

std::string StampPart(const Result<FileStamp>& found) {
  if (!found.ok()) return "none;";
  return std::to_string(found->bytes) + ":" + std::to_string(found->modified_ns) + ";";
}

bool IsThere(const Result<FileStamp>& found) {
  return found.status().code() != StatusCode::kNotFound;
}

// A PEFT folder with graft.json beside its config is none.
bool IsBundle(const std::string& path) {
  return !IsThere(StampFile(path + kConfigFile)) &&
         IsThere(StampFile(path + "/" + kBundleManifest));
}

bool HasConfig(const std::string& path) {
  return IsThere(StampFile(path + kConfigFile)) || IsBundle(path);
}

// The files that the adapter consists of, each from a slash on.
std::vector<std::string> FilesOf(const std::string& path) {
  std::vector<std::string> files;
  const auto add = [&](const char* file) {
    files.push_back(AdapterFilePath(path, file).substr(path.size()));
  };
  if (IsBundle(path)) {
    for (const char* const file : kBundleFiles) add(file);
  } else {
    for (const char* const file : kPeftFiles) add(file);
  }
  return files;
}

// For names that FilesOf returns.
bool IsWeightsFile(const std::string& file) {
  return std::ranges::any_of(kOtherWeightsFiles,
                             [&](const char* other) { return file.ends_with(other); }) ||
         file.ends_with(kPeftFiles[1]);
}

// The files beside its weights that are there, each from a slash on.
std::vector<std::string> FilesBeside(const std::string& path) {
  std::vector<std::string> files;
  const auto add = [&](const char* name) {
    const std::string file = std::string("/") + name;
    if (IsThere(StampFile(path + file))) files.push_back(file);
  };
  for (const char* const file : kAdapterTextFiles) add(file);
  for (const char* const file : kVocabularyFiles) add(file);
  return files;
}

// What to say of a folder that has an adapter's weights and no config; "" of another.
std::string TellMissingConfig(const std::string& path) {
  for (const char* const file :
       {"adapter_model.safetensors", "adapter_model.bin", "adapters.safetensors", "adapters.npz"}) {
    if (!IsThere(StampFile(path + "/" + file))) continue;
    return std::string("it has ") + file +
           " and no adapter_config.json, which says what the weights are of; copy that file from "
           "where the adapter was trained, or save the adapter again with PEFT's save_pretrained";
  }
  return "";
}

bool HasSnapshots(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path + "/snapshots", error);
}

// "models--org--name" is org/name.
std::string HubName(std::string_view folder) {
  std::string name(folder.substr(kHubPrefix.size()));
  for (size_t at = 0; (at = name.find("--", at)) != std::string::npos; ++at) {
    name.replace(at, 2, "/");
  }
  return name;
}

// NAME or ORG/NAME, as a hub has it.
bool IsHubName(std::string_view path) {
  const size_t slash = path.find('/');
  return !path.empty() && path[0] != '.' && slash != 0 && slash != path.size() - 1 &&
         (slash == path.npos || path.find('/', slash + 1) == path.npos);
}

// HubName's other way.
std::string HubFolder(const std::string& name) {
  std::string folder = std::string(kHubPrefix) + name;
  const size_t slash = folder.find('/');
  if (slash != folder.npos) folder.replace(slash, 1, "--");
  return folder;
}

}  // namespace

FolderJail::FolderJail(std::string root, std::vector<std::string> link_roots, std::string learned,
                       bool takes_texts, std::vector<std::string> fetched)
    : root_(std::move(root)),
      jail_(RootsOf(root_, link_roots)),
      read_jail_(WithFetched(RootsOf(root_, link_roots), fetched)),
      learned_(std::move(learned)),
      takes_texts_(takes_texts),
      fetched_(std::move(fetched)) {}

Result<std::string> FolderJail::ResolveFetched(const std::string& path) const {
  for (const std::string& root : fetched_) {
    Result<std::string> inside = ResolveInside(root, path);
    if (inside.ok()) return inside;
  }
  if (!root_.empty()) return Resolve(path);
  return PermissionDeniedError("path '" + path + "' is in no folder of what was fetched");
}

Result<std::string> FolderJail::ResolveLearned(const std::string& path) const {
  if (learned_.empty()) return FailedPreconditionError("this server learns nothing");
  return ResolveInside(learned_, path);
}

std::string FolderJail::StampOf(const std::string& path) const {
  std::string stamp;
  for (const std::string& file : FilesOf(path)) stamp += StampPart(StampFile(path + file));
  if (!takes_texts_) return stamp;
  for (const std::string& file : FilesBeside(path)) {
    stamp += file + "=" + StampPart(StampFile(path + file));
  }
  return stamp;
}

bool FolderJail::IsDeleted(const std::string& path) const {
  std::error_code error;
  const fs::path root = fs::canonical(root_, error);
  const fs::path relative = fs::path(path).lexically_relative(root);
  if (error || relative.empty() || *relative.begin() == "..") return false;
  fs::path at = path;
  while (at != root && fs::symlink_status(at, error).type() == fs::file_type::not_found) {
    at = at.parent_path();
  }
  if (at == path) return false;
  const bool is_empty = fs::is_empty(at, error);
  return !error && !is_empty;
}

// The weights lie inside as well as the folder that they are read from.
Status FolderJail::CheckFilesInside(const std::string& path) const {
  std::vector<std::string> files = FilesOf(path);
  files.insert(files.end(), {"/lora", "/prompt"});
  for (const std::string& file : files) {
    std::error_code unknown;
    if (!fs::is_symlink(path + file, unknown)) continue;
    const Status inside = jail_.Resolve(path + file).status();
    if (inside.code() == StatusCode::kPermissionDenied) return inside;
  }
  return OkStatus();
}

std::vector<std::string> FolderJail::TextsOutside(const std::string& path) const {
  std::vector<std::string> outside;
  if (!takes_texts_) return outside;
  for (const std::string& file : FilesBeside(path)) {
    if (read_jail_.LeadsOut(path + file)) outside.push_back(file.substr(1));
  }
  return outside;
}

// The revision that refs/main names, else the only one.
Result<std::string> FolderJail::SnapshotOf(const std::string& path) const {
  const std::string snapshots = path + "/snapshots/";
  Result<std::string> revision = jail_.Read(path + "/refs/main", kRevisionBytesMax);
  if (revision.ok()) {
    revision->erase(std::remove_if(revision->begin(), revision->end(),
                                   [](char c) { return c == '\n' || c == '/'; }),
                    revision->end());
    return jail_.Resolve(snapshots + *revision);
  }
  if (revision.status().code() != StatusCode::kNotFound) return revision.status();
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator it(snapshots, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    found.push_back(it->path().string());
  }
  if (error) return SystemError(error.value(), "cannot list " + snapshots);
  if (found.size() == 1) return jail_.Resolve(found.front());
  return NotFoundError(path + " has " + std::to_string(found.size()) +
                       " snapshots and no refs/main that names one; give the snapshot's folder");
}

Result<std::string> FolderJail::Resolve(const std::string& path) const {
  if (path.find("://") != std::string::npos) {
    return InvalidArgumentError("'" + path +
                                "' is an address, and nothing is fetched by a load: download "
                                "the adapter into the adapters folder and name its folder, or ask "
                                "for it by its name under a --source");
  }
  if (root_.empty() && !fetched_.empty()) {
    return NotFoundError("'" + path +
                         "' is no name of a source, SOURCE/ORG/NAME, that a pattern of --allow "
                         "matches, and this server has no adapters folder (--adapters DIR)");
  }
  if (root_.empty()) {
    return FailedPreconditionError(
        "this server has no adapters folder to load from; start it with --adapters DIR");
  }
  Result<std::string> found = jail_.Resolve(path);
  if (found.status().code() == StatusCode::kNotFound && IsHubName(path)) {
    const Result<std::string> cached = jail_.Resolve(HubFolder(path));
    if (cached.ok()) found = cached;
  }
  ASSIGN_OR_RETURN(std::string inside, std::move(found));
  if (HasSnapshots(inside) && !HasConfig(inside)) {
    ASSIGN_OR_RETURN(inside, SnapshotOf(inside));
  }
  RETURN_IF_ERROR(CheckFilesInside(inside));
  return inside;
}

// kNotFound: no adapter, which is no failure.
Result<FolderJail::Folder> FolderJail::Look(const std::string& name, const std::string& path,
                                            bool is_link) const {
  Folder folder{.name = name, .path = path, .stamp = "", .weight_bytes = 0};
  if (is_link || HasSnapshots(path)) {
    const Result<std::string> resolved = Resolve(path);
    // A hub's cache keeps base models, too, and half of what it was told to fetch.
    const bool is_other = resolved.status().code() == StatusCode::kNotFound && !is_link;
    if (is_other) return resolved.status();
    if (!resolved.ok()) return Status(StatusCode::kPermissionDenied, resolved.status().message());
    folder.path = *resolved;
  }
  if (name.starts_with(kHubPrefix) && folder.path != path) folder.name = HubName(name);
  if (!IsBundle(folder.path)) {
    const Result<FileStamp> config = StampFile(folder.path + kConfigFile);
    const bool is_missing = config.status().code() == StatusCode::kNotFound;
    std::string why = is_missing ? TellMissingConfig(folder.path) : "";
    if (is_missing && why.empty()) why = TellAdaptersBelow(folder.path);
    if (!why.empty()) return FailedPreconditionError(why);
    if (!config.ok()) return config.status();
  }
  RETURN_IF_ERROR(CheckFilesInside(folder.path));
  folder.stamp = StampOf(folder.path);
  for (const std::string& file : FilesOf(folder.path)) {
    const Result<FileStamp> found = StampFile(folder.path + file);
    if (found.ok() && IsWeightsFile(file)) folder.weight_bytes += found->bytes;
  }
  return folder;
}

Result<FolderJail::Found> FolderJail::Find() const {
  ASSIGN_OR_RETURN(const std::string root, Resolve("."));
  std::error_code error;
  Found found;
  for (fs::directory_iterator it(root, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    std::error_code unknown;  // one that vanished meanwhile is no link; its stamp says so
    Result<Folder> folder = Look(name, it->path().string(), it->is_symlink(unknown));
    const Status can_be_asked_for = folder.ok() ? CheckAdapterName(folder->name) : OkStatus();
    if (!can_be_asked_for.ok()) {
      found.refused.push_back({folder->name, can_be_asked_for});
    } else if (folder.ok()) {
      found.folders.push_back(std::move(*folder));
    } else if (folder.status().code() != StatusCode::kNotFound) {
      found.refused.push_back({name, folder.status()});
    }
  }
  if (error) return SystemError(error.value(), "cannot list the adapters folder " + root_);
  if (found.folders.empty() && found.refused.empty() && HasConfig(root)) {
    return InvalidArgumentError(root_ +
                                " is itself an adapter; adapters are the folders in --adapters: "
                                "give the folder above it");
  }
  std::sort(found.folders.begin(), found.folders.end(),
            [](const Folder& a, const Folder& b) { return a.name < b.name; });
  return found;
}

}  // namespace graft
