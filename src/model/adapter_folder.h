// A PEFT folder's two files, read once into memory, and their identity. What is hashed is what is
// loaded: a file that changes in between cannot slip in. Plain data; any thread.
#pragma once

#include <string>

#include "base/status.h"

namespace graft {

struct AdapterFolder {
  std::string path;
  std::string config;   // adapter_config.json
  std::string weights;  // adapter_model.safetensors
};

// kNotFound names the missing file; pickled weights (adapter_model.bin) are kUnimplemented and the
// error says how to convert them.
Result<AdapterFolder> ReadAdapterFolder(const std::string& path);

// The adapter's identity: SHA-256 over, for config and then weights, the file's length in eight
// little-endian bytes and its bytes; 64 hexadecimal digits. The folder's name is no part of it.
std::string AdapterHash(const AdapterFolder& folder);

}  // namespace graft
