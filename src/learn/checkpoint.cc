#include "learn/checkpoint.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/fault.h"
#include "base/file.h"
#include "model/safetensors_writer.h"

namespace graft {
namespace {

constexpr const char* kIdentityKey = "run";
constexpr const char* kStateKey = "state";

}  // namespace

Status WriteCheckpoint(const std::string& path, std::span<const CheckpointPart> parts,
                       const std::string& identity, const std::string& state) {
  std::vector<SafetensorsOut> tensors;
  for (const CheckpointPart& part : parts) {
    const auto n = static_cast<int64_t>(part.values.size());
    tensors.push_back({part.name, {part.values.data(), DType::kF32, {n}}});
  }
  return WriteSafetensors(path, tensors, {{kIdentityKey, identity}, {kStateKey, state}});
}

Result<std::optional<Checkpoint>> Checkpoint::Open(const std::string& path,
                                                   const std::string& identity) {
  using Maybe = std::optional<Checkpoint>;
  const Status found = StampFile(path).status();
  if (found.code() == StatusCode::kNotFound) return Maybe();
  // A file that cannot be read for a moment must not make the run begin anew.
  if (IsPassing(found)) return found;
  Result<SafetensorsFile> file = SafetensorsFile::Open(path);
  if (IsPassing(file.status())) return file.status();
  if (!file.ok()) return Maybe();  // it is damaged, or another program's
  const auto& metadata = file->metadata();
  const auto its_identity = metadata.find(kIdentityKey);
  const auto state = metadata.find(kStateKey);
  if (its_identity == metadata.end() || its_identity->second != identity) return Maybe();
  if (state == metadata.end()) return Maybe();
  std::string text = state->second;
  return Maybe(Checkpoint(std::move(*file), std::move(text)));
}

Status Checkpoint::Read(std::span<const CheckpointPart> parts) const {
  std::vector<std::span<const char>> found;
  for (const auto& [name, values] : parts) {
    ASSIGN_OR_RETURN(const std::span<const char> bytes, file_.Bytes(name));
    if (bytes.size() != values.size_bytes()) {
      return InvalidArgumentError(file_.label() + ": \"" + name + "\" is of another adapter");
    }
    found.push_back(bytes);
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    std::copy(found[i].begin(), found[i].end(), reinterpret_cast<char*>(parts[i].values.data()));
  }
  return OkStatus();
}

}  // namespace graft
