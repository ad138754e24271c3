#include "runtime/adapter_texts.h"

#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/adapter_files.h"
#include "base/sha256.h"
#include "base/unwanted_work.h"
#include "text/chat/adapter_text_reader.h"
#include "text/chat/chat_template.h"

namespace graft {
namespace {

// The base's reader, made when it is first wanted.
class LateReader {
 public:
  LateReader(std::string model_dir, const ModelConfig& model)
      : model_dir_(std::move(model_dir)),
        eos_token_ids_(model.eos_token_ids),
        vocab_size_(model.vocab_size) {}

  Result<const AdapterTextReader*> Get() {
    const std::lock_guard lock(mutex_);
    if (reader_ == nullptr) {
      // It is for all requests, and the one that comes first may have left.
      const WatchedWork wanted(nullptr);
      ASSIGN_OR_RETURN(reader_, AdapterTextReader::Load(model_dir_, eos_token_ids_, vocab_size_));
    }
    return static_cast<const AdapterTextReader*>(reader_.get());
  }

 private:
  const std::string model_dir_;
  const std::vector<int32_t> eos_token_ids_;
  const int32_t vocab_size_;
  std::mutex mutex_;
  std::unique_ptr<AdapterTextReader> reader_;
};

// What files of texts were understood to say. Trainers leave the same ones beside thousands of
// adapters, and reading them takes milliseconds: of what was looked at the answers are remembered.
class TextMemory {
 public:
  Result<AdapterTextPtr> Read(LateReader& late, const ReadBesideAdapter& read) {
    ASSIGN_OR_RETURN(const std::string key, KeyOf(read));
    if (std::optional<AdapterTextPtr> known = Find(key)) return *std::move(known);
    ASSIGN_OR_RETURN(const AdapterTextReader* const reader, late.Get());
    ASSIGN_OR_RETURN(AdapterTextPtr text, reader->Read(read));
    const std::lock_guard lock(mutex_);
    if (texts_.size() >= kRememberedMax) texts_.clear();
    texts_[key] = {text == nullptr, text};
    return text;
  }

 private:
  // What was read for an adapter, which may be gone by now.
  struct Known {
    bool is_none = false;
    std::weak_ptr<const AdapterText> text;
  };

  static Result<std::string> KeyOf(const ReadBesideAdapter& read) {
    Sha256 hash;
    for (const char* const file : kAdapterTextFiles) {
      ASSIGN_OR_RETURN(const std::optional<std::string> bytes, read(file));
      if (!bytes.has_value()) continue;
      hash.Update(std::string(file) + " " + std::to_string(bytes->size()) + " ");
      hash.Update(*bytes);
    }
    return hash.HexDigest();
  }
  std::optional<AdapterTextPtr> Find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto known = texts_.find(key);
    if (known == texts_.end()) return std::nullopt;
    AdapterTextPtr text = known->second.text.lock();
    if (text == nullptr && !known->second.is_none) return std::nullopt;
    return text;
  }

  static constexpr size_t kRememberedMax = 1024;
  std::mutex mutex_;
  std::unordered_map<std::string, Known> texts_;  // by SHA-256
};

// Why chat templates cannot be used. Thousands of adapters may bring the same one: of what was
// looked at the answers are remembered.
class TemplateCheck {
 public:
  std::string Of(const AdapterText& text) {
    if (!text.brings_template()) return "";
    Sha256 hash;
    hash.Update(text.chat_template);
    hash.Update("", 1);  // no template has a zero
    hash.Update(text.tool_template);
    hash.Update("", 1);
    hash.Update(text.template_error);
    const std::string key = hash.HexDigest();
    {
      const std::lock_guard lock(mutex_);
      const auto known = errors_.find(key);
      if (known != errors_.end()) return known->second;
    }
    const Status parsed = ChatTemplate::Parse(text).status();
    std::string error;
    if (!parsed.ok()) error = "chat with it is refused: " + parsed.message();
    const std::lock_guard lock(mutex_);
    if (errors_.size() >= kRememberedMax) errors_.clear();
    return errors_[key] = error;
  }

 private:
  static constexpr size_t kRememberedMax = 1024;
  std::mutex mutex_;
  std::unordered_map<std::string, std::string> errors_;  // by SHA-256; "": it can be used
};

}  // namespace

Option AdapterTextOptionRow(AdapterTextUse& use) {
  return {"adapter-text", OneOf(use, kAdapterTextWords),
          "adapter: the chat template and the end of answers that lie beside an adapter's weights "
          "hold for it, and another vocabulary is refused; base: the base's hold for all"};
}

AdapterTextHooks MakeAdapterTextHooks(AdapterTextUse use, const std::string& model_dir,
                                      const ModelConfig& model) {
  if (use == AdapterTextUse::kBase) return {};
  const auto late = std::make_shared<LateReader>(model_dir, model);  // of two functions
  const auto memory = std::make_shared<TextMemory>();
  const auto check = std::make_shared<TemplateCheck>();
  return {
      .read = [late, memory](const ReadBesideAdapter& read) { return memory->Read(*late, read); },
      .check_vocabulary = [late](const ReadBesideAdapter& read) -> Status {
        ASSIGN_OR_RETURN(const AdapterTextReader* const reader, late->Get());
        return reader->CheckVocabulary(read);
      },
      .warning = [check](const AdapterText& text) { return check->Of(text); }};
}

}  // namespace graft
