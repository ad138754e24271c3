// Where a machine's certificate, its key and the authority that others' are checked against lie.
// Plain data.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace graft {

struct TlsFiles {
  std::string cert;        // PEM chain
  std::string key;         // PEM
  std::string ca;          // PEM: the authority that signed the others' certificates
  uint32_t reread_s = 10;  // between two looks of a server whether they have changed

  bool is_on() const { return !cert.empty() || !key.empty() || !ca.empty(); }
};

}  // namespace graft
