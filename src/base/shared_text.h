// A text that its copies share, with its SHA-256, which is computed once: for texts that may be
// long and come with every choice of a request. Immutable; any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "base/sha256.h"

namespace graft {

class SharedText {
 public:
  SharedText() = default;
  SharedText(std::string text) {  // NOLINT: implicit by design
    if (text.empty()) return;
    std::string digest = Sha256Of(text);
    content_ = std::make_shared<const Content>(Content{std::move(text), std::move(digest)});
  }
  SharedText(const char* text) : SharedText(std::string(text)) {}  // NOLINT: implicit by design

  bool empty() const { return content_ == nullptr; }
  size_t size() const { return text().size(); }
  const std::string& text() const { return empty() ? Empty() : content_->text; }
  // Hexadecimal; "" of the empty text.
  const std::string& sha256() const { return empty() ? Empty() : content_->sha256; }

  friend bool operator==(const SharedText& a, const SharedText& b) {
    return a.content_ == b.content_ || a.text() == b.text();
  }

 private:
  struct Content {
    std::string text;
    std::string sha256;
  };

 public:
  // Finds the text again while a copy of it lives.
  class Weak {
   public:
    explicit Weak(const SharedText& text) : content_(text.content_) {}
    // Empty: none does any more.
    SharedText Lock() const {
      SharedText text;
      text.content_ = content_.lock();
      return text;
    }

   private:
    std::weak_ptr<const Content> content_;
  };

 private:
  static const std::string& Empty() {
    static const std::string kEmpty;
    return kEmpty;
  }

  std::shared_ptr<const Content> content_;  // shared, since copies are; null: the empty text
};

}  // namespace graft
