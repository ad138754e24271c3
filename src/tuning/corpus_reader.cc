#include "tuning/corpus_reader.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <utility>

#include "base/json.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLinesATask = 16;

// Byte offsets in the text by character, its end among them.
std::vector<size_t> CharacterBegins(const std::string& text) {
  std::vector<size_t> begins;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) begins.push_back(i);
  }
  begins.push_back(text.size());
  return begins;
}

// Where tokens end in the text, in bytes. Empty if they are not the text's bytes one by one.
std::vector<size_t> TokenEnds(const std::vector<int32_t>& tokens, const std::string& text,
                              const Tokenizer& tokenizer) {
  std::vector<size_t> ends;
  size_t end = 0;
  for (const int32_t token : tokens) ends.push_back(end += tokenizer.TokenBytes(token).size());
  if (end != text.size()) ends.clear();
  return ends;
}

Result<std::string> TextOf(const Json& json, const char* key) {
  if (json.is_object() && json.contains(key) && json[key].is_string()) {
    return json[key].get<std::string>();
  }
  return InvalidArgumentError(std::string("has no text \"") + key + "\"");
}

}  // namespace

Result<std::optional<TaughtDocument>> TaughtDocumentOf(const std::string& line,
                                                       const AskedForm& texts,
                                                       const Tokenizer& tokenizer) {
  ASSIGN_OR_RETURN(const Json json, ParseJson(line));
  ASSIGN_OR_RETURN(const std::string text, TextOf(json, "text"));
  TaughtDocument document;
  const TextRange all = {0, text.size()};  // what looks like a special token in it is text
  ASSIGN_OR_RETURN(document.tokens, tokenizer.Encode(text, false, {&all, 1}));
  const auto num_tokens = static_cast<int32_t>(document.tokens.size());
  const std::vector<size_t> characters = CharacterBegins(text);
  const std::vector<size_t> ends = TokenEnds(document.tokens, text, tokenizer);
  const auto byte_at = [&](int64_t character) {
    return characters[static_cast<size_t>(
        std::clamp<int64_t>(character, 0, std::ssize(characters) - 1))];
  };
  if (!json.contains("questions") || !json["questions"].is_array()) {
    return InvalidArgumentError("has no list \"questions\"");
  }
  for (const Json& one : json["questions"]) {
    ASSIGN_OR_RETURN(const std::string question, TextOf(one, "question"));
    ASSIGN_OR_RETURN(const std::string answer, TextOf(one, "answer"));
    ASSIGN_OR_RETURN(TaughtQuestion taught, texts.Ask(question, answer));
    taught.end = num_tokens;
    const bool has_place = one.contains("begin") && one["begin"].is_number_integer() &&
                           one.contains("end") && one["end"].is_number_integer();
    if (has_place && !ends.empty()) {
      const size_t begin = byte_at(one["begin"].get<int64_t>());
      const size_t end = byte_at(one["end"].get<int64_t>());
      taught.begin = static_cast<int32_t>(std::ranges::upper_bound(ends, begin) - ends.begin());
      const auto last = std::ranges::lower_bound(ends, end) - ends.begin();
      taught.end = std::min(num_tokens, static_cast<int32_t>(last) + 1);
    }
    document.questions.push_back(std::move(taught));
  }
  if (document.tokens.empty() || document.questions.empty()) {
    return std::optional<TaughtDocument>();
  }
  return std::optional<TaughtDocument>(std::move(document));
}

Result<std::unique_ptr<CorpusReader>> CorpusReader::Open(const std::string& path,
                                                         int32_t num_threads,
                                                         const AskedForm& texts,
                                                         const Tokenizer& tokenizer) {
  std::unique_ptr<CorpusReader> reader(new CorpusReader(num_threads, texts, tokenizer));
  std::error_code error;
  if (path == "-") {
    reader->is_standard_input_ = true;
  } else if (fs::is_directory(path, error)) {
    for (const auto& entry : fs::directory_iterator(path, error)) {
      if (entry.path().extension() == ".jsonl") reader->files_.push_back(entry.path().string());
    }
    std::ranges::sort(reader->files_);
  } else if (fs::exists(path, error)) {
    reader->files_.push_back(path);
  }
  if (reader->files_.empty() && !reader->is_standard_input_) {
    return NotFoundError("--corpus " + path +
                         ": no file, and no folder with files *.jsonl; - is the standard input");
  }
  return reader;
}

bool CorpusReader::ReadLine(Line* line) {
  if (is_standard_input_) {
    line->where = "line " + std::to_string(++line_number_) + " of the corpus";
    return static_cast<bool>(std::getline(std::cin, line->text));
  }
  while (!file_.is_open() || !std::getline(file_, line->text)) {
    if (next_file_ == files_.size()) return false;
    file_ = std::ifstream(files_[next_file_++]);
    line_number_ = 0;
  }
  line->where = files_[next_file_ - 1] + ":" + std::to_string(++line_number_);
  return true;
}

void CorpusReader::ReadAhead() {
  while (std::cmp_less(ahead_.size(), num_threads_)) {
    std::vector<Line> lines;
    for (Line line; lines.size() < kLinesATask && ReadLine(&line);) {
      if (!line.text.empty()) lines.push_back(std::move(line));
    }
    if (lines.empty()) return;
    ahead_.push_back(
        std::async(std::launch::async, [this, lines = std::move(lines)]() -> Documents {
          std::vector<TaughtDocument> documents;
          for (const Line& line : lines) {
            Result<std::optional<TaughtDocument>> document =
                TaughtDocumentOf(line.text, texts_, tokenizer_);
            if (!document.ok()) return document.status().WithContext(line.where);
            if (document->has_value()) documents.push_back(std::move(**document));
          }
          return documents;
        }));
  }
}

Result<std::optional<TaughtDocument>> CorpusReader::Next() {
  while (documents_.empty()) {
    ReadAhead();
    if (ahead_.empty()) return std::optional<TaughtDocument>();
    Documents next = ahead_.front().get();
    ahead_.pop_front();
    ReadAhead();
    RETURN_IF_ERROR(next.status());
    documents_.insert(documents_.end(), std::make_move_iterator(next->begin()),
                      std::make_move_iterator(next->end()));
  }
  std::optional<TaughtDocument> document(std::move(documents_.front()));
  documents_.pop_front();
  return document;
}

Status CorpusReader::Skip(int64_t documents) {
  if (is_standard_input_) return OkStatus();
  for (int64_t i = 0; i < documents; ++i) {
    ASSIGN_OR_RETURN(const std::optional<TaughtDocument> skipped, Next());
    if (!skipped.has_value()) break;
  }
  return OkStatus();
}

}  // namespace graft
