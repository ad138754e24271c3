// What the files beside an adapter's weights say of texts, compared with what its base says: chat
// template, end of answers, and whether it is the same vocabulary. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/adapter_text.h"
#include "base/status.h"
#include "text/chat/chat_template_source.h"
#include "text/tokenizer.h"

namespace graft {

class AdapterTextReader {
 public:
  // `model_dir` is the base's folder. `eos_token_ids` end the base's answers. `vocab_size` is one
  // past the largest token that the base may be given. If the folder has no tokenizer, vocabularies
  // and tokens by name are not compared. A transient fault (base/fault.h): the folder cannot be
  // read at the moment.
  static Result<std::unique_ptr<AdapterTextReader>> Load(const std::string& model_dir,
                                                         std::vector<int32_t> eos_token_ids,
                                                         int32_t vocab_size);

  // Returns what differs from the base; null if nothing does. A template that differs from the
  // base's only in white space around it and in ends of lines counts as the base's. A template that
  // cannot be kept is an error in the text. kInvalidArgument names the file and what in it makes no
  // sense or is of another vocabulary. Reads only files of text; CheckVocabulary reads the others.
  Result<AdapterTextPtr> Read(const ReadBesideAdapter& read) const;

  // kInvalidArgument if tokenizer.json, or else tokenizer.model or vocab.json, has a token that the
  // base does not have by the same id, or has other merges. These files are long, so the answer for
  // a content is remembered, unless the base's own file could not be read.
  Status CheckVocabulary(const ReadBesideAdapter& read) const;

 private:
  AdapterTextReader() = default;
  Status ReadTemplate(const ReadBesideAdapter& read, AdapterText* text) const;
  Status ReadTokens(const ReadBesideAdapter& read, AdapterText* text) const;
  Status ReadEos(const ReadBesideAdapter& read, AdapterText* text) const;
  Status TakeToken(const std::string& file, const char* field, const std::string& token,
                   const std::string& of_base, std::string* out) const;
  void AddStop(int32_t token, AdapterText* text) const;
  Status CheckTokens(const std::string& file,
                     const std::vector<std::pair<std::string, int64_t>>& tokens) const;
  Status CheckFile(const std::string& file, const std::string& bytes) const;
  // `own`: the base's file.
  Status CheckTokenizerJson(const std::string& file, const std::string& bytes,
                            const Result<std::string>& own) const;
  Status CheckModelFile(const std::string& file, const std::string& bytes) const;
  Status CheckVocabJson(const std::string& file, const std::string& bytes) const;

  std::string model_dir_;
  std::unique_ptr<Tokenizer> tokenizer_;  // null: the folder has none
  std::set<std::string> special_tokens_;  // that the folder names without their ids
  ChatTemplateSource templates_;
  std::vector<int32_t> eos_token_ids_;
  int32_t vocab_size_ = 0;
  mutable std::mutex mutex_;
  mutable std::unordered_map<std::string, Status> verdicts_;  // by file name and SHA-256
};

}  // namespace graft
