// TensorSource: where a model's tensors come from while its weights are made, by HF's names:
// files, codes in files that are numbers once read (quantised_source.h), or numbers drawn at
// random. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/packed_matrix.h"
#include "model/safetensors.h"
#include "tensor/buffer.h"
#include "tensor/stream.h"

namespace graft {

// Views live until Release().
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  virtual Result<TensorView> Get(const std::string& name, const std::vector<int64_t>& shape) = 0;
  // The weight as the codes that the files hold, which borrow them; null where it is numbers.
  virtual Result<std::unique_ptr<PackedMatrix>> Packed(const std::string& /*name*/,
                                                       const std::vector<int64_t>& /*shape*/) {
    return std::unique_ptr<PackedMatrix>();
  }
  // Whether the files hold it as codes.
  virtual bool IsCodes(const std::string& /*name*/) const { return false; }
  // Refuses numbers that no weight has, in what is used of a tensor.
  virtual Status Check(const std::string& /*name*/, const TensorView& /*used*/) {
    return OkStatus();
  }
  // Refuses a matrix of which ranks cannot have some columns each.
  virtual Status CheckColumnsApart(const std::string& /*name*/) { return OkStatus(); }
  // Whether the checkpoint has a tensor that it may lack.
  virtual bool Has(const std::string& name) const = 0;
  void* Allocate(int64_t bytes) { return live_.emplace_back(bytes).data(); }
  void Release() { live_.clear(); }

 private:
  std::vector<Buffer> live_;
};

// Plain tensors of a checkpoint's files, which it borrows.
class FileSource : public TensorSource {
 public:
  // `stored`: names in the files of tensors that have others there (StoredTextNames).
  FileSource(const SafetensorsSet& files, Stream& stream,
             std::map<std::string, std::string> stored = {})
      : files_(files), stored_(std::move(stored)), stream_(stream) {}

  // kNotFound: there is none; kInvalidArgument: it has another shape; kUnimplemented: its dtype.
  Result<TensorView> Get(const std::string& of_family, const std::vector<int64_t>& shape) override;
  Status Check(const std::string& name, const TensorView& used) override;
  bool Has(const std::string& name) const override { return files_.Contains(StoredName(name)); }

  const SafetensorsSet& files() const { return files_; }
  // The name in the files of a tensor that the family calls `name`.
  std::string StoredName(const std::string& name) const {
    const auto found = stored_.find(name);
    return found == stored_.end() ? name : found->second;
  }
  // Whether the files may have other names than the family: a wrapper's.
  bool is_wrapped() const { return !stored_.empty(); }
  // Names in the files.
  void Use(const std::string& name) { used_.insert(name); }
  bool used(const std::string& name) const { return used_.contains(name); }

 private:
  const SafetensorsSet& files_;
  const std::map<std::string, std::string> stored_;
  Stream& stream_;
  std::set<std::string> used_;
};

}  // namespace graft
