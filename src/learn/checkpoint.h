// Checkpoint: the numbers and the state of a run that learns, in one safetensors file that names
// its run. A file of another run or of another program is not taken. One thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/status.h"
#include "model/safetensors.h"

namespace graft {

struct CheckpointPart {
  std::string name;
  std::span<float> values;
};

// Replaces the file at `path`. `identity` names all that the run depends on, `state` is its own
// text.
Status WriteCheckpoint(const std::string& path, std::span<const CheckpointPart> parts,
                       const std::string& identity, const std::string& state);

class Checkpoint {
 public:
  // Returns nothing if there is no file, or if it is damaged or another run's. Fails if it cannot
  // be read for now (base/fault.h).
  static Result<std::optional<Checkpoint>> Open(const std::string& path,
                                                const std::string& identity);

  bool Contains(const std::string& name) const { return file_.Contains(name); }
  const std::string& state() const { return state_; }
  // Returns kInvalidArgument if a part is missing or of another size; then no part is changed.
  Status Read(std::span<const CheckpointPart> parts) const;

 private:
  Checkpoint(SafetensorsFile file, std::string state)
      : file_(std::move(file)), state_(std::move(state)) {}

  SafetensorsFile file_;
  std::string state_;
};

}  // namespace graft
