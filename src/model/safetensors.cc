#include "model/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>
#include <tuple>
#include <utility>

#include "base/fault.h"
#include "base/file.h"
#include "base/json.h"

namespace graft {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors stores little endian");

constexpr int64_t kLengthBytes = 8;  // the header's length, before the header
constexpr int64_t kIndexBytesMax = int64_t{64} << 20;
constexpr size_t kShardsMax = 4096;
constexpr std::string_view kMetadataKey = "__metadata__";

struct KnownDtype {
  std::string_view name;
  int bits;
};
constexpr std::array<KnownDtype, 20> kKnownDtypes = {{
    {"BOOL", 8},    {"U8", 8},      {"I8", 8},      {"F8_E5M2", 8}, {"F8_E4M3", 8},
    {"F8_E8M0", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},      {"I16", 16},
    {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},    {"U32", 32},
    {"F32", 32},    {"I64", 64},    {"U64", 64},    {"F64", 64},    {"C64", 64},
}};

std::optional<int> DtypeBits(std::string_view dtype) {
  for (const KnownDtype& known : kKnownDtypes) {
    if (known.name == dtype) return known.bits;
  }
  return std::nullopt;
}

std::optional<DType> ServedDtype(std::string_view dtype) {
  if (dtype == "F32") return DType::kF32;
  if (dtype == "BF16") return DType::kBF16;
  if (dtype == "F16") return DType::kF16;
  return std::nullopt;
}

// A name from the file, short enough for an error message.
std::string Quoted(std::string_view name) {
  constexpr size_t kShownMax = 120;
  if (name.size() <= kShownMax) return "'" + std::string(name) + "'";
  return "'" + std::string(name.substr(0, kShownMax)) + "...'";
}

// Reads the header's JSON event by event: no tree, no recursion, duplicate keys seen, and memory
// bounded by what is kept. The grammar is
//   { "__metadata__": {string: string, ...}, name: {"dtype": string, "shape": [n, ...],
//     "data_offsets": [begin, end]}, ... }
class HeaderReader : public nlohmann::json_sax<Json> {
 public:
  std::map<std::string, SafetensorsEntry, std::less<>> entries;
  std::map<std::string, std::string, std::less<>> metadata;
  std::string error;

  bool start_object(size_t) override {
    if (depth_ == 0 || (depth_ == 1 && !key_.empty())) {
      ++depth_;
      fields_seen_ = 0;
      return true;
    }
    return Unexpected("an object");
  }

  bool key(std::string& key) override {
    if (depth_ == 1) return BeginEntry(key);
    if (in_metadata_) {
      metadata_key_ = key;
      return metadata.emplace(key, "").second || Fail("names metadata " + Quoted(key) + " twice");
    }
    field_ = key == "dtype"          ? kDtype
             : key == "shape"        ? kShape
             : key == "data_offsets" ? kOffsets
                                     : kNoField;
    if (field_ == kNoField) return Fail(Quoted(key_) + " has an unknown field " + Quoted(key));
    if ((fields_seen_ & field_) != 0) return Fail(Quoted(key_) + " has " + key + " twice");
    fields_seen_ |= field_;
    return true;
  }

  bool end_object() override {
    if (depth_ == 2 && !in_metadata_) {
      if (fields_seen_ != (kDtype | kShape | kOffsets) || num_offsets_ != 2) {
        return Fail(Quoted(key_) + " needs dtype, shape and two data_offsets");
      }
    }
    --depth_;
    field_ = kNoField;
    return true;
  }

  bool string(std::string& value) override {
    if (depth_ == 2 && in_metadata_) {
      metadata[metadata_key_] = value;
      return true;
    }
    if (depth_ != 2 || field_ != kDtype) return Unexpected("a string");
    entry_->dtype = value;
    return true;
  }

  bool start_array(size_t) override {
    if (depth_ != 2 || in_metadata_ || (field_ != kShape && field_ != kOffsets)) {
      return Unexpected("a list");
    }
    ++depth_;
    return true;
  }

  bool end_array() override {
    --depth_;
    return true;
  }

  bool number_unsigned(uint64_t value) override {
    if (depth_ != 3) return Unexpected("a number");
    if (value > uint64_t{INT64_MAX}) return Fail(Quoted(key_) + " has a number past 63 bits");
    if (field_ == kShape) {
      entry_->shape.push_back(static_cast<int64_t>(value));
      return entry_->shape.size() <= kSafetensorsDimsMax ||
             Fail(Quoted(key_) + " has more than 8 dimensions");
    }
    if (num_offsets_ == 2) return Fail(Quoted(key_) + " has more than two data_offsets");
    (num_offsets_ == 0 ? entry_->begin : entry_->end) = static_cast<int64_t>(value);
    ++num_offsets_;
    return true;
  }

  bool number_integer(int64_t) override { return Unexpected("a negative number"); }
  bool number_float(double, const std::string&) override { return Unexpected("a fraction"); }
  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("true or false"); }
  bool binary(Json::binary_t&) override { return Unexpected("binary"); }
  bool parse_error(size_t position, const std::string&, const Json::exception&) override {
    return Fail("is not valid JSON at byte " + std::to_string(position));
  }

 private:
  enum Field : unsigned { kNoField = 0, kDtype = 1, kShape = 2, kOffsets = 4 };

  bool BeginEntry(const std::string& name) {
    if (name.empty()) return Fail("has a tensor without a name");
    key_ = name;
    num_offsets_ = 0;
    in_metadata_ = name == kMetadataKey;
    if (in_metadata_) {
      if (std::exchange(has_metadata_, true)) return Fail("has __metadata__ twice");
      return true;
    }
    const auto [it, is_new] = entries.try_emplace(name);
    if (!is_new) return Fail("names tensor " + Quoted(name) + " twice");
    entry_ = &it->second;
    return static_cast<int64_t>(entries.size()) <= kSafetensorsTensorsMax ||
           Fail("has more than " + std::to_string(kSafetensorsTensorsMax) + " tensors");
  }

  bool Unexpected(std::string_view what) {
    return Fail("has " + std::string(what) + " where none belongs" +
                (key_.empty() ? std::string() : ", at " + Quoted(key_)));
  }
  bool Fail(std::string message) {
    if (error.empty()) error = std::move(message);
    return false;
  }

  int depth_ = 0;  // open objects and lists
  std::string key_;
  std::string metadata_key_;
  bool in_metadata_ = false;
  bool has_metadata_ = false;
  SafetensorsEntry* entry_ = nullptr;
  Field field_ = kNoField;
  unsigned fields_seen_ = 0;
  int num_offsets_ = 0;
};

// "" where the entry lies in a data section of `data_bytes` and holds what its shape says.
std::string EntryProblem(const SafetensorsEntry& entry, int64_t data_bytes) {
  if (entry.begin > entry.end || entry.end > data_bytes) {
    return "lies at bytes " + std::to_string(entry.begin) + " to " + std::to_string(entry.end) +
           " of a data section of " + std::to_string(data_bytes) +
           (entry.end > data_bytes ? "; is the file still being copied?" : "");
  }
  const std::optional<int> bits = DtypeBits(entry.dtype);
  if (!bits.has_value()) return "";  // listed, and refused when asked for
  int64_t total = *bits;
  for (const int64_t dim : entry.shape) {
    if (__builtin_mul_overflow(total, dim, &total)) return "has a shape past 63 bits";
  }
  if (total % 8 != 0 || total / 8 != entry.end - entry.begin) {
    return "has " + std::to_string(entry.end - entry.begin) + " bytes, its shape and dtype need " +
           std::to_string(total / 8);
  }
  return "";
}

}  // namespace

// The file's bytes: mapped, owned or shared.
class SafetensorsFile::Storage {
 public:
  Storage(const char* mapped, int64_t bytes) : mapped_(mapped), bytes_(bytes) {}
  explicit Storage(std::string owned)
      : owned_(std::move(owned)), bytes_(static_cast<int64_t>(owned_.size())) {}
  explicit Storage(FileBytes shared) : shared_(std::move(shared)), bytes_(shared_.bytes()) {}
  ~Storage() {
    if (mapped_ != nullptr) munmap(const_cast<char*>(mapped_), static_cast<size_t>(bytes_));
  }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  const char* data() const {
    if (mapped_ != nullptr) return mapped_;
    return shared_.data() != nullptr ? shared_.data() : owned_.data();
  }
  int64_t bytes() const { return bytes_; }

 private:
  const char* mapped_ = nullptr;
  std::string owned_;
  FileBytes shared_;
  int64_t bytes_;
};

SafetensorsFile::SafetensorsFile(std::unique_ptr<const Storage> storage, std::string label)
    : storage_(std::move(storage)), label_(std::move(label)) {}
SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;
SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&&) noexcept = default;
SafetensorsFile::~SafetensorsFile() = default;

Result<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  // O_NONBLOCK: a FIFO must not hang us before it is refused.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const int error = errno;
    if (error == ENOENT) return NotFoundError(path + " does not exist");
    return SystemError(error, "cannot open " + path);
  }
  struct stat stat {};
  const bool is_file = fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode);
  const int64_t bytes = is_file ? stat.st_size : 0;
  void* mapped = MAP_FAILED;
  if (bytes > 0) mapped = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (!is_file) return InvalidArgumentError(path + " is not a regular file");
  if (bytes == 0) return DataLossError(path + " is empty");
  if (mapped == MAP_FAILED) return ResourceExhaustedError("cannot map " + path);
  return Make(std::make_unique<Storage>(static_cast<const char*>(mapped), bytes), path);
}

Result<SafetensorsFile> SafetensorsFile::FromBytes(std::string bytes, std::string label) {
  return Make(std::make_unique<Storage>(std::move(bytes)), std::move(label));
}

Result<SafetensorsFile> SafetensorsFile::FromBytes(FileBytes bytes, std::string label) {
  return Make(std::make_unique<Storage>(std::move(bytes)), std::move(label));
}

Result<SafetensorsFile> SafetensorsFile::Make(std::unique_ptr<const Storage> storage,
                                              std::string label) {
  SafetensorsFile file(std::move(storage), std::move(label));
  const Status status = file.ReadHeader();
  if (!status.ok()) return status.WithContext(file.label_);
  return file;
}

Status SafetensorsFile::ReadHeader() {
  const std::string_view bytes(storage_->data(), static_cast<size_t>(storage_->bytes()));
  if (bytes.starts_with("version https://git-lfs")) {
    return DataLossError("is a Git LFS pointer, not the file itself; fetch it with git lfs pull");
  }
  if (storage_->bytes() < kLengthBytes) {
    return DataLossError("is too short to be a safetensors file; is it still being copied?");
  }
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
  if (header_bytes > static_cast<uint64_t>(kSafetensorsHeaderBytesMax)) {
    return InvalidArgumentError("claims a header of " + std::to_string(header_bytes) +
                                " bytes; is it a safetensors file? The limit is 100 MiB");
  }
  data_begin_ = kLengthBytes + static_cast<int64_t>(header_bytes);
  if (data_begin_ > storage_->bytes()) {
    return DataLossError("ends within its header; the file is truncated, or still being copied");
  }
  const std::string_view text = bytes.substr(kLengthBytes, header_bytes);
  HeaderReader reader;
  if (!Json::sax_parse(text.begin(), text.end(), &reader)) {
    return InvalidArgumentError("safetensors header " + reader.error);
  }
  entries_ = std::move(reader.entries);
  metadata_ = std::move(reader.metadata);

  const int64_t data_bytes = storage_->bytes() - data_begin_;
  std::vector<std::tuple<int64_t, int64_t, std::string_view>> ranges;
  ranges.reserve(entries_.size());
  for (const auto& [name, entry] : entries_) {
    const std::string problem = EntryProblem(entry, data_bytes);
    if (!problem.empty()) return InvalidArgumentError("tensor " + Quoted(name) + " " + problem);
    ranges.emplace_back(entry.begin, entry.end, name);
  }
  std::sort(ranges.begin(), ranges.end());
  int64_t covered = 0;
  for (const auto& [begin, end, name] : ranges) {
    if (begin != covered) {
      return InvalidArgumentError(
          "tensor " + Quoted(name) +
          (begin < covered ? " overlaps the one before it" : " leaves a hole before it"));
    }
    covered = end;
  }
  if (covered != data_bytes) {
    return InvalidArgumentError("has " + std::to_string(data_bytes - covered) +
                                " bytes after the last tensor");
  }
  return OkStatus();
}

std::vector<std::string> SafetensorsFile::NamesInOrder() const {
  std::vector<std::pair<int64_t, std::string>> order;
  for (const auto& [name, entry] : entries_) order.emplace_back(entry.begin, name);
  std::ranges::stable_sort(order, {}, &std::pair<int64_t, std::string>::first);
  std::vector<std::string> names;
  for (auto& [begin, name] : order) names.push_back(std::move(name));
  return names;
}

Status SafetensorsFile::CheckNotCut() const {
  const Result<FileStamp> stamp = StampFile(label_);
  if (!stamp.ok() || stamp->bytes >= file_bytes()) return OkStatus();
  return UnavailableError(label_ + " became shorter while it was read");
}

int64_t SafetensorsFile::file_bytes() const { return storage_->bytes(); }

std::span<const char> SafetensorsFile::header() const {
  return {storage_->data(), static_cast<size_t>(data_begin_)};
}

Result<std::span<const char>> SafetensorsFile::Bytes(std::string_view name) const {
  const auto it = entries_.find(name);
  if (it == entries_.end()) return NotFoundError(label_ + " has no tensor " + Quoted(name));
  const SafetensorsEntry& entry = it->second;
  return std::span<const char>(storage_->data() + data_begin_ + entry.begin,
                               static_cast<size_t>(entry.end - entry.begin));
}

Result<TensorView> SafetensorsFile::Tensor(std::string_view name) const {
  ASSIGN_OR_RETURN(const std::span<const char> bytes, Bytes(name));
  const SafetensorsEntry& entry = entries_.find(name)->second;
  const std::optional<DType> dtype = ServedDtype(entry.dtype);
  if (!dtype.has_value()) {
    return UnimplementedError(label_ + ": tensor " + Quoted(name) + " has dtype " +
                              Quoted(entry.dtype) + "; supported: F32, BF16, F16");
  }
  return TensorView{bytes.data(), *dtype, entry.shape};
}

Result<SafetensorsSet> SafetensorsSet::Open(const std::string& dir, const std::string& stem) {
  SafetensorsSet set;
  set.dir_ = dir;
  const std::string single = dir + "/" + stem + ".safetensors";
  const std::string index = single + ".index.json";
  if (FileExists(single)) {
    ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(single));
    for (const auto& [name, entry] : file.entries()) set.file_of_.emplace(name, 0);
    set.files_.push_back(std::move(file));
    return set;
  }
  if (!FileExists(index)) {
    const bool is_adapter = FileExists(dir + "/adapter_config.json");
    return NotFoundError("folder " + dir + " has neither " + stem + ".safetensors nor " + stem +
                         ".safetensors.index.json; " +
                         (is_adapter ? "it is an adapter, not a model: give its base as the model, "
                                       "and the folder above it with --adapters"
                                     : "other formats (.bin, .gguf) must be converted"));
  }
  RETURN_IF_ERROR(set.AddShards(dir, index));
  return set;
}

Status SafetensorsSet::AddShards(const std::string& dir, const std::string& index_path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(index_path, kIndexBytesMax));
  const Result<Json> json = ParseJson(text);
  if (!json.ok()) return json.status().WithContext(index_path);
  const bool has_map =
      json->is_object() && json->contains("weight_map") && (*json)["weight_map"].is_object();
  if (!has_map) return InvalidArgumentError(index_path + ": weight_map is missing or no object");

  std::map<std::string, size_t> shard_idx;
  for (const auto& [name, shard_json] : (*json)["weight_map"].items()) {
    if (!shard_json.is_string()) {
      return InvalidArgumentError(index_path + ": the shard of " + Quoted(name) + " is no string");
    }
    const std::string shard = shard_json.get<std::string>();
    const bool is_plain = !shard.empty() && shard != "." && shard != ".." &&
                          shard.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
    if (!is_plain) {
      return PermissionDeniedError(index_path + ": shard " + Quoted(shard) +
                                   " must be a plain file name in the same folder");
    }
    const auto [it, is_new] = shard_idx.try_emplace(shard, files_.size());
    if (is_new) {
      if (files_.size() == kShardsMax) {
        return InvalidArgumentError(index_path + ": more than 4096 shards");
      }
      Result<SafetensorsFile> file = SafetensorsFile::Open(dir + "/" + shard);
      if (!file.ok()) return file.status().WithContext(index_path + ": shard " + Quoted(shard));
      files_.push_back(std::move(*file));
    }
    if (!files_[it->second].Contains(name)) {
      return NotFoundError(index_path + " puts tensor " + Quoted(name) + " into shard " +
                           Quoted(shard) + ", which does not hold it");
    }
    file_of_.emplace(name, it->second);
  }
  return OkStatus();
}

const SafetensorsFile* SafetensorsSet::FileOf(std::string_view name) const {
  const auto it = file_of_.find(name);
  return it == file_of_.end() ? nullptr : &files_[it->second];
}

Result<TensorView> SafetensorsSet::Tensor(std::string_view name) const {
  const SafetensorsFile* const file = FileOf(name);
  if (file == nullptr) return NotFoundError("tensor " + Quoted(name) + " is missing in " + dir_);
  return file->Tensor(name);
}

std::vector<std::string> SafetensorsSet::Names() const {
  std::vector<std::string> names;
  names.reserve(file_of_.size());
  for (const auto& [name, file_idx] : file_of_) names.push_back(name);
  return names;
}

}  // namespace graft
