// ContentReading: an adapter's weights on their way into memory. They are read in pieces by as many
// threads as are free, and hashed as the pieces arrive, beside whatever the caller does with the
// bytes. Where a memory of hashes knows the files by their identities, nothing is hashed. One
// thread at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "adapters/peft_bytes.h"
#include "base/hash_memory.h"
#include "base/opened_file.h"
#include "base/sha256.h"
#include "base/status.h"
#include "base/work_crew.h"
#include "model/file_bytes.h"

namespace graft {

// What makes reading fast. Null: the caller's thread does it all; every content is hashed.
struct AdapterReadHelp {
  WorkCrew* crew = nullptr;
  HashMemory* memory = nullptr;
};

// Names and bytes: see ReadAdapterTextFiles.
using AdapterTextFiles = std::vector<std::pair<std::string, std::string>>;

// SHA-256 takes for each file its length in eight little-endian bytes and then its bytes.
void HashLength(Sha256& hash, int64_t bytes);
void HashFile(Sha256& hash, std::string_view bytes);

// A PEFT folder with its config read and its weights open; neither, where a bundle lacks it.
struct OpenedAdapterFolder {
  std::string path;
  std::string config;
  std::optional<OpenedFile> weights;
  std::string label = "";  // the path of the file of weights
};

class ContentReading {
 public:
  // `since_ns`: FileTimeNow from before the files were opened.
  ContentReading(std::vector<OpenedAdapterFolder> folders, int64_t since_ns,
                 const AdapterReadHelp& help);
  ContentReading(const ContentReading&) = delete;
  ContentReading& operator=(const ContentReading&) = delete;

  const std::vector<OpenedAdapterFolder>& folders() const { return folders_; }
  // The hash of the folders and these texts, as the files were when they were opened, if it is
  // remembered.
  std::optional<std::string> KnownHash(const AdapterTextFiles& texts) const;
  // Returns once all weights are in memory; `hashes`: a hash is begun beside. Called once.
  // kResourceExhausted where the memory has no room, kUnavailable where a file became shorter,
  // kCancelled where the thread's work is unwanted, after the reads of the system that run.
  Status Read(bool hashes);
  const FileBytes& weights(size_t folder) const { return weights_[folder]; }
  // A folder that another program wrote counts as what PEFT writes of it, also for its hash, which
  // is not begun before. After Read.
  void Replace(size_t folder, PeftBytes bytes);
  // The hash of what was read, and of these texts. Waits for it; it is remembered if the files are
  // as they were when they were opened.
  std::string Hash(const AdapterTextFiles& texts);

 private:
  struct Piece {
    size_t folder = 0;
    int64_t begin = 0;
    int64_t bytes = 0;
  };
  void ReadPiece(int64_t piece_idx);
  void BeginHash();
  void HashPieces();
  std::string KeyOf(const AdapterTextFiles& texts) const;
  bool HasChanged() const;
  bool MayRemember() const;

  std::vector<OpenedAdapterFolder> folders_;  // closed once their weights are read
  std::vector<std::optional<FileIdentity>> identities_;
  const int64_t since_ns_;
  const AdapterReadHelp help_;
  std::vector<std::string> config_digests_;  // of the files, also where they were replaced
  std::vector<bool> is_replaced_;
  std::vector<FileBytes> weights_;
  std::vector<char*> targets_;  // where the bytes of weights_ are written to
  std::vector<Piece> pieces_;
  std::vector<Status> piece_status_;
  std::atomic<bool> has_failed_{false};
  bool has_changed_ = false;  // since the files were opened
  Sha256 of_folders_;
  std::optional<WorkCrew::Batch> reading_;
  std::optional<WorkCrew::Batch> hashing_;  // waits for pieces of the other: ends first
};

}  // namespace graft
