#include "adapters/torch_weights.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "adapters/strided_tensors.h"
#include "adapters/tensor_pickle.h"
#include "adapters/zip_entries.h"

namespace graft {
namespace {

constexpr std::string_view kZipBegin = "PK\x03\x04";
constexpr std::string_view kPickleName = "/data.pkl";
// torch.save without _use_new_zipfile_serialization: a pickle of a magic number comes first.
constexpr std::string_view kOldBegin = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
constexpr std::string_view kTarMagic = "ustar";
constexpr size_t kTarMagicAt = 257;

bool IsTar(std::string_view file) {
  return file.size() >= kTarMagicAt + kTarMagic.size() &&
         file.substr(kTarMagicAt, kTarMagic.size()) == kTarMagic;
}

using Entries = std::map<std::string_view, std::string_view>;

// "archive" of archive/data.pkl, of which there is one.
Result<std::string_view> RootOf(const Entries& entries) {
  std::string_view root;
  int num_found = 0;
  for (const auto& [name, bytes] : entries) {
    if (!name.ends_with(kPickleName)) continue;
    root = name.substr(0, name.size() - kPickleName.size());
    ++num_found;
  }
  if (num_found == 1) return root;
  return InvalidArgumentError("is a zip file, and no checkpoint of torch: it has " +
                              std::to_string(num_found) + " files data.pkl");
}

Status CheckByteOrder(const Entries& entries, std::string_view root) {
  const auto order = entries.find(std::string(root) + "/byteorder");
  if (order == entries.end() || order->second == "little") return OkStatus();
  return UnimplementedError("was written by a machine of another byte order");
}

Result<StridedTensor> FindTensor(const Entries& entries, std::string_view root,
                                 const PickledTensor& pickled) {
  const PickledStorage& storage = pickled.storage;
  StridedTensor tensor{.name = std::string(pickled.name),
                       .dtype = std::string(storage.dtype),
                       .element_bytes = storage.element_bytes,
                       .shape = pickled.shape,
                       .strides = pickled.strides};
  const auto wrong = [&tensor](std::string_view what) {
    return InvalidArgumentError("tensor \"" + tensor.name + "\" " + std::string(what));
  };
  const auto is_plain = [](char c) { return c > ' ' && c <= '~'; };
  if (!std::ranges::all_of(tensor.name, is_plain)) {
    return InvalidArgumentError("a tensor's name is no name of a module");
  }
  const auto entry = entries.find(std::string(root) + "/data/" + std::string(storage.key));
  if (entry == entries.end()) return wrong("has its elements in a file that is not there");
  const std::string_view bytes = entry->second;
  int64_t stored = 0;
  if (__builtin_mul_overflow(storage.num_elements, storage.element_bytes, &stored) ||
      stored != static_cast<int64_t>(bytes.size())) {
    return wrong("has a storage of another size than its file");
  }
  ASSIGN_OR_RETURN(const int64_t reach, ReachOf(tensor));
  if (pickled.offset > storage.num_elements ||
      reach > stored - pickled.offset * storage.element_bytes) {
    return wrong("reaches beyond its storage");
  }
  tensor.data = bytes.data() + pickled.offset * storage.element_bytes;
  return tensor;
}

}  // namespace

bool LooksLikeTorch(std::string_view file) {
  return file.starts_with(kZipBegin) || file.starts_with(kOldBegin) || IsTar(file);
}

Result<FileBytes> SafetensorsOfTorch(std::string_view file) {
  if (!LooksLikeTorch(file)) {
    return InvalidArgumentError(
        "is no file that torch.save writes; is it still being copied, or a Git LFS pointer?");
  }
  if (!file.starts_with(kZipBegin)) {
    return UnimplementedError(
        "is of the form that torch.save wrote before 1.6 (no zip file), which is not read; load it "
        "with torch and save it again, with safe_serialization=True where PEFT saves it");
  }
  ASSIGN_OR_RETURN(const Entries entries, ReadZipEntries(file));
  ASSIGN_OR_RETURN(const std::string_view root, RootOf(entries));
  RETURN_IF_ERROR(CheckByteOrder(entries, root));
  const auto pickle = entries.find(std::string(root) + std::string(kPickleName));
  ASSIGN_OR_RETURN(const std::vector<PickledTensor> pickled, ReadTensorPickle(pickle->second));
  std::vector<StridedTensor> tensors;
  tensors.reserve(pickled.size());
  for (const PickledTensor& one : pickled) {
    ASSIGN_OR_RETURN(StridedTensor tensor, FindTensor(entries, root, one));
    tensors.push_back(std::move(tensor));
  }
  return WriteStridedTensors(std::move(tensors),
                             kTorchGrowthMax * static_cast<int64_t>(file.size()));
}

}  // namespace graft
