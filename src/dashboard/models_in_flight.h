// Which models the requests for text that are in flight want, and whether their answers have begun.
// Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace graft {

class ModelsInFlight {
 public:
  struct Counts {
    int64_t waiting = 0;
    int64_t running = 0;
  };

  // One request, for as long as it lives.
  class Ticket {
   public:
    Ticket(ModelsInFlight* models, std::string model) : models_(*models), model_(std::move(model)) {
      models_.Add(model_, {.waiting = 1});
    }
    ~Ticket() { models_.Add(model_, running_ ? Counts{.running = -1} : Counts{.waiting = -1}); }
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;

    // The answer's first token has come. Whether that is news.
    bool Begin() {
      if (std::exchange(running_, true)) return false;
      models_.Add(model_, {.waiting = -1, .running = 1});
      return true;
    }

   private:
    ModelsInFlight& models_;
    const std::string model_;
    bool running_ = false;
  };

  // By the clients' names of the models.
  std::map<std::string, Counts> models() const {
    std::lock_guard lock(mutex_);
    return models_;
  }
  Counts Sum() const {
    Counts sum;
    for (const auto& [model, counts] : models()) {
      sum.waiting += counts.waiting;
      sum.running += counts.running;
    }
    return sum;
  }

 private:
  void Add(const std::string& model, Counts more) {
    std::lock_guard lock(mutex_);
    Counts& counts = models_[model];
    counts.waiting += more.waiting;
    counts.running += more.running;
    if (counts.waiting == 0 && counts.running == 0) models_.erase(model);
  }

  mutable std::mutex mutex_;
  std::map<std::string, Counts> models_;
};

}  // namespace graft
