// Subcommands: a tree of names, whose leaves have options and something to run. Plain data, no
// parser in it. One thread.
#pragma once

#include <functional>
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

struct Command {
  std::string name;
  std::string help;                  // lines that begin with two spaces are examples
  std::vector<OptionGroup> groups;   // of a leaf
  CommandRun run;                    // of a leaf; owns what the options point to
  std::vector<Command> subcommands;  // of any other
  bool is_hidden = false;            // from help: not for people
  // Before the options' names in capitals; "" for none of them, and no --config.
  std::string environment_prefix = "GRAFT_";
};

}  // namespace graft
