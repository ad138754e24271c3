// `graft adapters merge` writes a folder with the base model and one adapter merged into its
// weights. The result answers as the served adapter does. The folder gets its name only when it is
// whole. If an empty folder of that name exists, its files get their names then. Main thread.
#pragma once

#include <string>

#include "base/adapter_text.h"
#include "base/file.h"
#include "base/status.h"
#include "model/config.h"

namespace graft {

// What to merge: an adapter that was looked at (InspectAdapter), of LoRA that always acts.
struct MergeOrder {
  std::string model;  // the base's folder
  std::string name;   // the adapter's
  std::string path;   // its folder, read in `jail`
  FileJail jail;
  std::string hash;         // its content's
  bool takes_texts = true;  // files of texts are part of it
  AdapterTextPtr text;      // what they say otherwise
  std::string out;          // not there, or an empty folder
};

// Prints on stdout what was written, and its progress on stderr. kFailedPrecondition: the adapter's
// content has changed, or `out` is taken. kResourceExhausted: the disk has no room.
Status MergeAdapter(const MergeOrder& order, const ModelConfig& config);

}  // namespace graft
