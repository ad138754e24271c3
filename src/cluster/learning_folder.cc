#include "cluster/learning_folder.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "base/new_file.h"
#include "base/random.h"
#include "jobs/learning_store.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kIdBytesMax = 1024;
constexpr const char* kParts[] = {"/files", "/checkpoints", "/adapters"};

// Clients are told the reason, which stands last, and no place on this machine: the log has it.
Status WriteOwn(const std::string& path, std::string_view content) {
  const Status written = WriteWholeFile(path, content, 0600);
  if (written.ok()) return written;
  LOG_WARN("--learn-dir: {}", written.message());
  const std::string& told = written.message();
  return Status(written.code(), "--learn-dir: cannot write" + told.substr(told.rfind(": ")));
}

// Reads the file's "CLUSTER ID", which the first process to come has written.
Result<std::string> ReadOrMakeId(const std::string& path, const std::string& cluster_id) {
  if (!FileExists(path)) {
    const std::string own = path + "." + RandomHex(2);
    RETURN_IF_ERROR(WriteOwn(own, cluster_id + " " + RandomHex(2)));
    const int linked = link(own.c_str(), path.c_str());
    const int error_number = errno;
    unlink(own.c_str());
    if (linked != 0 && error_number != EEXIST) {
      return SystemError(error_number, "--learn-dir: cannot write");
    }
  }
  return ReadFile(path, kIdBytesMax);
}

// Names are ids that Graft made: they never lead out of their folder.
bool IsId(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-';
  });
}

// "ftjob-..." of what a job left there: its id, and what follows behind a further dash.
std::string JobOf(const std::string& name) {
  const size_t dash = name.find('-');
  return name.substr(0, name.find_first_of("-.", dash == std::string::npos ? 0 : dash + 1));
}

template <typename IsWanted>
int SweepPart(const std::string& part, std::chrono::seconds grace, const IsWanted& is_wanted) {
  const auto now = fs::file_time_type::clock::now();
  std::error_code error;
  int num_removed = 0;
  for (fs::directory_iterator it(part, error); it != fs::directory_iterator();
       it.increment(error)) {
    const fs::path path = it->path();
    if (is_wanted(path.filename().string())) continue;
    std::error_code unknown;
    const auto touched = fs::last_write_time(path, unknown);
    if (unknown || now - touched <= grace) continue;
    fs::remove_all(path, unknown);
    num_removed += unknown ? 0 : 1;
  }
  return num_removed;
}

// Documents, what was written of them and what was learned are all tenants', and no other user's.
void KeepToThisUser(const std::string& folder) {
  std::error_code error;
  fs::permissions(folder, fs::perms::owner_all, error);
  if (error) LOG_WARN("other users may read {}: {}", folder, error.message());
}

}  // namespace

Result<LearningFolder> LearningFolder::Open(const std::string& path,
                                            const std::string& cluster_id) {
  std::error_code error;
  for (const char* part : kParts) {
    fs::create_directories(path + part, error);
    if (error) return SystemError(error.value(), "--learn-dir: cannot make " + path + part);
  }
  const std::string root = fs::canonical(path, error).string();
  if (error) return SystemError(error.value(), "--learn-dir " + path);
  if (FileExists(root + "/" + kServerFolderFile)) {
    return FailedPreconditionError("--learn-dir " + path +
                                   ": a single server's (graft serve); give the cluster its own");
  }
  ASSIGN_OR_RETURN(const std::string text,
                   ReadOrMakeId(root + "/" + kClusterFolderFile, cluster_id));
  if (!text.starts_with(cluster_id + " ")) {
    return FailedPreconditionError("--learn-dir " + path +
                                   ": another cluster has it; give each its own");
  }
  for (const char* part : kParts) KeepToThisUser(root + part);
  return LearningFolder(root, text.substr(cluster_id.size() + 1));
}

Status LearningFolder::WriteFile(const std::string& id, std::string_view content) const {
  if (!IsId(id)) return InvalidArgumentError("'" + id + "' is no file's id");
  return WriteOwn(PathOf(id), content);
}

Result<std::string> LearningFolder::ReadFile(const std::string& id) const {
  if (!IsId(id)) return InvalidArgumentError("'" + id + "' is no file's id");
  Result<std::string> content = graft::ReadFile(PathOf(id));
  if (content.status().code() != StatusCode::kNotFound) return content;
  return DataLossError("the content of file '" + id + "' is not in --learn-dir any more");
}

void LearningFolder::RemoveFile(const std::string& id) const {
  if (IsId(id)) unlink(PathOf(id).c_str());
}

void LearningFolder::LetGo(const std::string& adapter) const {
  std::error_code gone;
  if (IsId(adapter)) {
    fs::last_write_time(adapters() + "/" + adapter, fs::file_time_type::clock::now(), gone);
  }
}

int LearningFolder::Sweep(const Wanted& wanted, std::chrono::seconds grace) const {
  const auto is_of_job = [&](const std::string& name) { return wanted.jobs.contains(JobOf(name)); };
  return SweepPart(root_ + "/files", grace,
                   [&](const std::string& name) { return wanted.files.contains(name); }) +
         SweepPart(root_ + "/checkpoints", grace, is_of_job) +
         SweepPart(adapters(), grace, [&](const std::string& name) {
           return wanted.adapters.contains(name) || is_of_job(name);
         });
}

}  // namespace graft
