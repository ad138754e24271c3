// The parts that the server borrows. All of them outlive the server and are thread-safe.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/status.h"
#include "openai/chat_text.h"
#include "openai/generation_defaults.h"
#include "request/adapter_catalog.h"
#include "request/adapter_sources.h"
#include "request/fleet_figures.h"
#include "request/generator.h"
#include "request/place_schedule.h"
#include "text/output/output_format.h"
#include "text/tokenizer.h"

namespace graft {

class LearningJobs;
class SpanExporter;

struct ApiContext {
  Generator& generator;
  AdapterCatalog& catalog;
  const Tokenizer& tokenizer;
  const ChatTemplate* chat_template = nullptr;  // null: the model has none, chat is refused
  // Why the model's template cannot be used, for clients; "" where it has none or it can.
  std::string chat_template_error = {};
  // Whether special tokens that a message's text spells out are taken as such. Then the writer of
  // one text can write turns of others.
  bool special_tokens_in_content = false;
  // How the model writes calls of tools and its reasoning.
  ToolFormat tool_format = ToolFormat::kNone;
  ReasoningFormat reasoning_format = ReasoningFormat::kNone;
  // Templates of adapters that bring their own; copies of the context share them.
  std::shared_ptr<AdapterTemplates> adapter_templates = std::make_shared<AdapterTemplates>();
  Metrics& metrics;
  const Clock& clock;              // arrival times and rate limits; socket timeouts are real time
  std::string base_model;          // the name that clients give for no adapter
  std::string base_revision = {};  // that it was fetched at; "": it was a folder
  // Where adapters are loaded from, links resolved, so that answers need not tell; "" if nowhere.
  std::string adapters_dir;
  int32_t adapters_max = 0;     // on the device at once; 0: not known
  GenerationDefaults defaults;  // of requests that do not say how to draw
  // Whether requests can be served now; what fails shows on /ready. Empty: always.
  std::function<Status()> ready;
  // Empty: the model is in this process.
  std::function<FleetFigures()> fleet = {};
  // For a frontend: the number of runners thought to hold a content on their devices.
  std::function<int32_t(const std::string& hash)> num_holders;
  AdapterSources* sources = nullptr;  // of adapters that are not listed; null: there are none
  SpanExporter* spans = nullptr;      // null: requests are not traced
  LearningJobs* learning = nullptr;
  // Seconds until what was unavailable may be there. Without a runner it is the time that one takes
  // to start; else it is not known, and 1.
  int32_t UnavailableRetryAfterS() const {
    const FleetFigures figures = fleet ? fleet() : FleetFigures{.runners = 1};
    if (figures.runners > 0) return 1;
    constexpr double kMax = PlaceSchedule::kRetryAfterMax;
    return static_cast<int32_t>(std::clamp(std::ceil(figures.startup_seconds), 1.0, kMax));
  }
  // For a server without learning: tells clients why, and what has it.
  std::string learning_refusal =
      "This server has no files and no fine-tuning jobs: start graft serve with --learn-dir DIR.";
};

}  // namespace graft
