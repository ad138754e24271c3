// QuantisedSource: a checkpoint with weights of codes, as a TensorSource. A weight that the files
// hold as codes is dequantised when it is asked for, on the stream's threads, in the bits of the
// library that wrote it; all others are the files'. So one weight at a time is in memory twice.
// What computes with codes asks for Packed instead. One thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "model/packed_matrix.h"
#include "model/quantisation_config.h"
#include "model/tensor_source.h"

namespace graft {

class QuantisedSource : public TensorSource {
 public:
  // Borrows all of them.
  static Result<std::unique_ptr<QuantisedSource>> Make(FileSource& files,
                                                       const QuantisationConfig& config,
                                                       Stream& stream);

  Result<TensorView> Get(const std::string& name, const std::vector<int64_t>& shape) override;
  Status Check(const std::string& name, const TensorView& used) override;
  // kUnimplemented where the inputs of a group of codes lie apart.
  Status CheckColumnsApart(const std::string& name) override;
  bool IsCodes(const std::string& name) const override { return ModuleWithCodes(name).has_value(); }
  bool Has(const std::string& name) const override;

  // Errors name a tensor or a field.
  Result<std::unique_ptr<PackedMatrix>> Packed(const std::string& name,
                                               const std::vector<int64_t>& shape) override;

 private:
  QuantisedSource(FileSource& files, const QuantisationConfig& config, ModuleSchemes schemes,
                  Stream& stream)
      : files_(files), config_(config), schemes_(std::move(schemes)), stream_(stream) {}

  // The module of a weight with codes, as the files call it.
  std::optional<std::string> ModuleWithCodes(const std::string& name) const;

  FileSource& files_;
  const QuantisationConfig& config_;
  ModuleSchemes schemes_;
  Stream& stream_;
  std::string scattered_;  // the last weight that was read, if its groups' inputs lie apart
};

// Whether a tensor that nothing read changes no answer: a scale of an 8-bit cache of keys and
// values, which is kept in 16 bits or more here.
bool IsScaleOfCache(std::string_view name);
// A bias of zeros, as older writers of GPTQ put beside every product.
bool IsBiasOfZeros(const SafetensorsSet& files, const std::string& name);

}  // namespace graft
