#include "base/file.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <new>

namespace graft {

namespace fs = std::filesystem;

Result<std::string> ReadFile(const std::string& path, int64_t bytes_max) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) {
    return InvalidArgumentError(path + " is a folder, a file was expected");
  }
  // A pipe could keep its reader waiting for ever.
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    return InvalidArgumentError(path + " is a pipe or a device, a file was expected");
  }
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return NotFoundError("cannot open " + path + ": no such file, or not readable");
  const int64_t bytes = file.tellg();
  if (bytes > bytes_max) {
    return ResourceExhaustedError(path + " has " + std::to_string(bytes) + " bytes, the limit is " +
                                  std::to_string(bytes_max));
  }
  std::string text;
  try {
    text.resize(static_cast<size_t>(bytes));
  } catch (const std::bad_alloc&) {
    return ResourceExhaustedError(path + " has " + std::to_string(bytes) +
                                  " bytes, which the memory has no room for");
  }
  file.seekg(0);
  file.read(text.data(), bytes);
  if (file.gcount() != bytes) return DataLossError("cannot read all of " + path);
  return text;
}

bool FileExists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

Result<FileStamp> StampFile(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return NotFoundError("cannot find " + path);
  return FileStamp{
      .bytes = status.st_size,
      .modified_ns = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

namespace {

// As it was given, where the working folder is gone.
std::string Absolute(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  return error ? path : absolute.string();
}

}  // namespace

Result<std::string> ResolveInside(const std::string& root, const std::string& path) {
  std::error_code error;
  const fs::path base = fs::canonical(root, error);
  if (error) return NotFoundError("folder " + Absolute(root) + " does not exist");
  // Weakly first: an escape is refused the same whether its target exists or not.
  const fs::path joined = fs::path(path).is_absolute() ? fs::path(path) : base / path;
  const fs::path resolved = fs::weakly_canonical(joined, error);
  if (error) return InvalidArgumentError("path '" + path + "' cannot be resolved");
  const fs::path relative = resolved.lexically_relative(base);
  if (relative.empty() || *relative.begin() == "..") {
    return PermissionDeniedError("path '" + path + "' is outside " + base.string());
  }
  if (!fs::exists(resolved, error)) {
    return NotFoundError("path '" + path + "' does not exist under " + base.string());
  }
  return resolved.string();
}

}  // namespace graft
