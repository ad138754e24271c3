#include "sources/hub_client.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/json.h"
#include "base/json_fields.h"
#include "base/strings.h"
#include "sources/hub_names.h"

namespace graft {
namespace {

constexpr int64_t kFilesMax = 100'000;
constexpr int kPagesMax = 1000;
constexpr int64_t kFileBytesMax = int64_t{1} << 44;

bool IsHex(const std::string& text, size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// <https://...?cursor=x>; rel="next", perhaps behind others.
std::optional<std::string> NextPage(const std::string& link) {
  const size_t rel = link.find("rel=\"next\"");
  if (rel == std::string::npos) return std::nullopt;
  const size_t end = link.rfind('>', rel);
  const size_t begin = link.rfind('<', rel);
  if (begin == std::string::npos || end == std::string::npos || end < begin) return std::nullopt;
  return link.substr(begin + 1, end - begin - 1);
}

Result<HubFile> ReadHubFile(const Json& row, const Secret& token) {
  HubFile file;
  ReadField(row, "path", &file.path);
  ReadField(row, "size", &file.bytes);
  ReadField(row, "oid", &file.blob_id);
  const auto lfs = row.find("lfs");
  if (lfs != row.end() && lfs->is_object()) {
    ReadField(*lfs, "oid", &file.lfs_sha256);
    ReadField(*lfs, "size", &file.bytes);
  }
  const bool is_fine = IsSafeHubPath(file.path) && IsHex(file.blob_id, 40) && file.bytes >= 0 &&
                       file.bytes <= kFileBytesMax &&
                       (file.lfs_sha256.empty() || IsHex(file.lfs_sha256, 64));
  if (is_fine) return file;
  return DataLossError("the hub lists a file that cannot be: " + ForPeople(file.path, {&token}));
}

}  // namespace

HubClient::HubClient(const HubSettings& settings, WebOptions web, WebPatienceOptions patience)
    : settings_(settings),
      web_(std::move(web)),
      patience_(std::move(patience), web_.is_cancelled) {}

WebUrl HubClient::UrlOf(const std::string& target) const {
  WebUrl url = settings_.endpoint;
  url.target += target;
  return url;
}

WebOrder HubClient::OrderOf(WebUrl url) const {
  WebOrder order{.url = std::move(url)};
  // A page's address comes from the server: the token goes to the endpoint alone.
  if (!settings_.token.empty() && order.url.IsSameServer(settings_.endpoint)) {
    order.secret_headers.emplace_back("Authorization",
                                      Secret("Bearer " + settings_.token.Reveal()));
  }
  return order;
}

WebOrder HubClient::FileOrder(const std::string& repo, const std::string& commit,
                              const std::string& path) const {
  return OrderOf(
      UrlOf("/" + repo + "/resolve/" + commit + "/" + PercentEncode(path, /*keeps_slash=*/true)));
}

Status HubClient::ErrorOf(const WebAnswer& answer, const std::string& repo) const {
  const std::string code = answer.Header("x-error-code");
  const std::string said = ForPeople(answer.Header("x-error-message"), {&settings_.token});
  const std::string where = settings_.endpoint.Text();
  const std::string with_token =
      settings_.token.empty()
          ? "set HF_TOKEN to a token that may read it"
          : "the token of HF_TOKEN or of the token file was not accepted for it";
  if (code == "GatedRepo") {
    return PermissionDeniedError("'" + repo + "' is given out on request: ask at " + where + "/" +
                                 repo + ", and " + with_token + " (" + said + ")");
  }
  if (code == "RevisionNotFound") return NotFoundError("'" + repo + "' has no such revision");
  if (code == "EntryNotFound") return NotFoundError("'" + repo + "' has no such file");
  if (answer.status == 401 || answer.status == 403 || answer.status == 404) {
    return NotFoundError("there is no '" + repo + "' at " + where + ", or it is private: " +
                         (answer.status == 404 ? "look at its name" : with_token));
  }
  const std::string text = where + " answered " + std::to_string(answer.status) + " for '" + repo +
                           "'" + (said.empty() ? "" : " (" + said + ")");
  if (IsPassingStatus(answer.status)) return UnavailableError(text + "; try again later");
  return FailedPreconditionError(text);
}

Result<WebAnswer> HubClient::Ask(const WebOrder& order) {
  if (connection_ == nullptr) {
    ASSIGN_OR_RETURN(connection_, WebConnection::Open(web_));
  }
  return patience_.Ask(*connection_, order);
}

Result<WebAnswer> HubClient::Get(const WebUrl& url, const std::string& repo) {
  ASSIGN_OR_RETURN(WebAnswer answer, Ask(OrderOf(url)));
  if (answer.status != 200) return ErrorOf(answer, repo);
  return answer;
}

Result<std::string> HubClient::CommitOf(const std::string& repo, const std::string& revision) {
  ASSIGN_OR_RETURN(
      const WebAnswer answer,
      Get(UrlOf("/api/models/" + repo + "/revision/" + PercentEncode(revision)), repo));
  std::string commit;
  const Result<Json> json = ParseJson(answer.body);
  if (json.ok() && json->is_object()) ReadField(*json, "sha", &commit);
  if (IsCommit(commit)) return commit;
  return DataLossError(settings_.endpoint.Text() + " gave no commit for '" + repo +
                       "'; is it a hub? (HF_ENDPOINT)");
}

Status HubClient::CheckAccess(const std::string& repo, const std::string& commit,
                              const std::string& path) {
  WebOrder order = FileOrder(repo, commit, path);
  order.end = 1;
  ASSIGN_OR_RETURN(const WebAnswer answer, Ask(order));
  return answer.status == 200 || answer.status == 206 ? OkStatus() : ErrorOf(answer, repo);
}

Result<HubTree> HubClient::ListFiles(const std::string& repo, const std::string& commit) {
  HubTree files;
  WebUrl url = UrlOf("/api/models/" + repo + "/tree/" + commit + "?recursive=true&expand=false");
  for (int pages = 0; pages < kPagesMax; ++pages) {
    ASSIGN_OR_RETURN(const WebAnswer answer, Get(url, repo));
    const Result<Json> rows = ParseJson(answer.body);
    if (!rows.ok() || !rows->is_array()) {
      return DataLossError(url.ForPeople() + " is no list of files");
    }
    for (const Json& row : *rows) {
      std::string type;
      if (row.is_object()) ReadField(row, "type", &type);
      if (type != "file") continue;
      ASSIGN_OR_RETURN(HubFile file, ReadHubFile(row, settings_.token));
      files.push_back(std::move(file));
    }
    if (std::ssize(files) > kFilesMax) break;
    const std::optional<std::string> next = NextPage(answer.Header("link"));
    if (!next.has_value()) {
      std::sort(files.begin(), files.end(),
                [](const HubFile& a, const HubFile& b) { return a.path < b.path; });
      return files;
    }
    ASSIGN_OR_RETURN(url, ResolveLocation(url, *next));
    if (!url.IsSameServer(settings_.endpoint)) {
      return PermissionDeniedError("the hub's list of files goes on at another server, " +
                                   url.ForPeople() + ", which is not asked");
    }
  }
  return ResourceExhaustedError("'" + repo + "' has more than " + std::to_string(kFilesMax) +
                                " files");
}

}  // namespace graft
