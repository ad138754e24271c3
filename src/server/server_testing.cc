#include "server/server_testing.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <utility>

#include "base/nearest_names.h"

namespace graft {
namespace {

// Only a test that fails waits so long.
constexpr std::chrono::seconds kPatience{120};

std::string DemoDir() {
  const char* source_dir = std::getenv("GRAFT_SOURCE_DIR");
  CHECK(source_dir != nullptr) << "set GRAFT_SOURCE_DIR to the repository";
  return std::string(source_dir) + "/demo/base";
}

std::string Lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
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
  return changed_.wait_for(lock, kPatience,
                           [&] { return static_cast<int32_t>(running_.size()) == count; });
}

bool FakeGenerator::WaitForCancelled(int32_t count) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kPatience, [&] { return num_cancelled_ == count; });
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

FakeCatalog::FakeCatalog() {
  for (const std::string name : {"austen", "doyle", "doyle-large"}) {
    adapters_[name] = {.name = name,
                       .hash = "hash-of-" + name,
                       .path = "/adapters/" + name,
                       .rank_max = 16,
                       .bytes = 1000,
                       .loaded_at = 1700000000};
  }
}

void FakeCatalog::SetText(const std::string& name, AdapterText text) {
  std::lock_guard lock(mutex_);
  adapters_.at(name).text = ShareAdapterText(std::move(text));
}

bool FakeCatalog::WaitForLists(int32_t count) const {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (num_lists_ < count && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return num_lists_ >= count;
}

std::vector<AdapterInfo> FakeCatalog::ListAfter(const std::string& name, size_t infos_max) const {
  ++num_lists_;
  const std::lock_guard wait(slow_list);
  std::lock_guard lock(mutex_);
  std::vector<AdapterInfo> list;
  for (auto it = adapters_.upper_bound(name); it != adapters_.end() && list.size() < infos_max;
       ++it) {
    list.push_back(it->second);
  }
  return list;
}

std::string FakeCatalog::NamesNear(const std::string& name, const NameFilter& allows) const {
  std::vector<std::string> names = {"demo"};
  for (const AdapterInfo& info : List()) names.push_back(info.name);
  std::erase_if(names, [&](const std::string& known) { return allows && !allows(known); });
  return NearestNames(name, names);
}

Result<AdapterInfo> FakeCatalog::Find(const std::string& name) const {
  last_finder_ = std::this_thread::get_id();
  std::lock_guard lock(mutex_);
  const auto it = adapters_.find(name);
  if (it == adapters_.end()) return NotFoundError("no adapter '" + name + "'");
  return it->second;
}

AdapterState FakeCatalog::StateOf(const AdapterInfo& adapter) const {
  return adapter.name == "austen" ? AdapterState::kResident : AdapterState::kHost;
}

Result<AdapterInfo> FakeCatalog::Load(const AdapterLoad& load) {
  const auto& [name, path, replace, tenant, hash, owner] = load;
  if (path == "good/slow") const std::lock_guard wait(slow_folder);
  std::lock_guard lock(mutex_);
  if (path.find("..") != std::string::npos || path.starts_with("/")) {
    return PermissionDeniedError("path '" + path + "' is outside /srv/adapters");
  }
  if (path == "broken") return InvalidArgumentError("/srv/adapters/broken/adapter_config.json: []");
  if (path == "full") return FailedPreconditionError("the server lists 3 adapters already");
  if (path == "unwritten") return InternalError("adapter registry /var/table: cannot write");
  if (!path.starts_with("good/")) {
    return NotFoundError("path '" + path + "' does not exist under /srv/adapters");
  }
  if (adapters_.count(name) != 0 && !replace) {
    return AlreadyExistsError("the name '" + name + "' is taken");
  }
  adapters_[name] = {.name = name,
                     .hash = "hash-of-" + path,
                     .path = path,
                     .rank_max = 8,
                     .tenant = tenant,
                     .owner = owner};
  return adapters_[name];
}

Status FakeCatalog::Unload(const std::string& name, const std::string& /*tenant*/) {
  std::lock_guard lock(mutex_);
  if (adapters_.erase(name) == 0) return NotFoundError("no adapter '" + name + "'");
  return OkStatus();
}

Json RawResponse::json() const {
  Result<Json> parsed = ParseJson(body);
  EXPECT_TRUE(parsed.ok()) << body;
  return parsed.ok() ? parsed.value() : Json();
}

std::vector<std::string> RawResponse::events() const {
  std::vector<std::string> events;
  size_t begin = 0;
  for (size_t end; (end = body.find("\n\n", begin)) != std::string::npos; begin = end + 2) {
    std::string event = body.substr(begin, end - begin);
    if (event.starts_with(":")) continue;
    // Where events have names, their data repeat them.
    if (event.starts_with("event: ")) event.erase(0, event.find('\n') + 1);
    EXPECT_TRUE(event.starts_with("data: ")) << event;
    events.push_back(event.substr(6));
  }
  EXPECT_EQ(begin, body.size()) << "the stream ends inside an event";
  return events;
}

RawClient::RawClient(uint16_t port, bool tls, bool is_narrow) {
  fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
  const timeval patience{.tv_sec = kPatience.count(), .tv_usec = 0};
  setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  if (is_narrow) {  // a sender's buffer grows with the size of its segments
    const int segment_bytes = 536;
    setsockopt(fd_, IPPROTO_TCP, TCP_MAXSEG, &segment_bytes, sizeof(segment_bytes));
    SetReceiveBuffer(4096);
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  if (!tls || !connected_) return;
  tls_context_ = SSL_CTX_new(TLS_client_method());
  tls_ = SSL_new(tls_context_);
  SSL_set_fd(tls_, fd_);
  connected_ = SSL_connect(tls_) == 1;
}

RawClient::~RawClient() {
  if (tls_ != nullptr) {
    SSL_shutdown(tls_);
    SSL_free(tls_);
  }
  if (tls_context_ != nullptr) SSL_CTX_free(tls_context_);
  if (fd_ >= 0) ::close(fd_);
}

void RawClient::Send(std::string_view data) {
  while (!data.empty()) {
    const ssize_t sent = tls_ != nullptr
                             ? SSL_write(tls_, data.data(), static_cast<int>(data.size()))
                             : ::send(fd_, data.data(), data.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;  // the server has closed: what it said shows in Receive
    data.remove_prefix(static_cast<size_t>(sent));
  }
}

int RawClient::Read(char* data, int bytes) {
  if (tls_ != nullptr) return SSL_read(tls_, data, bytes);
  return static_cast<int>(::recv(fd_, data, static_cast<size_t>(bytes), 0));
}

std::string RawClient::ReceiveSome() {
  if (!input_.empty()) return std::exchange(input_, {});
  char data[16384];
  const int bytes = Read(data, sizeof(data));
  return bytes > 0 ? std::string(data, static_cast<size_t>(bytes)) : "";
}

bool RawClient::ReadUntil(std::string_view mark) {
  while (input_.find(mark) == std::string::npos) {
    const std::string before = std::exchange(input_, {});
    const std::string more = ReceiveSome();
    input_ = before + more;
    if (more.empty()) return false;
  }
  return true;
}

bool RawClient::ReadBytes(size_t bytes) {
  while (input_.size() < bytes) {
    const std::string before = std::exchange(input_, {});
    const std::string more = ReceiveSome();
    input_ = before + more;
    if (more.empty()) return false;
  }
  return true;
}

RawResponse RawClient::Receive(bool head_only) {
  RawResponse response;
  const auto take = [this](size_t bytes) {
    std::string part = input_.substr(0, bytes);
    input_.erase(0, bytes);
    return part;
  };
  if (!ReadUntil("\r\n\r\n")) return response;
  std::string head = take(input_.find("\r\n\r\n") + 4);
  response.status = std::atoi(head.substr(head.find(' ') + 1, 3).c_str());
  head.erase(0, head.find("\r\n") + 2);
  for (size_t end; (end = head.find("\r\n")) != 0 && end != std::string::npos;) {
    const size_t colon = head.find(": ");
    response.headers[Lower(head.substr(0, colon))] = head.substr(colon + 2, end - colon - 2);
    head.erase(0, end + 2);
  }
  response.complete = head_only || response.status == 204 || response.status == 100;
  if (response.complete) return response;
  if (response.headers.count("content-length") != 0) {
    const size_t bytes = std::stoul(response.headers["content-length"]);
    response.complete = ReadBytes(bytes);
    response.body = take(bytes);
  } else if (response.headers.count("transfer-encoding") != 0) {
    while (ReadUntil("\r\n")) {
      const std::string size = take(input_.find("\r\n") + 2);
      const size_t bytes = std::stoul(size, nullptr, 16);
      if (!ReadBytes(bytes + 2)) break;
      response.body += take(bytes);
      take(2);
      response.complete = bytes == 0;
      if (response.complete) break;
    }
  } else {
    for (std::string more; !(more = ReceiveSome()).empty();) response.body += more;
    response.complete = true;
  }
  return response;
}

bool RawClient::WaitForEnd() {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  char data[16384];
  while (std::chrono::steady_clock::now() < deadline) {
    const int bytes = Read(data, sizeof(data));
    if (bytes > 0) continue;
    return bytes == 0 || errno == ECONNRESET;
  }
  return false;
}

void RawClient::HalfClose() { ::shutdown(fd_, SHUT_WR); }

void RawClient::Reset() {
  const linger now{.l_onoff = 1, .l_linger = 0};
  setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  ::close(fd_);
  fd_ = -1;
}

void RawClient::SetReceiveBuffer(int bytes) {
  setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
}

RawResponse RawClient::Get(const std::string& path, const std::string& headers) {
  Send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n");
  return Receive();
}

RawResponse RawClient::Post(const std::string& path, const std::string& body,
                            const std::string& headers) {
  Send("POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
       "Content-Length: " + std::to_string(body.size()) + "\r\n" + headers + "\r\n" + body);
  return Receive();
}

TestServer::TestServer(ServerOptions options, bool with_template,
                       std::function<FleetFigures()> fleet)
    : TestServer(std::move(options), with_template ? &DemoChatTemplate() : nullptr,
                 std::move(fleet)) {}

TestServer::TestServer(ServerOptions options, const ChatTemplate* chat_template,
                       std::function<FleetFigures()> fleet) {
  options.port = 0;
  const std::string source = chat_template == nullptr ? "" : chat_template->tool_source();
  server =
      std::make_unique<HttpServer>(ServerContext{.generator = generator,
                                                 .catalog = catalog,
                                                 .tokenizer = DemoTokenizer(),
                                                 .chat_template = chat_template,
                                                 .tool_format = DetectToolFormat(source),
                                                 .reasoning_format = DetectReasoningFormat(source),
                                                 .metrics = metrics,
                                                 .clock = clock,
                                                 .base_model = "demo",
                                                 .adapters_dir = "/srv/adapters",
                                                 .ready = [this] { return ready; },
                                                 .fleet = std::move(fleet)},
                                   std::move(options));
  start_status = server->Start();
}

TestServer::~TestServer() { server.reset(); }

ServerContext DemoContext(FakeGenerator& generator, FakeCatalog& catalog, Metrics& metrics,
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

std::string WriteTempFile(const std::string& name, const std::string& bytes) {
  const std::string path = testing::TempDir() + "graft_" + std::to_string(getpid()) + "_" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

}  // namespace graft
