// HubClient: what a Hugging Face hub says over HTTP: a revision's commit, and its files with their
// sizes and digests. Blocks its thread, which never serves requests. One thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "sources/hub_settings.h"
#include "sources/web_connection.h"
#include "sources/web_patience.h"

namespace graft {

struct HubFile {
  std::string path;
  int64_t bytes = 0;
  std::string blob_id;  // git's sha1 of the file, or of what stands for it where it is an LFS one
  std::string lfs_sha256;  // "" where it is none

  // What the cache calls its bytes.
  const std::string& etag() const { return lfs_sha256.empty() ? blob_id : lfs_sha256; }
};
using HubTree = std::vector<HubFile>;  // sorted by path

class HubClient {
 public:
  HubClient(const HubSettings& settings, WebOptions web, WebPatienceOptions patience = {});

  // The commit that a branch or tag is at. kNotFound: no such repository, revision, or right to see
  // them. kPermissionDenied: the repository asks for its owner's consent.
  Result<std::string> CommitOf(const std::string& repo, const std::string& revision);
  // Whether the token may read the bytes of `path`, by asking for its first one. CommitOf and
  // ListFiles do not say: they answer for a gated repository, too. CommitOf's errors.
  Status CheckAccess(const std::string& repo, const std::string& commit, const std::string& path);
  // The commit's files. kDataLoss: a listing that cannot be, a path that leads out among them.
  Result<HubTree> ListFiles(const std::string& repo, const std::string& commit);

  // The order of a file's bytes.
  WebOrder FileOrder(const std::string& repo, const std::string& commit,
                     const std::string& path) const;

 private:
  Result<WebAnswer> Ask(const WebOrder& order);
  Result<WebAnswer> Get(const WebUrl& url, const std::string& repo);
  WebOrder OrderOf(WebUrl url) const;
  WebUrl UrlOf(const std::string& target) const;
  Status ErrorOf(const WebAnswer& answer, const std::string& repo) const;

  const HubSettings& settings_;
  const WebOptions web_;
  WebPatience patience_;
  std::unique_ptr<WebConnection> connection_;
};

}  // namespace graft
