// A zip file from untrusted hands with stored entries, as torch.save writes it: nothing is
// unpacked, entries are pieces of the file. All that the directory says is checked against the
// file. Pure function; any thread.
#pragma once

#include <map>
#include <string_view>

#include "base/status.h"

namespace graft {

inline constexpr int64_t kZipEntriesMax = int64_t{1} << 18;

// By name; both borrow `file`. kInvalidArgument says what is wrong with it; kUnimplemented: an
// entry is compressed or encrypted, or the file is one of several.
Result<std::map<std::string_view, std::string_view>> ReadZipEntries(std::string_view file);

}  // namespace graft
