// An adapter's files, read once into memory, and their identity. What is hashed is what is loaded:
// a file that changes in between cannot slip in. Plain data; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "adapters/content_reading.h"
#include "base/file.h"
#include "base/status.h"
#include "model/config.h"
#include "model/file_bytes.h"

namespace graft {

// One PEFT folder, or one of another form as PEFT writes it (peft_bytes.h).
struct PeftFolder {
  std::string path;
  std::string config;      // adapter_config.json
  FileBytes weights;       // adapter_model.safetensors
  std::string label = "";  // the path of the file that these are read from, for errors
};

// More than any adapter of the model has in its adapter_model.safetensors: every module at the
// largest rank in fp32, and both embeddings, of which copies of the base's are left out.
int64_t AdapterWeightsBytesMax(const ModelConfig& model);

// Reads adapter_model.safetensors, or else adapter_model.bin or mlx-lm's adapters.safetensors.
// kNotFound names the missing file, or the folders one level deeper that are adapters; weights of
// another tool, in several files or beside PEFT's are kUnimplemented by name; weights of more
// than `weights_bytes_max` are kInvalidArgument. A lack of memory or a disk that does not answer
// passes (base/fault.h). What is read lies in `jail`.
Result<PeftFolder> ReadPeftFolder(const std::string& path, int64_t weights_bytes_max,
                                  const FileJail& jail = {});

// SHA-256 over, for config and then weights, the file's length in eight little-endian bytes and its
// bytes; 64 hexadecimal digits. The folder's name is no part of it. A folder of
// another form has the hash of the files that PEFT would write.
std::string AdapterHash(const PeftFolder& folder);

// The files beside the weights that are there of kAdapterTextFiles, by name, in that order. Links
// out of `jail` count as none.
Result<AdapterTextFiles> ReadAdapterTextFiles(const std::string& path, const FileJail& jail = {});

// What an adapter consists of: one PEFT folder of any kind, or where it is a bundle, LoRA and then
// a prompt, of which one may have no path.
struct PeftContent {
  bool is_bundle = false;
  std::vector<PeftFolder> folders;
  AdapterTextFiles texts;
  // Knows the hash of the folders, or still computes it; shared by copies of the content.
  std::shared_ptr<ContentReading> reading;
};

// Whether the files of texts are part of a content, or not read.
enum class TextFileUse : uint8_t { kContent, kNone };

// A folder without adapter_config.json that has a graft.json is a bundle of its folders lora and
// prompt. Errors are as ReadPeftFolder's; kDataLoss where graft.json has another hash than comes
// out, with the files of texts or without them, which may have come later. The hash may still be
// computed by another thread when this returns, so that others of its functions wait for it.
Result<PeftContent> ReadAdapter(const std::string& path, int64_t weights_bytes_max,
                                const FileJail& jail = {}, TextFileUse use = TextFileUse::kContent,
                                const AdapterReadHelp& help = {});

// The ContentHash of a PEFT folder if `help` remembers it; its weights are not read. "": it is not
// remembered, or no PEFT folder.
std::string RememberedHash(const std::string& path, int64_t weights_bytes_max, const FileJail& jail,
                           TextFileUse use, const AdapterReadHelp& help);

// The adapter's identity: as AdapterHash, over all folders, of which a missing one counts as two
// empty files, and then over the name and the bytes of each file of texts.
std::string ContentHash(const PeftContent& content);
// The same of a folder, however large.
Result<std::string> HashOfFolder(const std::string& path);

// The same for a caller that knows the content as `wanted`. Earlier versions of this program hashed
// no files of texts: where `wanted` is such a hash of the content, it is the answer, and the
// content's texts are dropped. "": a hash that no caller wants.
std::string HashAs(const std::string& wanted, PeftContent* content);

// The same of a content of `path` that was read without its files of texts. Where its hash is not
// `wanted`, these files are looked at: a server that takes them may have named it so.
std::string HashWithoutTexts(const std::string& wanted, const std::string& path,
                             const FileJail& jail, const PeftContent& content);

}  // namespace graft
