// A table of an op's kernels on GPUs: what the card must have, what arguments it takes, and how it
// is launched. They are tried in order, and the last one takes, on every card, what the others
// leave. A kernel is added as a row; nothing else chooses. Constant data; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "tensor/device_traits.h"
#include "tensor/stream.h"

namespace graft {

struct CardNeeds {
  bool hopper_code = false;
  int shared_bytes = 0;  // of one thread block

  bool AreMetBy(const DeviceTraits& traits) const {
    return (!hopper_code || traits.has_hopper_code) && traits.shared_bytes_max >= shared_bytes;
  }
};

template <typename Args>
struct KernelRow {
  std::string_view name;
  std::string_view takes;  // what `can` says, for people
  CardNeeds needs;
  bool (*can)(const Args& args);  // null: all
  void (*launch)(const Args& args, Stream& stream);
};

// Row: a KernelRow<Args>, or what is derived from it.
template <typename Row, size_t kRows, typename Args>
const Row& ChooseKernel(const Row (&table)[kRows], const Args& args, const DeviceTraits& traits) {
  for (const Row& row : table) {
    if (row.needs.AreMetBy(traits) && (row.can == nullptr || row.can(args))) return row;
  }
  CHECK(false) << "no kernel on this card; the last was " << table[kRows - 1].name;
  __builtin_unreachable();
}

// A row as it is printed.
struct KernelFacts {
  std::string_view op;
  std::string_view name;
  std::string_view takes;
  CardNeeds needs;
};

using KernelList = std::vector<KernelFacts>;

template <typename Row, size_t kRows>
void TellKernels(std::string_view op, const Row (&table)[kRows], KernelList* list) {
  for (const Row& row : table) list->push_back({op, row.name, row.takes, row.needs});
}

}  // namespace graft
