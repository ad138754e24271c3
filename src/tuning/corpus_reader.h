// CorpusReader: documents with questions for an encoder's training, from lines of
//   {"text": ..., "questions": [{"question": ..., "answer": ..., "begin": ..., "end": ...}, ...]}
// An answer can be read in characters [begin, end) of the text; without these, in all of it. Lines
// come from a file, from a folder's files *.jsonl in the order of their names, or, for "-", from
// the standard input. A few threads tokenize lines ahead; the order stays. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <fstream>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "learn/corpus_run.h"
#include "text/tokenizer.h"
#include "tuning/asked_form.h"

namespace graft {

// A line as above. Nothing for a document without questions. kInvalidArgument says what is wrong.
Result<std::optional<TaughtDocument>> TaughtDocumentOf(const std::string& line,
                                                       const AskedForm& texts,
                                                       const Tokenizer& tokenizer);

class CorpusReader : public DocumentSource {
 public:
  // All is borrowed. kNotFound if there is nothing at `path`.
  static Result<std::unique_ptr<CorpusReader>> Open(const std::string& path, int32_t num_threads,
                                                    const AskedForm& texts,
                                                    const Tokenizer& tokenizer);
  Result<std::optional<TaughtDocument>> Next() override;
  // Leaves out so many documents. The standard input goes on elsewhere by itself.
  Status Skip(int64_t documents);

 private:
  struct Line {
    std::string text;
    std::string where;  // file and line
  };
  using Documents = Result<std::vector<TaughtDocument>>;

  CorpusReader(int32_t num_threads, const AskedForm& texts, const Tokenizer& tokenizer)
      : num_threads_(num_threads), texts_(texts), tokenizer_(tokenizer) {}
  bool ReadLine(Line* line);
  // Has the threads work on the next lines.
  void ReadAhead();

  const int32_t num_threads_;
  const AskedForm& texts_;
  const Tokenizer& tokenizer_;
  bool is_standard_input_ = false;
  std::vector<std::string> files_;
  size_t next_file_ = 0;
  std::ifstream file_;
  int64_t line_number_ = 0;
  std::deque<std::future<Documents>> ahead_;
  std::deque<TaughtDocument> documents_;
};

}  // namespace graft
