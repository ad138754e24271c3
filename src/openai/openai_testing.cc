#include "openai/openai_testing.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <utility>

namespace graft {
namespace {

// Only a test that fails waits so long.
constexpr std::chrono::seconds kRequestsPatience{120};

std::string DemoDir() {
  const char* source_dir = std::getenv("GRAFT_SOURCE_DIR");
  CHECK(source_dir != nullptr) << "set GRAFT_SOURCE_DIR to the repository";
  return std::string(source_dir) + "/demo/base";
}

}  // namespace

const Tokenizer& DemoTokenizer() {
  static const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::Load(DemoDir()).value();
  return *tokenizer;
}

const ChatTemplate& DemoChatTemplate() {
  static const std::optional<ChatTemplate> chat_template = ChatTemplate::Load(DemoDir()).value();
  return chat_template.value();
}

FakeGenerator::FakeGenerator() : thread_([this] { Loop(); }) { set_script("one two three"); }

FakeGenerator::~FakeGenerator() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  thread_.join();
}

Status FakeGenerator::Submit(Request request, std::shared_ptr<TokenStream> stream) {
  std::lock_guard lock(mutex_);
  if (!submit_status_.ok()) return submit_status_;
  submitted_.push_back(request);
  Running running{.request = std::move(request), .stream = std::move(stream)};
  running.script = script_;
  running.eos = eos_;
  if (!answers_.empty()) {
    running.script = std::move(answers_.front());
    running.eos = DemoTokenizer().TokenId(DemoTokenizer().eos_token()).value();
    answers_.pop_front();
  }
  running_.push_back(std::move(running));
  changed_.notify_all();
  return OkStatus();
}

void FakeGenerator::Cancel(RequestId id) {
  std::lock_guard lock(mutex_);
  for (Running& running : running_) {
    if (running.request.id == id) running.cancelled = true;
  }
}

int32_t FakeGenerator::RetryAfterS(const std::string& /*tenant*/, double /*weight*/) { return 7; }

GeneratorLimits FakeGenerator::limits() const {
  return {
      .context_tokens_max = 1024, .vocab_size = DemoTokenizer().vocab_size(), .requests_max = 200};
}

void FakeGenerator::set_script(const std::string& text) {
  set_script_tokens(DemoTokenizer().Encode(text, false).value());
}

void FakeGenerator::set_script_tokens(std::vector<int32_t> tokens) {
  std::lock_guard lock(mutex_);
  script_ = std::move(tokens);
}

void FakeGenerator::set_answers(const std::vector<std::string>& texts) {
  std::lock_guard lock(mutex_);
  answers_.clear();
  for (const std::string& text : texts) {
    answers_.push_back(DemoTokenizer().Encode(text, false).value());
  }
}

void FakeGenerator::set_eos(int32_t token) {
  std::lock_guard lock(mutex_);
  eos_ = token;
}

void FakeGenerator::set_tick(std::chrono::microseconds tick) {
  std::lock_guard lock(mutex_);
  tick_ = tick;
}

void FakeGenerator::set_submit_status(Status status) {
  std::lock_guard lock(mutex_);
  submit_status_ = std::move(status);
}

void FakeGenerator::set_fail_after(int32_t tokens, Status status) {
  std::lock_guard lock(mutex_);
  fail_after_ = tokens;
  failure_ = std::move(status);
}

void FakeGenerator::set_knows_pooling(bool knows) {
  std::lock_guard lock(mutex_);
  knows_pooling_ = knows;
}

void FakeGenerator::set_hold(bool hold) {
  std::lock_guard lock(mutex_);
  hold_ = hold;
}

void FakeGenerator::set_hold_at(int32_t tokens) {
  std::lock_guard lock(mutex_);
  hold_at_ = tokens;
}

int32_t FakeGenerator::num_running() const {
  std::lock_guard lock(mutex_);
  return static_cast<int32_t>(running_.size());
}

int32_t FakeGenerator::num_cancelled() const {
  std::lock_guard lock(mutex_);
  return num_cancelled_;
}

std::vector<Request> FakeGenerator::submitted() const {
  std::lock_guard lock(mutex_);
  return submitted_;
}

bool FakeGenerator::WaitForRunning(int32_t count) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kRequestsPatience,
                           [&] { return static_cast<int32_t>(running_.size()) == count; });
}

bool FakeGenerator::WaitForCancelled(int32_t count) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kRequestsPatience, [&] { return num_cancelled_ == count; });
}

void FakeGenerator::Loop() {
  while (true) {
    std::chrono::microseconds tick;
    {
      std::lock_guard lock(mutex_);
      if (stopping_) return;
      tick = tick_;
      if (std::erase_if(running_, [this](Running& running) { return !Step(running); }) > 0) {
        changed_.notify_all();
      }
    }
    std::this_thread::sleep_for(tick);
  }
}

bool FakeGenerator::Step(Running& running) {
  TokenEvent event;
  const SamplingParams& sampling = running.request.sampling;
  event.usage = {.prompt_tokens = static_cast<int32_t>(running.request.prompt_tokens.size()),
                 .cached_tokens = 3,
                 .output_tokens = running.num_tokens};
  if (running.cancelled) {
    ++num_cancelled_;
    event.finish_reason = FinishReason::kCancelled;
    running.stream->Push(std::move(event));
    return false;
  }
  if (hold_ || running.num_tokens >= hold_at_) return true;
  if (running.num_tokens == fail_after_ || fail_after_ == kFailNow) {
    event.finish_reason = FinishReason::kError;
    event.status = failure_;
    running.stream->Push(std::move(event));
    return false;
  }
  if (running.num_tokens == 0 && sampling.prompt_logprobs) {
    for (const int32_t token : running.request.prompt_tokens) {
      const bool first = event.prompt_logprobs.empty();
      event.prompt_logprobs.push_back({token, first ? std::nanf("") : -0.5f});
      event.prompt_top_logprobs.push_back({});
    }
  }
  const std::vector<int32_t>& prompt = running.request.prompt_tokens;
  if (running.request.pooling != Pooling::kNone && knows_pooling_) {
    const int64_t sum = std::accumulate(prompt.begin(), prompt.end(), int64_t{0});
    event.embedding = {static_cast<float>(sum), static_cast<float>(prompt.size())};
  }
  if (running.num_tokens < sampling.tokens_max) {
    const size_t idx = static_cast<size_t>(running.num_tokens);
    const bool is_eos = running.eos >= 0 && idx == running.script.size();
    event.token = is_eos ? running.eos : running.script[idx % running.script.size()];
    event.logprob = -0.25f * static_cast<float>(idx + 1);
    for (int32_t i = 0; i < sampling.num_logprobs; ++i) {
      event.top_logprobs.push_back({event.token + i, event.logprob - static_cast<float>(i)});
    }
    ++running.num_tokens;
    event.usage.output_tokens = running.num_tokens;
    if (is_eos) event.finish_reason = FinishReason::kStop;
  }
  if (event.finish_reason == FinishReason::kNone && running.num_tokens >= sampling.tokens_max) {
    event.finish_reason = FinishReason::kLength;
  }
  const bool goes_on = event.finish_reason == FinishReason::kNone;
  running.stream->Push(std::move(event));
  return goes_on;
}

ApiContext DemoContext(FakeGenerator& generator, FakeCatalog& catalog, Metrics& metrics,
                       const AtomicClock& clock) {
  return {.generator = generator,
          .catalog = catalog,
          .tokenizer = DemoTokenizer(),
          .chat_template = &DemoChatTemplate(),
          .metrics = metrics,
          .clock = clock,
          .base_model = "demo",
          .adapters_dir = "",
          .defaults = {},
          .ready = {}};
}

}  // namespace graft
