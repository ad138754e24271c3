// Where a model's files are, for the folder that was named: that folder itself, or, of a repository
// in Hugging Face's cache (models--ORG--NAME with refs/main and snapshots/REVISION), its main
// revision's. Pure functions, but for the folders.
#pragma once

#include <string>

#include "base/status.h"

namespace graft {

// `folder` itself where it is no repository of the cache. kNotFound: one without a main revision
// that is there.
Result<std::string> ResolveModelFolder(const std::string& folder);

// By which clients ask for the model there: ORG/NAME of the cache's, else the folder's name.
std::string ModelNameOf(const std::string& folder);

}  // namespace graft
