// Safetensors files from untrusted hands: the whole header is checked before a tensor is seen.
// Every tensor lies inside the file, its bytes equal shape x dtype, and the tensors tile the data
// section without overlap or hole, as the format demands. Views borrow the file and may be
// misaligned. Immutable after opening; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/file_bytes.h"
#include "tensor/buffer.h"

namespace graft {

inline constexpr int64_t kSafetensorsHeaderBytesMax = int64_t{100} << 20;
inline constexpr int64_t kSafetensorsTensorsMax = int64_t{1} << 18;
inline constexpr size_t kSafetensorsDimsMax = 8;

struct SafetensorsEntry {
  std::string dtype;  // as the file spells it: "BF16"; may be one we do not know
  std::vector<int64_t> shape;
  int64_t begin = 0;  // bytes into the data section
  int64_t end = 0;
};

class SafetensorsFile {
 public:
  // Maps the file. It must not be truncated while mapped: use FromBytes for files that others may
  // write to.
  static Result<SafetensorsFile> Open(const std::string& path);
  // The same checks on bytes in memory; `label` stands for the path in errors.
  static Result<SafetensorsFile> FromBytes(std::string bytes, std::string label);
  static Result<SafetensorsFile> FromBytes(FileBytes bytes, std::string label);

  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;
  ~SafetensorsFile();

  const std::string& label() const { return label_; }
  // Sorted by name.
  const std::map<std::string, SafetensorsEntry, std::less<>>& entries() const { return entries_; }
  const std::map<std::string, std::string, std::less<>>& metadata() const { return metadata_; }
  bool Contains(std::string_view name) const { return entries_.find(name) != entries_.end(); }

  // As they lie in the file.
  std::vector<std::string> NamesInOrder() const;
  // kUnavailable: the file became shorter since it was mapped, and reads as zeros, or not at all.
  Status CheckNotCut() const;

  int64_t file_bytes() const;
  // The bytes before the data section: the header's length and the header.
  std::span<const char> header() const;
  // An fp32, bf16 or fp16 tensor. kNotFound names the tensor, kUnimplemented its dtype. The data
  // may be misaligned for its type.
  Result<TensorView> Tensor(std::string_view name) const;
  // A tensor's bytes, whatever its dtype.
  Result<std::span<const char>> Bytes(std::string_view name) const;

 private:
  class Storage;
  SafetensorsFile(std::unique_ptr<const Storage> storage, std::string label);
  static Result<SafetensorsFile> Make(std::unique_ptr<const Storage> storage, std::string label);
  Status ReadHeader();

  std::unique_ptr<const Storage> storage_;
  std::string label_;
  std::map<std::string, SafetensorsEntry, std::less<>> entries_;
  std::map<std::string, std::string, std::less<>> metadata_;
  int64_t data_begin_ = 0;
};

// A model folder's tensors: `stem`.safetensors, or the shards that `stem`.safetensors.index.json
// names. Shards are plain file names in the folder (links that the operator made are followed: a
// downloaded snapshot is made of them), and each tensor must be where the index says.
class SafetensorsSet {
 public:
  static Result<SafetensorsSet> Open(const std::string& dir, const std::string& stem = "model");

  bool Contains(std::string_view name) const { return file_of_.find(name) != file_of_.end(); }
  // The file that `name` is taken from, whatever others hold by that name; null for none.
  const SafetensorsFile* FileOf(std::string_view name) const;
  Result<TensorView> Tensor(std::string_view name) const;
  std::vector<std::string> Names() const;  // sorted
  const std::vector<SafetensorsFile>& files() const { return files_; }

 private:
  Status AddShards(const std::string& dir, const std::string& index_path);

  std::string dir_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, size_t, std::less<>> file_of_;  // tensor name -> index into files_
};

}  // namespace graft
