#include "adapters/content_reading.h"

#include <algorithm>
#include <new>

#include "base/check.h"

namespace graft {
namespace {

// Long enough to be worth a helper's waking, short enough to be hashed while it is in a cache.
constexpr int64_t kPieceBytes = int64_t{1} << 20;

}  // namespace

void HashLength(Sha256& hash, int64_t bytes) {
  unsigned char length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<unsigned char>(bytes >> (8 * i));
  hash.Update(length, sizeof(length));
}

void HashFile(Sha256& hash, std::string_view bytes) {
  HashLength(hash, static_cast<int64_t>(bytes.size()));
  hash.Update(bytes);
}

ContentReading::ContentReading(std::vector<OpenedAdapterFolder> folders, int64_t since_ns,
                               const AdapterReadHelp& help)
    : folders_(std::move(folders)),
      since_ns_(since_ns),
      help_(help),
      is_replaced_(folders_.size()),
      weights_(folders_.size()),
      targets_(folders_.size()) {
  for (const OpenedAdapterFolder& folder : folders_) {
    config_digests_.push_back(Sha256Of(folder.config));
    identities_.push_back(folder.weights.has_value() ? std::optional(folder.weights->identity())
                                                     : std::nullopt);
  }
}

// Texts and configs are read anyway, so that only the weights are known by their identity.
std::string ContentReading::KeyOf(const AdapterTextFiles& texts) const {
  std::string key;
  for (size_t i = 0; i < folders_.size(); ++i) {
    key += config_digests_[i];
    if (identities_[i].has_value()) {
      const FileIdentity& file = *identities_[i];
      for (const uint64_t part : {file.device, file.inode}) key += " " + std::to_string(part);
      for (const int64_t part : {file.bytes, file.modified_ns, file.changed_ns}) {
        key += " " + std::to_string(part);
      }
    }
    key += "\n";
  }
  for (const auto& [name, bytes] : texts) key += name + " " + Sha256Of(bytes) + "\n";
  return key;
}

std::optional<std::string> ContentReading::KnownHash(const AdapterTextFiles& texts) const {
  if (help_.memory == nullptr) return std::nullopt;
  return help_.memory->Find(KeyOf(texts));
}

Status ContentReading::Read(bool hashes) {
  for (size_t i = 0; i < folders_.size(); ++i) {
    if (!folders_[i].weights.has_value()) continue;
    const OpenedFile& file = *folders_[i].weights;
    try {
      Buffer bytes(file.bytes());
      targets_[i] = bytes.as<char>();
      weights_[i] = FileBytes(std::move(bytes));
    } catch (const std::bad_alloc&) {
      return ResourceExhaustedError(file.path() + " has " + std::to_string(file.bytes()) +
                                    " bytes, which the memory has no room for at the moment");
    }
    for (int64_t begin = 0; begin < file.bytes(); begin += kPieceBytes) {
      pieces_.push_back({i, begin, std::min(kPieceBytes, file.bytes() - begin)});
    }
  }
  piece_status_.resize(pieces_.size());
  reading_.emplace(
      help_.crew, std::ssize(pieces_), [this](int64_t piece) { ReadPiece(piece); },
      WorkCrew::Pieces::kRead);
  if (hashes) BeginHash();
  // Without helpers each piece is hashed once it is there, so that unwanted work ends between them.
  if (hashes && help_.crew == nullptr) hashing_->Wait();
  reading_->Wait();
  for (const Status& status : piece_status_) RETURN_IF_ERROR(status);
  has_changed_ = HasChanged();
  for (OpenedAdapterFolder& folder : folders_) folder.weights.reset();
  return OkStatus();
}

void ContentReading::ReadPiece(int64_t piece_idx) {
  if (has_failed_) return;
  const Piece& piece = pieces_[static_cast<size_t>(piece_idx)];
  Status status = folders_[piece.folder].weights->ReadAt(piece.begin, piece.bytes,
                                                         targets_[piece.folder] + piece.begin);
  if (status.ok()) return;
  has_failed_ = true;
  piece_status_[static_cast<size_t>(piece_idx)] = std::move(status);
}

void ContentReading::Replace(size_t folder, PeftBytes bytes) {
  CHECK(!hashing_.has_value()) << "the files as they were are hashed";
  folders_[folder].config = std::move(bytes.config);
  weights_[folder] = std::move(bytes.weights);
  is_replaced_[folder] = true;
}

void ContentReading::BeginHash() {
  hashing_.emplace(
      help_.crew, 1, [this](int64_t) { HashPieces(); }, WorkCrew::Pieces::kFollow);
}

void ContentReading::HashPieces() {
  int64_t next = 0;
  for (size_t i = 0; i < folders_.size(); ++i) {
    HashFile(of_folders_, folders_[i].config);
    HashLength(of_folders_, weights_[i].bytes());
    if (is_replaced_[i]) of_folders_.Update(weights_[i].view());
    for (; next < std::ssize(pieces_) && pieces_[static_cast<size_t>(next)].folder == i; ++next) {
      reading_->WaitFor(next);
      if (has_failed_) return;
      if (is_replaced_[i]) continue;
      const Piece& piece = pieces_[static_cast<size_t>(next)];
      of_folders_.Update(weights_[i].data() + piece.begin, static_cast<size_t>(piece.bytes));
    }
  }
}

bool ContentReading::HasChanged() const {
  return std::any_of(folders_.begin(), folders_.end(), [](const OpenedAdapterFolder& folder) {
    if (!folder.weights.has_value()) return false;
    const Result<FileIdentity> now = folder.weights->Look();
    return !now.ok() || *now != folder.weights->identity();
  });
}

bool ContentReading::MayRemember() const {
  if (help_.memory == nullptr || has_changed_) return false;
  return std::all_of(
      identities_.begin(), identities_.end(), [this](const std::optional<FileIdentity>& identity) {
        return !identity.has_value() || help_.memory->MayRemember(*identity, since_ns_);
      });
}

std::string ContentReading::Hash(const AdapterTextFiles& texts) {
  if (!has_changed_) {
    if (std::optional<std::string> known = KnownHash(texts)) return *std::move(known);
  }
  if (!hashing_.has_value()) BeginHash();
  hashing_->Wait();
  Sha256 hash = of_folders_.Copy();
  for (const auto& [name, bytes] : texts) {
    HashFile(hash, name);
    HashFile(hash, bytes);
  }
  std::string digest = hash.HexDigest();
  if (MayRemember()) help_.memory->Remember(KeyOf(texts), digest);
  return digest;
}

}  // namespace graft
