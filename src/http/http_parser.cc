#include "http/http_parser.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/parser.hpp>
#include <exception>
#include <string_view>
#include <utility>

#include "base/strings.h"

namespace graft {
namespace {

namespace http = boost::beast::http;

// Where the host of "http://host/path" begins; npos for "/path".
size_t AuthorityBegin(const std::string& target) {
  const size_t scheme = target.starts_with('/') ? std::string::npos : target.find("://");
  return scheme == std::string::npos ? scheme : scheme + 3;
}

struct PathAndQuery {
  std::string path;
  std::string query;
};

// "http://host/path?query" and "/path?query" to "/path" and "query".
PathAndQuery SplitTarget(std::string target) {
  const size_t host = AuthorityBegin(target);
  if (host != std::string::npos) {
    const size_t slash = target.find('/', host);
    target = slash == std::string::npos ? "/" : target.substr(slash);
  }
  target.resize(std::min(target.find('#'), target.size()));
  const size_t path = std::min(target.find('?'), target.size());
  return {target.substr(0, path), path < target.size() ? target.substr(path + 1) : ""};
}

// A string that grows with what comes. Beast's own makes room for all that the head announces.
struct GrowingBody {
  using value_type = std::string;

  class reader {
   public:
    template <bool kIsRequest, class Fields>
    reader(http::header<kIsRequest, Fields>&, std::string& body) : body_(body) {}
    void init(const boost::optional<uint64_t>&, boost::system::error_code& error) { error = {}; }
    template <class Buffers>
    size_t put(const Buffers& buffers, boost::system::error_code& error) {
      const size_t before = body_.size();
      for (const boost::asio::const_buffer buffer : boost::beast::buffers_range_ref(buffers)) {
        body_.append(static_cast<const char*>(buffer.data()), buffer.size());
      }
      error = {};
      return body_.size() - before;
    }
    void finish(boost::system::error_code& error) { error = {}; }

   private:
    std::string& body_;
  };
};

}  // namespace

struct HttpParser::State {
  http::request_parser<GrowingBody> parser;
};

HttpParser::HttpParser(const HttpParserLimits& limits)
    : limits_(limits), state_(std::make_unique<State>()) {
  state_->parser.header_limit(limits.head_bytes_max);
  state_->parser.body_limit(limits.body_bytes_max);
}

HttpParser::~HttpParser() = default;

bool HttpParser::head_done() const { return head_taken_; }

bool HttpParser::done() const { return head_taken_ && state_->parser.is_done(); }

int64_t HttpParser::body_bytes() const {
  return static_cast<int64_t>(std::max(state_->parser.get().body().size(), request_.body.size()));
}

int64_t HttpParser::body_bytes_announced() const {
  const auto announced = state_->parser.content_length();
  return std::max(body_bytes(), static_cast<int64_t>(announced.value_or(0)));
}

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
    error_->retry_after_s = 1;
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
  PathAndQuery asked = SplitTarget(std::string(head.target()));
  request_.path = std::move(asked.path);
  request_.query = std::move(asked.query);
  request_.authorization = field(http::field::authorization);
  request_.content_type = field(http::field::content_type);
  request_.content_encoding = field(http::field::content_encoding);
  request_.expect = LowerCase(head[http::field::expect]);
  request_.request_id = std::string(head["X-Request-Id"]);
  request_.traceparent = std::string(head["traceparent"]);
  request_.cors_request_headers = field(http::field::access_control_request_headers);
  request_.cors_private_network =
      LowerCase(head["Access-Control-Request-Private-Network"]) == "true";
  request_.accept = field(http::field::accept);
  request_.origin = field(http::field::origin);
  const std::string target(head.target());
  const size_t host = AuthorityBegin(target);
  request_.host = host == std::string::npos
                      ? field(http::field::host)
                      : target.substr(host, target.find_first_of("/?#", host) - host);
  request_.keep_alive = head.keep_alive();
  request_.is_http_1_0 = head.version() < 11;
  head_taken_ = true;
  if (head.version() != 10 && head.version() != 11) FailSyntax("only HTTP/1.0 and HTTP/1.1");
  if (!error_.has_value()) CheckFraming();
}

void HttpParser::CheckFraming() {
  const auto& head = state_->parser.get();
  const size_t num_hosts = head.count(http::field::host);
  if (num_hosts > 1) return FailSyntax("it has more than one Host");
  if (num_hosts == 0 && !request_.is_http_1_0) return FailSyntax("HTTP/1.1 needs a Host");
  const size_t num_codings = head.count(http::field::transfer_encoding);
  if (num_codings == 0) return;
  if (request_.is_http_1_0) return FailSyntax("HTTP/1.0 has no Transfer-Encoding");
  if (head.count(http::field::content_length) != 0) {
    return FailSyntax("it has both Transfer-Encoding and Content-Length");
  }
  const std::string coding = LowerCase(head[http::field::transfer_encoding]);
  if (num_codings == 1 && coding == "chunked") return;
  if (num_codings > 1 || !coding.ends_with("chunked") || coding.find(',') == std::string::npos) {
    return FailSyntax("its Transfer-Encoding is not 'chunked'");
  }
  error_ = HttpError(501, "unsupported_transfer_encoding",
                     "Transfer-Encoding can only be 'chunked': send the body as it is.");
}

void HttpParser::FailSyntax(const std::string& message) {
  error_ = HttpError(400, "bad_http", "The request is not valid HTTP: " + message + ".");
}

}  // namespace graft
