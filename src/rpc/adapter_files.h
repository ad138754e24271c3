// The files of an adapter as they travel. Plain data; pure functions.
#pragma once

#include <cstddef>

#include "base/adapter_files.h"

namespace graft {

// As they are numbered between machines: a PEFT folder's first, then those of a bundle, then those
// of texts.
inline constexpr size_t kFirstTextFile = kPeftFiles.size() + kBundleFiles.size();
inline constexpr size_t kAdapterFiles = kFirstTextFile + kAdapterTextFiles.size();
inline const char* AdapterFileName(size_t file) {
  if (file < kPeftFiles.size()) return kPeftFiles[file];
  if (file < kFirstTextFile) return kBundleFiles[file - kPeftFiles.size()];
  return kAdapterTextFiles[file - kFirstTextFile];
}
inline constexpr size_t kAdapterChunkBytes = 1 << 20;

}  // namespace graft
