#include "text/vocabulary.h"

#include <algorithm>
#include <limits>

namespace graft {

Result<Vocabulary> Vocabulary::Build(std::vector<std::pair<std::string, int64_t>> tokens) {
  const int64_t ids_max = 4 * static_cast<int64_t>(tokens.size()) + 1024;
  int64_t id_end = 0;
  size_t num_bytes = 0;
  for (const auto& [text, id] : tokens) {
    if (id < 0 || id >= std::min<int64_t>(ids_max, std::numeric_limits<int32_t>::max())) {
      return InvalidArgumentError("token '" + text + "' has id " + std::to_string(id) +
                                  " in a vocabulary of " + std::to_string(tokens.size()));
    }
    id_end = std::max(id_end, id + 1);
    num_bytes += text.size();
  }
  Vocabulary vocabulary;
  vocabulary.bytes_.reserve(num_bytes);
  vocabulary.texts_.resize(static_cast<size_t>(id_end));
  vocabulary.ids_.reserve(tokens.size());
  for (const auto& [text, id] : tokens) {
    const size_t begin = vocabulary.bytes_.size();
    vocabulary.bytes_.insert(vocabulary.bytes_.end(), text.begin(), text.end());
    const std::string_view kept(vocabulary.bytes_.data() + begin, text.size());
    vocabulary.texts_[static_cast<size_t>(id)] = kept;
    vocabulary.ids_.insert_or_assign(kept, static_cast<int32_t>(id));
  }
  return vocabulary;
}

}  // namespace graft
