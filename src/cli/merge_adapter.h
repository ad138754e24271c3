// `graft adapters merge`: a folder of the base with an adapter merged into it, which answers as the
// served adapter does. It comes to its name when it is whole; in an empty folder that is there, its
// files come to theirs then. Main thread.
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

// Tells on stdout what was written, and on stderr how far it is. kFailedPrecondition where the
// adapter's content is another one by now or `out` is taken, kResourceExhausted where the disk has
// no room.
Status MergeAdapter(const MergeOrder& order, const ModelConfig& config);

}  // namespace graft
