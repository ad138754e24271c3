// Subcommands: a tree of names. Its leaves have options and something to run. Plain data, no parser
// in it. One thread.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "options/option.h"

namespace graft {

// What a picked subcommand does, its options read.
using CommandRun = std::function<Status()>;

struct OptionGroup {
  std::string title;
  std::vector<Option> options;
};

// A flag of other programs, and what stands in its place: "use --context-tokens-max".
struct ForeignFlag {
  const char* name;  // without the dashes
  const char* advice;
};

struct Command {
  std::string name;
  std::string help;                  // lines that begin with two spaces are examples
  std::vector<OptionGroup> groups;   // of a leaf
  CommandRun run;                    // of a leaf; owns what the options point to
  std::vector<Command> subcommands;  // of any other
  bool is_hidden = false;            // from help: not for people
  // Before the options' names in capitals; "" for none of them, and no --config.
  std::string environment_prefix = "GRAFT_";
  std::span<const ForeignFlag> foreign_flags = {};  // that people try; static
  // OK, or why there is no such command here: its name is known, and whatever follows, it fails so.
  Status refusal;
};

}  // namespace graft
