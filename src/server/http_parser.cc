#include "server/http_parser.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <exception>

namespace graft {
namespace {

namespace http = boost::beast::http;

// "http://host/path?query" and "/path?query" to "/path".
std::string PathOf(std::string target) {
  const size_t scheme = target.find("://");
  if (!target.starts_with('/') && scheme != std::string::npos) {
    const size_t slash = target.find('/', scheme + 3);
    target = slash == std::string::npos ? "/" : target.substr(slash);
  }
  return target.substr(0, target.find_first_of("?#"));
}

}  // namespace

struct HttpParser::State {
  http::request_parser<http::string_body> parser;
};

HttpParser::HttpParser(const HttpParserLimits& limits)
    : limits_(limits), state_(std::make_unique<State>()) {
  state_->parser.header_limit(limits.head_bytes_max);
  state_->parser.body_limit(limits.body_bytes_max);
}

HttpParser::~HttpParser() = default;

bool HttpParser::head_done() const { return head_taken_; }

bool HttpParser::done() const { return head_taken_ && state_->parser.is_done(); }

void HttpParser::Feed(std::string* input) {
  if (error_.has_value()) return;
  // An empty line before a request is skipped (RFC 9112, 2.2).
  while (!started_ && input->starts_with("\r\n")) input->erase(0, 2);
  if (!started_ && (input->empty() || *input == "\r")) return;
  started_ = true;
  size_t taken = 0;
  boost::system::error_code error;
  try {
    while (taken < input->size() && !done() && !error) {
      const size_t bytes = state_->parser.put(
          boost::asio::buffer(input->data() + taken, input->size() - taken), error);
      taken += bytes;
      if (!head_taken_ && state_->parser.is_header_done()) {
        TakeHead();
        break;
      }
      if (bytes == 0) break;
    }
  } catch (const std::exception& exception) {  // memory for the body
    error_ =
        HttpError(503, "overloaded", std::string("No room for this request: ") + exception.what());
  }
  input->erase(0, taken);
  if (error == http::error::need_more) {
    // The parser needs a whole line at once; a head or a chunk's line longer than this is no use.
    if (input->size() <= limits_.head_bytes_max) return;
    error = http::error::header_limit;
  }
  if (error == http::error::body_limit || error == http::error::buffer_overflow) {
    error_ = HttpError(413, "body_too_large",
                       "The body is larger than " + std::to_string(limits_.body_bytes_max) +
                           " bytes, the server's limit.");
  } else if (error == http::error::header_limit) {
    error_ = HttpError(431, "headers_too_large",
                       "The request's headers are larger than " +
                           std::to_string(limits_.head_bytes_max) + " bytes.");
  } else if (error) {
    FailSyntax(error.message());
  }
  if (done()) request_.body = std::move(state_->parser.get().body());
}

void HttpParser::TakeHead() {
  const auto& head = state_->parser.get();
  const auto field = [&](http::field name) { return std::string(head[name]); };
  request_.method = std::string(head.method_string());
  request_.path = PathOf(std::string(head.target()));
  request_.authorization = field(http::field::authorization);
  request_.content_type = field(http::field::content_type);
  request_.content_encoding = field(http::field::content_encoding);
  request_.expect = field(http::field::expect);
  request_.keep_alive = head.keep_alive();
  request_.is_http_1_0 = head.version() < 11;
  head_taken_ = true;
  if (head.version() != 10 && head.version() != 11) FailSyntax("only HTTP/1.0 and HTTP/1.1");
}

void HttpParser::FailSyntax(const std::string& message) {
  error_ = HttpError(400, "bad_http", "The request is not valid HTTP: " + message + ".");
}

}  // namespace graft
