// Where a machine's certificate, its key and the authority that others' are checked against lie.
// Plain data.
#pragma once

#include <string>

#include "base/status.h"

namespace graft {

struct TlsFiles {
  std::string cert;  // PEM chain
  std::string key;   // PEM
  std::string ca;    // PEM: who signed the others' certificates

  bool is_on() const { return !cert.empty() || !key.empty() || !ca.empty(); }
};

}  // namespace graft
