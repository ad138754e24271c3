// Lines of the log: what foreign texts may do to them, the two formats, and a reader that does not
// read.
#include "base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <string>

#include "base/json.h"
#include "base/log_format.h"
#include "base/server_log.h"

namespace graft {
namespace {

TEST(EscapeForLogTest, OneLineThatSaysNothingToATerminal) {
  const std::pair<std::string, std::string> cases[] = {
      {"plain text, 100 %", "plain text, 100 %"},
      {"a\nb\r\tc", "a\\nb\\r\\tc"},
      {"\x1b[31mred\x07\x7f", "\\x1b[31mred\\x07\\x7f"},
      {std::string("a\0b", 3), "a\\x00b"},
      {"Grüße, 世界 🎉", "Grüße, 世界 🎉"},
      {"\u202egnp.exe\u200f\u2066", "\\u202egnp.exe\\u200f\\u2066"},
      {"\u2028\u0085\ufeff", "\\u2028\\u0085\\ufeff"},
      {"\xff\xc0\xaf\xe4\xb8", "\\xff\\xc0\\xaf\\xe4\\xb8"},
      {"\xed\xa0\x80", "\\xed\\xa0\\x80"},
  };
  for (const auto& [text, escaped] : cases) EXPECT_EQ(EscapeForLog(text), escaped);
}

constexpr size_t kStampBytes = 29;

// Whether `text` is like "2026-11-24T22:54:58.123+00:00".
bool IsStamp(std::string text) {
  for (char& c : text) {
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) c = 'd';
  }
  const std::string date_and_time = "dddd-dd-ddTdd:dd:dd.ddd";
  return text == date_and_time + "+dd:dd" || text == date_and_time + "-dd:dd";
}

// Writes a log that the test reads.
class ServerLogTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(pipe(pipe_), 0); }
  void TearDown() override {
    log_.reset();
    for (const int end : pipe_) close(end);
    EXPECT_TRUE(InitLog("info").ok());
  }

  void Begin(ServerLogOptions options) {
    options.descriptor = pipe_[1];
    Result<std::unique_ptr<ServerLog>> log = ServerLog::Begin(options);
    ASSERT_TRUE(log.ok()) << log.status().ToString();
    log_ = std::move(*log);
  }

  // Everything that was written so far.
  std::string Read() {
    fcntl(pipe_[0], F_SETFL, O_NONBLOCK);
    std::string all;
    char data[4096];
    for (ssize_t bytes; (bytes = read(pipe_[0], data, sizeof(data))) > 0;) {
      all.append(data, static_cast<size_t>(bytes));
    }
    return all;
  }

  int pipe_[2] = {-1, -1};
  std::unique_ptr<ServerLog> log_;
};

TEST_F(ServerLogTest, TextLinesStayOne) {
  Begin({.level = "info"});
  LOG_DEBUG("not this");
  LOG_WARN("name '{}'", "x\n2026-01-01 info forged");
  LogFields(
      LogLevel::kInfo, "request",
      {{"path", "/v1/a b"}, {"status", 200}, {"ms", 1.5}, {"who", "a\n\"b\""}, {"id", "r-1"}});
  log_.reset();
  const std::string text = Read();
  EXPECT_TRUE(IsStamp(text.substr(0, kStampBytes))) << text;
  const size_t second = text.find('\n') + 1;
  EXPECT_EQ(text.substr(kStampBytes, second - kStampBytes),
            " warning name 'x\\n2026-01-01 info forged'\n");
  EXPECT_EQ(text.substr(second + kStampBytes),
            " info request path=\"/v1/a b\" status=200 ms=1.5 who=\"a\\n\\\"b\\\"\" id=r-1\n");
}

TEST_F(ServerLogTest, JsonLinesAreObjects) {
  Begin({.level = "info", .format = LogFormat::kJson});
  LOG_ERROR("\x1b[31m \"{}\" \xff\u202e", "a\nb");
  LogFields(LogLevel::kInfo, "request", {{"path", "/x\n"}, {"status", 404}});
  ServerLog::Flush(std::chrono::minutes(1));
  const std::string text = Read();
  const size_t end = text.find('\n');
  ASSERT_NE(end, std::string::npos);
  const Json first = Json::parse(text.substr(0, end));
  EXPECT_EQ(first["level"], "error");
  EXPECT_EQ(first["message"], "\x1b[31m \"a\nb\" \ufffd\u202e");
  EXPECT_TRUE(IsStamp(first["time"])) << first["time"];
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  const Json second = Json::parse(text.substr(end + 1));
  EXPECT_EQ(second["message"], "request");
  EXPECT_EQ(second["path"], "/x\n");
  EXPECT_EQ(second["status"], 404);
}

TEST_F(ServerLogTest, APipeThatNobodyReadsHoldsUpNobody) {
  const int64_t dropped_before = ServerLog::num_dropped();
  Begin({.level = "debug", .lines_waiting_max = 64, .end_limit = std::chrono::milliseconds(0)});
  constexpr int kLines = 5000;
  for (int i = 0; i < kLines; ++i) LOG_DEBUG("line {} {}", i, std::string(100, 'x'));
  EXPECT_GT(ServerLog::num_dropped(), dropped_before);
  log_.reset();
  const std::string text = Read();
  const int64_t num_written = std::count(text.begin(), text.end(), '\n');
  EXPECT_EQ(num_written + ServerLog::num_dropped() - dropped_before, kLines);
}

TEST(ServerLogOptionsTest, UnknownWordsAreRefused) {
  EXPECT_NE(ServerLog::Begin({.level = "loud"}).status().message().find("loud"), std::string::npos);
}

}  // namespace
}  // namespace graft
