#include "sources/web_connection.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/file.h"
#include "base/strings.h"
#include "sources/curl_library.h"
#include "sources/web_proxy.h"

namespace graft {
namespace {

constexpr int64_t kErrorBodyBytesMax = 64 << 10;  // that are kept
constexpr int64_t kErrorBytesMax = 16 << 20;      // that are waited for
constexpr size_t kHeaderBytesMax = 256 << 10;
constexpr long kBufferBytes = 512 << 10;  // 1.4 times as fast as libcurl's own
constexpr long kConnectMs = 15'000;

bool IsRedirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// Where certificates are, if neither libcurl nor the environment knows.
std::string CertificateFile() {
  for (const char* const name : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    const char* const path = std::getenv(name);
    if (path != nullptr && *path != '\0') return path;
  }
  for (const char* const path :
       {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"}) {
    if (FileExists(path)) return path;
  }
  return "";
}

class HeaderList {
 public:
  explicit HeaderList(const CurlLibrary& curl) : curl_(curl) {}
  ~HeaderList() {
    for (curl_slist* one = list_; one != nullptr; one = one->next) {
      std::string_view line = one->data;
      std::fill_n(one->data, line.size(), ' ');  // it may be secret
    }
    curl_.slist_free_all(list_);
  }
  HeaderList(const HeaderList&) = delete;
  HeaderList& operator=(const HeaderList&) = delete;
  void Add(const std::string& line) { list_ = curl_.slist_append(list_, line.c_str()); }
  curl_slist* get() const { return list_; }

 private:
  const CurlLibrary& curl_;
  curl_slist* list_ = nullptr;
};

class CurlConnection : public WebConnection {
 public:
  CurlConnection(const CurlLibrary& curl, CURL* easy, WebOptions options)
      : curl_(curl), easy_(easy), options_(std::move(options)) {}
  ~CurlConnection() override { curl_.easy_cleanup(easy_); }

  Result<WebAnswer> Ask(const WebOrder& order, const WebSink& sink) override;

 private:
  Result<WebAnswer> AskOnce(const WebOrder& order, const WebUrl& url, const WebSink& sink);
  void SetUp(const WebOrder& order, const WebUrl& url, bool is_first, HeaderList* headers);
  void SetAuthority(const WebOrder& order, HeaderList* headers);
  Status Failure(CURLcode code, const WebUrl& url) const;
  Status OnHeader(std::string_view line);
  Status OnBody(std::string_view bytes);

  static size_t TakeHeader(char* data, size_t size, size_t count, void* self);
  static size_t TakeBody(char* data, size_t size, size_t count, void* self);
  static curl_socket_t OpenSocket(void* self, curlsocktype purpose, curl_sockaddr* address);
  static int Progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t);

  const CurlLibrary& curl_;
  CURL* const easy_;
  const WebOptions options_;
  // The request that runs, and what came for it.
  const WebOrder* order_ = nullptr;
  const WebSink* sink_ = nullptr;
  WebAnswer answer_;
  Status failure_;
  size_t header_bytes_ = 0;
  int64_t error_bytes_ = 0;  // of bodies that were not asked for
  bool has_proxy_ = false;
};

Status CurlConnection::OnHeader(std::string_view line) {
  header_bytes_ += line.size();
  if (header_bytes_ > kHeaderBytesMax) return ResourceExhaustedError("its headers have no end");
  if (line.starts_with("HTTP/")) {
    answer_.headers.clear();
    const size_t blank = line.find(' ');
    answer_.status =
        blank == line.npos ? 0 : std::atoi(std::string(line.substr(blank + 1)).c_str());
    return OkStatus();
  }
  const size_t colon = line.find(':');
  if (colon == line.npos) return OkStatus();
  answer_.headers[LowerCase(line.substr(0, colon))] = Trimmed(line.substr(colon + 1), " \t\r\n");
  return OkStatus();
}

Status CurlConnection::OnBody(std::string_view bytes) {
  const bool is_good = answer_.status >= 200 && answer_.status < 300;
  if (is_good && *sink_) return (*sink_)(answer_, bytes);
  const int64_t most = is_good ? order_->body_bytes_max : kErrorBodyBytesMax;
  const int64_t left = most - std::ssize(answer_.body);
  if (is_good && std::ssize(bytes) > left) {
    return ResourceExhaustedError("it sends more than " + std::to_string(most) + " bytes");
  }
  if (!is_good) error_bytes_ += std::ssize(bytes);
  if (error_bytes_ > kErrorBytesMax) return UnavailableError("it tells a fault without an end");
  answer_.body += bytes.substr(0, static_cast<size_t>(std::max<int64_t>(left, 0)));
  return OkStatus();
}

size_t CurlConnection::TakeHeader(char* data, size_t size, size_t count, void* self) {
  auto& connection = *static_cast<CurlConnection*>(self);
  connection.failure_ = connection.OnHeader({data, size * count});
  return connection.failure_.ok() ? size * count : 0;
}

size_t CurlConnection::TakeBody(char* data, size_t size, size_t count, void* self) {
  auto& connection = *static_cast<CurlConnection*>(self);
  connection.failure_ = connection.OnBody({data, size * count});
  return connection.failure_.ok() ? size * count : size * count + 1;
}

curl_socket_t CurlConnection::OpenSocket(void* self, curlsocktype /*purpose*/,
                                         curl_sockaddr* address) {
  auto& connection = *static_cast<CurlConnection*>(self);
  // A proxy's address says nothing of the server's, and the operator chose the proxy.
  if (!connection.has_proxy_) {
    const Status status = connection.options_.reachable.Check(&address->addr);
    if (!status.ok()) {
      connection.failure_ = status;
      return CURL_SOCKET_BAD;
    }
  }
  return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

int CurlConnection::Progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const std::atomic<bool>* const cancelled =
      static_cast<CurlConnection*>(self)->options_.is_cancelled;
  return cancelled != nullptr && cancelled->load() ? 1 : 0;
}

void CurlConnection::SetAuthority(const WebOrder& order, HeaderList* headers) {
  for (const auto& [name, value] : order.headers) headers->Add(name + ": " + value);
  for (const auto& [name, value] : order.secret_headers) {
    std::string line = name + ": " + value.Reveal();
    headers->Add(line);
    Secret::Wipe(&line);
  }
  if (!order.signature.has_value()) return;
  const WebSignature& signature = *order.signature;
  std::string user = signature.key_id + ":" + signature.key.Reveal();
  curl_.easy_setopt(easy_, CURLOPT_USERPWD, user.c_str());
  Secret::Wipe(&user);
  const std::string scope = "aws:amz:" + signature.region + ":" + signature.service;
  curl_.easy_setopt(easy_, CURLOPT_AWS_SIGV4, scope.c_str());
}

void CurlConnection::SetUp(const WebOrder& order, const WebUrl& url, bool is_first,
                           HeaderList* headers) {
  const auto set = [this](CURLoption option, auto value) {
    curl_.easy_setopt(easy_, option, value);
  };
  curl_.easy_reset(easy_);  // the connections stay
  set(CURLOPT_URL, url.Text().c_str());
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  set(CURLOPT_PATH_AS_IS, 1L);  // a signature covers the path as it stands
  set(CURLOPT_BUFFERSIZE, kBufferBytes);
  set(CURLOPT_CONNECTTIMEOUT_MS, kConnectMs);
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(options_.stall_seconds));
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(CURLOPT_USERAGENT, "graft/" GRAFT_VERSION);
  const std::string certificates = CertificateFile();
  if (!certificates.empty()) set(CURLOPT_CAINFO, certificates.c_str());
  const std::string proxy = ProxyFor(url);
  has_proxy_ = !proxy.empty();
  set(CURLOPT_PROXY, proxy.c_str());  // "": none, whatever the environment says
  // Nor does it read no_proxy in its own way: what went past the proxy by that would be unchecked.
  set(CURLOPT_NOPROXY, "");
  set(CURLOPT_OPENSOCKETFUNCTION, &OpenSocket);
  set(CURLOPT_OPENSOCKETDATA, static_cast<void*>(this));
  set(CURLOPT_HEADERFUNCTION, &TakeHeader);
  set(CURLOPT_HEADERDATA, static_cast<void*>(this));
  set(CURLOPT_WRITEFUNCTION, &TakeBody);
  set(CURLOPT_WRITEDATA, static_cast<void*>(this));
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, &Progress);
  set(CURLOPT_XFERINFODATA, static_cast<void*>(this));
  if (order.is_head) set(CURLOPT_NOBODY, 1L);
  if (order.form.has_value()) {
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(order.form->Reveal().size()));
    set(CURLOPT_POSTFIELDS, order.form->Reveal().c_str());
    headers->Add("Expect:");  // not where there is a signature, which would cover it
  }
  // A signature covers all headers, and there are stores before which a proxy changes this one.
  if (!order.signature.has_value()) headers->Add("Accept-Encoding: identity");
  if (order.end > 0) {
    headers->Add("Range: bytes=" + std::to_string(order.begin) + "-" +
                 std::to_string(order.end - 1));
  }
  if (is_first) SetAuthority(order, headers);
  set(CURLOPT_HTTPHEADER, headers->get());
}

Status CurlConnection::Failure(CURLcode code, const WebUrl& url) const {
  const std::string where = url.ForPeople();
  if (options_.is_cancelled != nullptr && options_.is_cancelled->load()) {
    return CancelledError("the fetch was cancelled");
  }
  if (!failure_.ok()) return failure_.WithContext(where);
  const std::string why = where + ": " + curl_.easy_strerror(code);
  if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE) {
    return PermissionDeniedError(
        why +
        "; CURL_CA_BUNDLE, or SSL_CERT_FILE without it, names a file of certificates to trust");
  }
  return UnavailableError(why);
}

Result<WebAnswer> CurlConnection::AskOnce(const WebOrder& order, const WebUrl& url,
                                          const WebSink& sink) {
  order_ = &order;
  sink_ = &sink;
  answer_ = {};
  answer_.url = url;
  failure_ = OkStatus();
  header_bytes_ = 0;
  error_bytes_ = 0;
  HeaderList headers(curl_);
  SetUp(order, url, url.IsSameServer(order.url), &headers);
  curl_slist* resolved = nullptr;
  for (const std::string& one : options_.resolved) {
    resolved = curl_.slist_append(resolved, one.c_str());
  }
  curl_.easy_setopt(easy_, CURLOPT_RESOLVE, resolved);
  const CURLcode code = curl_.easy_perform(easy_);
  curl_.easy_reset(easy_);  // it points to headers and keys
  curl_.slist_free_all(resolved);
  if (code != CURLE_OK) return Failure(code, url);
  return std::move(answer_);
}

Result<WebAnswer> CurlConnection::Ask(const WebOrder& order, const WebSink& sink) {
  WebUrl url = order.url;
  for (int redirects = 0;; ++redirects) {
    if (ProxyFor(url) != "" && !IsPublicName(url.host) && !url.IsSameServer(order.url)) {
      return PermissionDeniedError(url.ForPeople() + " is no public name, and was not configured");
    }
    ASSIGN_OR_RETURN(WebAnswer answer, AskOnce(order, url, sink));
    answer.is_redirected = !url.IsSameServer(order.url);
    if (!IsRedirect(answer.status) || order.redirects_max == 0) return answer;
    const std::string location = answer.Header("location");
    if (location.empty()) return answer;
    if (redirects == order.redirects_max) {
      return PermissionDeniedError(order.url.ForPeople() + " was redirected more than " +
                                   std::to_string(order.redirects_max) + " times");
    }
    Result<WebUrl> next = ResolveLocation(url, location);
    if (!next.ok()) {
      return PermissionDeniedError(next.status().message())
          .WithContext("refused a redirect of " + url.ForPeople());
    }
    if (url.scheme == "https" && next->scheme == "http") {
      return PermissionDeniedError("refused a redirect of " + url.ForPeople() +
                                   " from https to http");
    }
    url = *std::move(next);
  }
}

}  // namespace

std::string WebAnswer::Header(const std::string& name) const {
  const auto it = headers.find(name);
  return it == headers.end() ? "" : it->second;
}

Result<std::unique_ptr<WebConnection>> WebConnection::Open(WebOptions options) {
  ASSIGN_OR_RETURN(const CurlLibrary* const curl, OpenCurl());
  CURL* const easy = curl->easy_init();
  if (easy == nullptr) return ResourceExhaustedError("no memory for a connection");
  return std::unique_ptr<WebConnection>(
      std::make_unique<CurlConnection>(*curl, easy, std::move(options)));
}

}  // namespace graft
