// OutOfMemory: memory has run out although the sums at start foresaw enough. It is thrown as a
// std::bad_alloc, as operator new throws one, and code that can give up a piece of work catches
// both. A step then fails its requests, a load fails its adapter, and a command ends with a
// message. Any thread.
#pragma once

#include <new>
#include <string>
#include <utility>

namespace graft {

class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

// `message` says of what, and how much was asked for. The one place that throws.
[[noreturn]] void ThrowOutOfMemory(std::string message);

}  // namespace graft
