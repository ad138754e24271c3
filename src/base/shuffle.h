// A random order: every one is as likely (Fisher and Yates).
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "base/random.h"

namespace graft {

template <typename T>
void Shuffle(std::vector<T>& values, Random& random) {
  for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random.Below(i)]);
}

}  // namespace graft
