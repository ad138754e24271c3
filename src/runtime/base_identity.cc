#include "runtime/base_identity.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/file.h"
#include "base/sha256.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTextFiles[] = {"config.json", "tokenizer.json", "tokenizer.model",
                                      "added_tokens.json"};
constexpr int64_t kSamples =
    256;  // of a file, evenly, the first byte's and the last one's included
constexpr int64_t kSampleBytes = 4096;

void AddText(Sha256& hash, const std::string& name, const std::string& text) {
  hash.Update(name + " " + std::to_string(text.size()) + "\n");
  hash.Update(text);
}

Status AddSamples(const fs::path& path, Sha256& hash) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const int64_t bytes = file.tellg();
  hash.Update(path.filename().string() + " " + std::to_string(bytes) + "\n");
  std::vector<char> sample(static_cast<size_t>(std::min(bytes, kSampleBytes)));
  const int64_t last = bytes - static_cast<int64_t>(sample.size());
  for (int64_t i = 0; i < kSamples && file.good(); ++i) {
    file.seekg(last / (kSamples - 1) * i + last % (kSamples - 1) * i / (kSamples - 1));
    file.read(sample.data(), static_cast<std::streamsize>(sample.size()));
    hash.Update(sample.data(), static_cast<size_t>(file.gcount()));
  }
  if (!file.good()) return DataLossError("cannot read " + path.string());
  return OkStatus();
}

}  // namespace

Result<BaseIdentity> IdentifyBase(const std::string& folder) {
  BaseIdentity identity;
  Sha256 text;
  for (const char* const name : kTextFiles) {
    const std::string path = folder + "/" + name;
    if (!FileExists(path)) continue;
    ASSIGN_OR_RETURN(const std::string content, ReadFile(path));
    AddText(text, name, content);
  }
  identity.text_hash = text.HexDigest();
  std::vector<fs::path> weights;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".safetensors") weights.push_back(entry.path());
  }
  if (error) return NotFoundError("cannot list " + folder + ": " + error.message());
  if (weights.empty()) return identity;
  std::sort(weights.begin(), weights.end());
  Sha256 hash;
  for (const fs::path& path : weights) RETURN_IF_ERROR(AddSamples(path, hash));
  identity.weights_hash = hash.HexDigest();
  return identity;
}

}  // namespace graft
