#include "options/markdown.h"

#include <algorithm>
#include <vector>

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
  std::string text;
  for (const std::string& name : AllNames(option)) {
    text += (text.empty() ? "`--" : ", `--") + name + "`";
  }
  return text;
}

// "0.25", "the folder's name", "" for a switch.
std::string DefaultText(const Option& option) {
  return option.default_help.empty() ? option.target.initial : option.default_help;
}

std::string RowText(const Option& option) {
  const OptionTarget& target = option.target;
  std::string values = target.range.empty() ? target.type : target.range;
  if (target.range.empty() && !target.type.empty()) values = "`" + Escaped(target.type) + "`";
  return "| " + FlagText(option) + " | " + values + " | " + Escaped(DefaultText(option)) + " | " +
         Escaped(option.help) + " |\n";
}

class Pages {
 public:
  void Add(const Command& command, const std::string& path) {
    if (command.is_hidden) return;
    for (const Command& one : command.subcommands) Add(one, path + " " + one.name);
    if (command.groups.empty()) return;
    std::string rows, known;
    for (const OptionGroup& group : command.groups) {
      for (const Option& option : group.options) AddOption(option, &rows, &known);
    }
    text_ += (text_.empty() ? "### " : "\n### ") + path + "\n";
    if (!rows.empty()) text_ += "\n| flag | values | default | |\n|---|---|---|---|\n" + rows;
    if (!known.empty()) text_ += "\n" + Wrapped("Also, as above: " + known + ".") + "\n";
  }
  const std::string& text() const { return text_; }

 private:
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
};

}  // namespace

std::string OptionsMarkdown(const Command& program) {
  Pages pages;
  pages.Add(program, program.name);
  return pages.text();
}

}  // namespace graft
