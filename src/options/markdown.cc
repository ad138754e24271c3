#include "options/markdown.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "options/tune.h"

namespace graft {
namespace {

constexpr size_t kColumnsMax = 120;

std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string FlagText(const Option& option) {
  if (option.is_positional) return "`" + option.name + "`";
  return "`--" + Joined(AllNames(option), "`, `--") + "`";
}

// "0.25", "the folder's name", "" for a switch.
std::string DefaultText(const Option& option) {
  return option.default_help.empty() ? option.target.initial : option.default_help;
}

std::string ValuesText(const OptionTarget& target) {
  if (!target.range.empty() || target.type.empty()) return target.range;
  return "`" + Escaped(target.type) + "`";
}

std::string RowText(const Option& option) {
  return "| " + FlagText(option) + " | " + ValuesText(option.target) + " | " +
         Escaped(DefaultText(option)) + " | " + Escaped(option.help) + " |\n";
}

// All but its commands.
std::string KeyRowText(const Option& option) {
  return "| `" + FirstName(option) + "` | " + ValuesText(option.target) + " | " +
         Escaped(DefaultText(option)) + " | " + option.unit + " | " + Escaped(option.help) + " | ";
}

class Pages {
 public:
  void Add(const Command& command, const std::string& path) {
    if (command.is_hidden) return;
    for (const Command& one : command.subcommands) Add(one, path + " " + one.name);
    if (command.groups.empty()) return;
    std::string rows, known;
    for (const OptionGroup& group : command.groups) {
      for (const Option& option : group.options) {
        option.is_tuned ? AddKey(option, path) : AddOption(option, &rows, &known);
      }
    }
    if (!TunedRows(command).empty()) {
      AddOption(TuneRow(command, /*with_keys=*/false), &rows, &known);
    }
    text_ += (text_.empty() ? "### " : "\n### ") + path + "\n";
    if (!rows.empty()) text_ += "\n| flag | values | default | |\n|---|---|---|---|\n" + rows;
    if (!known.empty()) text_ += "\n" + Wrapped("Also, as above: " + known + ".") + "\n";
  }
  // All tables; the keys of --tune come last.
  std::string Text() const {
    if (keys_.empty()) return text_;
    std::string rows;
    for (const auto& [row, commands] : keys_) rows += row + commands + " |\n";
    return text_ +
           "\n### Keys of --tune\n\n| key | values | default | unit | | of |\n"
           "|---|---|---|---|---|---|\n" +
           rows;
  }

 private:
  void AddKey(const Option& option, const std::string& path) {
    const std::string row = KeyRowText(option);
    const std::string command = "`" + path + "`";
    for (auto& [text, commands] : keys_) {
      if (text == row) {
        commands += ", " + command;
        return;
      }
    }
    keys_.emplace_back(row, command);
  }

  void AddOption(const Option& option, std::string* rows, std::string* known) {
    if (option.is_removed) return;
    const std::string row = RowText(option);
    if (std::find(rows_.begin(), rows_.end(), row) != rows_.end()) {
      *known += (known->empty() ? "" : ", ") + FlagText(option);
      return;
    }
    rows_.push_back(row);
    *rows += row;
  }

  static std::string Wrapped(const std::string& words) {
    std::string wrapped;
    size_t line_begin = 0;
    for (size_t begin = 0; begin < words.size();) {
      const size_t end = std::min(words.find(' ', begin), words.size());
      if (!wrapped.empty()) {
        const bool fits = wrapped.size() - line_begin + 1 + (end - begin) <= kColumnsMax;
        wrapped += fits ? ' ' : '\n';
        if (!fits) line_begin = wrapped.size();
      }
      wrapped += words.substr(begin, end - begin);
      begin = end + 1;
    }
    return wrapped;
  }

  std::string text_;
  std::vector<std::string> rows_;
  std::vector<std::pair<std::string, std::string>> keys_;  // a key's row and its commands
};

}  // namespace

std::string OptionsMarkdown(const Command& program) {
  Pages pages;
  pages.Add(program, program.name);
  return pages.Text();
}

}  // namespace graft
