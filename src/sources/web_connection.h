// WebConnection: one request after the other over HTTP, by libcurl, kept alive between them. Each
// address that it connects to is checked. Redirects are followed one by one, never from https to
// http, and what is secret goes to the first server alone. Blocks its thread, which never serves
// requests. One thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "sources/reachable_addresses.h"
#include "sources/secret.h"
#include "sources/web_url.h"

namespace graft {

// By AWS's signature, version 4.
struct WebSignature {
  std::string region;
  std::string service;
  std::string key_id;
  Secret key;
};

struct WebOrder {
  WebUrl url;
  bool is_head = false;
  // To the first server alone, all four.
  std::vector<std::pair<std::string, std::string>> headers;
  std::vector<std::pair<std::string, Secret>> secret_headers;
  std::optional<WebSignature> signature;
  std::optional<Secret> form;  // the body of a POST, application/x-www-form-urlencoded
  int64_t begin = 0;           // bytes `begin` to before `end`; end 0: all, without a Range
  int64_t end = 0;
  int64_t body_bytes_max = 16 << 20;  // of a body that no sink takes
  int redirects_max = 5;
};

struct WebAnswer {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in small letters; the last of each name
  std::string body;                            // what no sink took
  WebUrl url;                                  // that answered; its query may be signed
  bool is_redirected = false;                  // to another server than the first

  std::string Header(const std::string& name) const;
};

// Takes the bytes of an answer with a status of 2xx, in order; a failure ends the request.
using WebSink = std::function<Status(const WebAnswer& head, std::string_view bytes)>;

struct WebOptions {
  ReachableAddresses reachable;
  const std::atomic<bool>* is_cancelled = nullptr;
  // "HOST:PORT:ADDRESS": what names lead to, in place of the resolver's answer. For tests.
  std::vector<std::string> resolved = {};
  int64_t stall_seconds = 30;  // without a byte: the request has failed
};

class WebConnection {
 public:
  static Result<std::unique_ptr<WebConnection>> Open(WebOptions options);
  virtual ~WebConnection() = default;

  // Any status of HTTP is an answer. kUnavailable: none came, or it was cut short.
  // kPermissionDenied: an address or a redirect was refused. kResourceExhausted: the body is larger
  // than it may be. kCancelled. Else the sink's failure. No message has a query or a secret.
  virtual Result<WebAnswer> Ask(const WebOrder& order, const WebSink& sink = {}) = 0;
};

}  // namespace graft
