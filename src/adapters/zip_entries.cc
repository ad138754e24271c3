#include "adapters/zip_entries.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

namespace graft {
namespace {

static_assert(std::endian::native == std::endian::little, "zip files are little endian");

// PKWARE's APPNOTE 6.3.10: records, their lengths without names and further fields.
constexpr uint32_t kLocalHeader = 0x04034b50;
constexpr size_t kLocalHeaderBytes = 30;
constexpr uint32_t kDirectoryEntry = 0x02014b50;
constexpr size_t kDirectoryEntryBytes = 46;
constexpr uint32_t kDirectoryEnd = 0x06054b50;
constexpr size_t kDirectoryEndBytes = 22;
constexpr uint32_t kWideEnd = 0x06064b50;
constexpr size_t kWideEndBytes = 56;
constexpr uint32_t kWideLocator = 0x07064b50;
constexpr size_t kWideLocatorBytes = 20;
constexpr size_t kCommentMax = 0xFFFF;
constexpr uint16_t kWideField = 1;  // of a directory entry: sizes of 64 bits
constexpr uint32_t kIsWide = 0xFFFFFFFF;
constexpr uint16_t kEncrypted = 1;  // a bit of the flags

Status Broken(std::string_view what) {
  return InvalidArgumentError("is no whole zip file (" + std::string(what) +
                              "); is it still being copied?");
}

template <typename T>
T At(std::string_view bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

struct ZipDirectory {
  uint64_t num_entries = 0;
  uint64_t begin = 0;
  uint64_t bytes = 0;
};

// The directory's end is the file's, behind a comment of any length.
Result<ZipDirectory> FindDirectory(std::string_view file) {
  if (file.size() < kDirectoryEndBytes) return Broken("too short");
  const size_t first = file.size() - std::min(file.size(), kDirectoryEndBytes + kCommentMax);
  size_t at = file.size() - kDirectoryEndBytes;
  while (At<uint32_t>(file, at) != kDirectoryEnd ||
         at + kDirectoryEndBytes + At<uint16_t>(file, at + 20) != file.size()) {
    if (at == first) return Broken("no directory at its end");
    --at;
  }
  ZipDirectory directory{.num_entries = At<uint16_t>(file, at + 10),
                         .begin = At<uint32_t>(file, at + 16),
                         .bytes = At<uint32_t>(file, at + 12)};
  const bool has_wide = at >= kWideLocatorBytes + kWideEndBytes &&
                        At<uint32_t>(file, at - kWideLocatorBytes) == kWideLocator;
  if (!has_wide) return directory;
  const auto wide = At<uint64_t>(file, at - kWideLocatorBytes + 8);
  if (wide > at - kWideLocatorBytes - kWideEndBytes || At<uint32_t>(file, wide) != kWideEnd) {
    return Broken("its directory's end is not where it says");
  }
  directory.num_entries = At<uint64_t>(file, wide + 32);
  directory.bytes = At<uint64_t>(file, wide + 40);
  directory.begin = At<uint64_t>(file, wide + 48);
  return directory;
}

struct ZipEntry {
  std::string_view name;
  uint64_t bytes = 0;   // in the file
  uint64_t whole = 0;   // as they were
  uint64_t header = 0;  // where its local header begins
};

// Numbers that did not fit into 32 bits stand in a further field, in this order.
Status ReadWideField(std::string_view fields, ZipEntry& entry) {
  while (fields.size() >= 4) {
    const auto id = At<uint16_t>(fields, 0);
    const size_t length = At<uint16_t>(fields, 2);
    if (length > fields.size() - 4) return Broken("a field is cut off");
    std::string_view field = fields.substr(4, length);
    fields.remove_prefix(4 + length);
    if (id != kWideField) continue;
    for (uint64_t* const number : {&entry.whole, &entry.bytes, &entry.header}) {
      if (*number != kIsWide) continue;
      if (field.size() < sizeof(uint64_t)) return Broken("a field is cut off");
      *number = At<uint64_t>(field, 0);
      field.remove_prefix(sizeof(uint64_t));
    }
  }
  return OkStatus();
}

// The bytes of an entry, behind a header that has the name once more.
Result<std::string_view> BytesOfEntry(std::string_view file, const ZipEntry& entry) {
  const auto lies_outside = [&](uint64_t begin, uint64_t bytes) {
    return begin > file.size() || bytes > file.size() - begin;
  };
  if (lies_outside(entry.header, kLocalHeaderBytes)) return Broken("an entry lies outside");
  if (At<uint32_t>(file, entry.header) != kLocalHeader) return Broken("an entry has no header");
  const uint64_t name = entry.header + kLocalHeaderBytes;
  const uint64_t name_bytes = At<uint16_t>(file, entry.header + 26);
  const uint64_t begin = name + name_bytes + At<uint16_t>(file, entry.header + 28);
  if (lies_outside(name, name_bytes) || lies_outside(begin, entry.bytes)) {
    return Broken("an entry lies outside");
  }
  if (file.substr(name, name_bytes) != entry.name) return Broken("an entry has two names");
  return file.substr(begin, entry.bytes);
}

}  // namespace

Result<std::map<std::string_view, std::string_view>> ReadZipEntries(std::string_view file) {
  ASSIGN_OR_RETURN(const ZipDirectory directory, FindDirectory(file));
  if (directory.num_entries > uint64_t{kZipEntriesMax}) {
    return InvalidArgumentError("has more than " + std::to_string(kZipEntriesMax) + " entries");
  }
  if (directory.begin > file.size() || directory.bytes > file.size() - directory.begin) {
    return Broken("its directory lies outside");
  }
  std::string_view rest = file.substr(directory.begin, directory.bytes);
  std::map<std::string_view, std::string_view> entries;
  for (uint64_t i = 0; i < directory.num_entries; ++i) {
    if (rest.size() < kDirectoryEntryBytes || At<uint32_t>(rest, 0) != kDirectoryEntry) {
      return Broken("its directory ends early");
    }
    const size_t name_bytes = At<uint16_t>(rest, 28);
    const size_t field_bytes = At<uint16_t>(rest, 30);
    const size_t entry_bytes =
        kDirectoryEntryBytes + name_bytes + field_bytes + At<uint16_t>(rest, 32);
    if (entry_bytes > rest.size()) return Broken("its directory ends early");
    ZipEntry entry{.name = rest.substr(kDirectoryEntryBytes, name_bytes),
                   .bytes = At<uint32_t>(rest, 20),
                   .whole = At<uint32_t>(rest, 24),
                   .header = At<uint32_t>(rest, 42)};
    RETURN_IF_ERROR(
        ReadWideField(rest.substr(kDirectoryEntryBytes + name_bytes, field_bytes), entry));
    const bool is_stored = At<uint16_t>(rest, 10) == 0 && entry.bytes == entry.whole;
    if (!is_stored || (At<uint16_t>(rest, 8) & kEncrypted) != 0) {
      return UnimplementedError(
          "has compressed or encrypted entries, which torch.save does not write; save it again");
    }
    ASSIGN_OR_RETURN(const std::string_view bytes, BytesOfEntry(file, entry));
    if (!entries.emplace(entry.name, bytes).second) return Broken("an entry is there twice");
    rest.remove_prefix(entry_bytes);
  }
  return entries;
}

}  // namespace graft
