// Which bits come out: machines with equal ids give the same tokens and log-probabilities for the
// same request, so that one can go on where another stopped. Pure function; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "layers/served_types.h"
#include "tensor/device.h"
#include "tensor/device_traits.h"

namespace graft {

struct ArithmeticParts {
  ServedTypes types;
  int32_t page_tokens = 0;
  int32_t ranks = 1;  // that share the products
  // The format of a base that is codes in its files: another one, or the same model in plain
  // numbers, gives other tokens. "" for plain numbers.
  std::string base_codes = "";
};

// The id's word for a GPU: "hopper" where its own kernels run; else the compute capability, as
// tensor cores of each add up in their own way, as "sm80", "sm89" or "sm120"; and "sm90-as-ampere"
// where GRAFT_GPU_FAMILY chooses the kernels. These texts stay: servers of two versions compare
// them while one replaces the other.
std::string GpuArithmetic(const DeviceTraits& traits);

// For example "k3 cpu-avx512bf16 bf16 kv-fp16 page16 ranks1". Servers of one cluster compare it, so
// types that have always been alike stand in it only where they differ.
std::string MakeArithmeticId(const Device& device, const ArithmeticParts& parts);

}  // namespace graft
