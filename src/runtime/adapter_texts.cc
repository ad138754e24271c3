#include "runtime/adapter_texts.h"

#include <memory>
#include <mutex>
#include <utility>

#include "text/adapter_text_reader.h"

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

}  // namespace

Option AdapterTextOptionRow(AdapterTextUse& use) {
  return {"adapter-text", OneOf(use, kAdapterTextWords),
          "adapter: the chat template and the end of answers that lie beside an adapter's weights "
          "hold for it, and another vocabulary is refused; base: the base's hold for all"};
}

AdapterTextHooks MakeAdapterTextHooks(AdapterTextUse use, const std::string& model_dir,
                                      const ModelConfig& model) {
  if (use == AdapterTextUse::kBase) return {};
  const auto late = std::make_shared<LateReader>(model_dir, model);  // of both functions
  return {.read = [late](const ReadBesideAdapter& read) -> Result<AdapterTextPtr> {
            ASSIGN_OR_RETURN(const AdapterTextReader* const reader, late->Get());
            return reader->Read(read);
          },
          .check_vocabulary = [late](const ReadBesideAdapter& read) -> Status {
            ASSIGN_OR_RETURN(const AdapterTextReader* const reader, late->Get());
            return reader->CheckVocabulary(read);
          }};
}

}  // namespace graft
