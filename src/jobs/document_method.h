// DocumentMethod: the settings by which a document becomes an adapter. Each setting is one row. The
// flags of `graft learn`, the fields over HTTP, the records and the answers are read and written by
// these rows. Plain data; pure functions; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace graft {

// Before a field's name, over HTTP.
inline constexpr char kMethodPath[] = "method.document.hyperparameters.";

// The answer to a flag and a field of a job, behind its name, unless it is "none".
inline constexpr char kHiddenStatesRemoved[] =
    "was removed since it gained too little; use distill without it";

// 0 and "": the learner's own.
struct DocumentMethod {
  std::string learner;
  int32_t passes = 0;
  int32_t steps = 0;
  int32_t batch = 0;
  double learning_rate_factor = 1.0;  // of all rates
  double learning_rate = 0.0;         // of LoRA
  double prompt_learning_rate = 0.0;  // of virtual tokens
  int32_t rank = 0;
  int32_t virtual_tokens = 0;
  double alpha = 0.0;  // 0: the rank
  int32_t window_tokens = 128;
  double held_out_share = 0.05;
  int32_t questions = 192;  // these: for learners that have texts written
  int32_t outputs = 1;
  int32_t output_tokens = 128;
  int32_t keep = 32;         // texts of a pass that are not about the document, for all but encoder
  double keep_weight = 2.0;  // of their tokens in the loss; the document's count 1
  // Files that are cut into those texts, or their ids; none: the base writes them.
  std::vector<std::string> keep_text;
  std::string prompts = "auto";  // how the base is told what to write
  std::string begin = "own";     // the numbers that an adapter begins with
  int32_t compression = 0;       // of an encoder's memory
  // A job of an earlier version may have another value, and fails by it.
  std::string hidden_states = "none";

  bool operator==(const DocumentMethod&) const = default;
};

// The words of `prompts`: text that the base goes on with, or its chat template's messages; auto:
// these where it has one.
inline constexpr const char* kPromptWords[] = {"auto", "plain", "chat"};
// The words of `begin`: the learner's own numbers, or those of an encoder's adapter.
inline constexpr const char* kBeginWords[] = {"own", "encoder"};
// The words of `learner`.
inline constexpr const char* kLearnerNames[] = {"distill", "next-token", "memory",
                                                "prefix",  "task",       "encoder"};

struct MethodRow {
  template <typename T>
  using Member = T DocumentMethod::*;
  // A number, one of `words`, or a list of at most `max` files.
  std::variant<Member<int32_t>, Member<double>, Member<std::string>,
               Member<std::vector<std::string>>>
      value;
  const char* name;   // in records and in graft.json
  const char* flag;   // of `graft learn`, without its dashes; "": it has none
  const char* field;  // over HTTP; "": it has none
  double min = 0.0, max = 0.0;
  bool is_above = false;  // `min` itself is too little
  // What a value that is not given stands for, where that is no number: "the learner's own". A
  // number of such a row is that where it is 0, and no other value is given as 0 over HTTP.
  const char* own = "";
  std::span<const char* const> words = {};
  bool is_written_by = false;  // graft.json has it for learners that have texts written
  const char* help;
  const char* field_help = help;  // over HTTP, where that is less or asked for otherwise

  bool is_own(double number) const { return *own != '\0' && number == 0.0; }
};

// In the order that people read them in.
std::span<const MethodRow> MethodRows();

// Calls `visit` with the row and its value in `method`, which may be const.
template <typename Method, typename Visit>
void VisitMethod(Method& method, const Visit& visit) {
  for (const MethodRow& row : MethodRows()) {
    std::visit([&](const auto member) { visit(row, method.*member); }, row.value);
  }
}

// What a row's flag or field is called by: "--window-tokens", "window_tokens". A name that no row
// has is a bug.
const MethodRow& MethodRowOf(const char* name);
std::string FlagOf(const char* name);
std::string FieldOf(const char* name);

// The record of a job's method. A reader skips what it does not know, and what is missing is as it
// is where nothing was asked for.
std::string ToJson(const DocumentMethod& method);
DocumentMethod DocumentMethodOf(const std::string& json);

// "" or what is wrong with a number, such as "batch_size is 5000, 2048 at most". For a record that
// another version wrote. A client's fields and a command's flags were already checked by the same
// rows.
std::string OutOfRange(const DocumentMethod& method);

}  // namespace graft
