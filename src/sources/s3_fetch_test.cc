#include "sources/s3_fetch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "base/file.h"
#include "base/sha256.h"
#include "base/strings.h"
#include "sources/s3_xml.h"
#include "sources/web_testing.h"

namespace graft {
namespace s3_fetch_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kSecretKey[] = "planted/secret+key";
constexpr char kSession[] = "planted//session+token==";

std::string Hmac(const std::string& key, const std::string& text) {
  unsigned char out[EVP_MAX_MD_SIZE];
  unsigned int bytes = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), out, &bytes);
  return std::string(reinterpret_cast<char*>(out), bytes);
}

std::string HexOfBytes(const std::string& bytes) {
  std::ostringstream hex;
  for (const char c : bytes) {
    hex << "0123456789abcdef"[static_cast<unsigned char>(c) >> 4]
        << "0123456789abcdef"[static_cast<unsigned char>(c) & 15];
  }
  return hex.str();
}

std::string Between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t at = text.find(begin) + begin.size();
  return text.substr(at, text.find(end, at) - at);
}

// As the store computes it: the path and the query are decoded, encoded again and sorted.
bool IsSigned(const AskedOfWeb& asked) {
  const auto it = asked.headers.find("authorization");
  if (it == asked.headers.end() || !it->second.starts_with("AWS4-HMAC-SHA256 ")) return false;
  const std::string scope = Between(it->second + ",", "Credential=AKID/", ",");
  const std::string signed_headers = Between(it->second + ",", "SignedHeaders=", ",");
  const size_t question = std::min(asked.target.find('?'), asked.target.size());
  std::string query;
  if (question < asked.target.size()) {
    std::vector<std::pair<std::string, std::string>> fields;
    std::istringstream parts(asked.target.substr(question + 1));
    for (std::string part; std::getline(parts, part, '&');) {
      const size_t equals = part.find('=');
      fields.emplace_back(PercentDecode(part.substr(0, equals)),
                          PercentDecode(part.substr(equals + 1)));
    }
    query = SortedQuery(fields);
  }
  std::string canonical = asked.method + "\n" +
                          PercentEncode(PercentDecode(asked.target.substr(0, question)), true) +
                          "\n" + query + "\n";
  std::istringstream names(signed_headers);
  for (std::string name; std::getline(names, name, ';');) {
    if (!asked.headers.contains(name)) return false;
    canonical += name + ":" + asked.headers.at(name) + "\n";
  }
  canonical += "\n" + signed_headers + "\n" + asked.headers.at("x-amz-content-sha256");
  const std::string text = "AWS4-HMAC-SHA256\n" + asked.headers.at("x-amz-date") + "\n" + scope +
                           "\n" + Sha256Of(canonical);
  std::string key = std::string("AWS4") + kSecretKey;
  std::istringstream parts(scope);
  for (std::string part; std::getline(parts, part, '/');) key = Hmac(key, part);
  return it->second.ends_with("Signature=" + HexOfBytes(Hmac(key, text)));
}

// A bucket `shelf` with the objects that the test sets.
class S3FetchTest : public ::testing::Test {
 protected:
  S3FetchTest() : store_([this](const AskedOfWeb& asked) { return Answer(asked); }) {
    folder_ = ::testing::TempDir() + "s3_fetch_" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    settings_.endpoint = *ParseWebUrl(store_.Url(""));
    settings_.endpoint->target.clear();
    settings_.cache = folder_;
    settings_.keys = {.id = "AKID", .key = Secret(kSecretKey), .session_token = Secret(kSession)};
    objects_["a b/é+x/adapter_config.json"] = "{}";
    objects_["a b/é+x/adapter_model.safetensors"] = std::string(size_t{9} << 13, 'w');
    objects_["a b/é+x/optimizer.pt"] = "pickle";
    objects_["other"] = "x";
  }
  ~S3FetchTest() override { fs::remove_all(folder_); }

  ScriptedReply Answer(const AskedOfWeb& asked) {
    if (on_ask_) {
      if (auto reply = on_ask_(asked); reply.has_value()) return *reply;
    }
    if (!settings_.keys.id.empty() && !IsSigned(asked)) {
      return {.status = 403, .body = "<Error><Code>SignatureDoesNotMatch</Code></Error>"};
    }
    const size_t question = std::min(asked.target.find('?'), asked.target.size());
    const std::string path = PercentDecode(asked.target.substr(0, question));
    if (path == "/shelf/") return {.body = List(asked.target.substr(question))};
    const auto it = objects_.find(path.substr(std::string("/shelf/").size()));
    if (it == objects_.end()) return {.status = 404};
    const std::string etag = '"' + Sha256Of(it->second).substr(0, 32) + '"';
    const auto match = asked.headers.find("if-match");
    if (match != asked.headers.end() && match->second != etag) return {.status = 412};
    ScriptedReply reply = ScriptedWeb::Bytes(asked, it->second);
    reply.headers.emplace_back("ETag", etag);
    if (sends_checksums_) {
      const auto digest = BlobDigest::Make(DigestKind::kS3Crc32, 0);
      digest->Update(it->second);
      reply.headers.emplace_back("x-amz-checksum-crc32", digest->Finish());
    }
    return reply;
  }

  // Two objects a page.
  std::string List(const std::string& query) {
    const std::string prefix = query.find("prefix=") == query.npos
                                   ? ""
                                   : PercentDecode(Between(query + "&", "prefix=", "&"));
    const std::string after = query.find("continuation-token=") == query.npos
                                  ? ""
                                  : PercentDecode(Between(query + "&", "continuation-token=", "&"));
    std::string xml = "<ListBucketResult>";
    std::string last;
    int count = 0;
    for (const auto& [key, bytes] : objects_) {
      if (!key.starts_with(prefix) || (!after.empty() && "t+=/" + key <= after)) continue;
      if (count++ == 2) {
        return xml + "<IsTruncated>true</IsTruncated><NextContinuationToken>t+=/" + last +
               "</NextContinuationToken></ListBucketResult>";
      }
      last = key;
      xml += "<Contents><Key>" + key + "</Key><ETag>&quot;" + Sha256Of(bytes).substr(0, 32) +
             "&quot;</ETag><Size>" + std::to_string(bytes.size()) + "</Size></Contents>";
    }
    return xml + "<IsTruncated>false</IsTruncated></ListBucketResult>";
  }

  Result<S3Snapshot> Fetch(HubKind kind = HubKind::kAdapter) {
    DownloadOptions options{.part_bytes = 64 << 10};
    options.patience.sleep = [](int64_t) {};
    options.connections_max = 2;
    return FetchFromS3(settings_, *ParseS3Name("s3://shelf/a b/é+x/"), kind, options);
  }

  std::map<std::string, std::string> objects_;
  bool sends_checksums_ = true;
  std::function<std::optional<ScriptedReply>(const AskedOfWeb&)> on_ask_;
  ScriptedWeb store_;
  S3Settings settings_;
  std::string folder_;
};

TEST_F(S3FetchTest, SignsAndFetchesWhatIsRead) {
  const Result<S3Snapshot> snapshot = Fetch();
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().ToString();
  EXPECT_EQ(*ReadFile(snapshot->path + "/adapter_config.json"), "{}");
  EXPECT_EQ(*ReadFile(snapshot->path + "/adapter_model.safetensors"),
            objects_["a b/é+x/adapter_model.safetensors"]);
  EXPECT_FALSE(FileExists(snapshot->path + "/optimizer.pt"));
  for (const AskedOfWeb& asked : store_.asked()) {
    EXPECT_EQ(asked.headers.at("x-amz-security-token"), kSession);
    // It is changed on the way to some stores, which would then refuse the signature.
    EXPECT_FALSE(asked.headers.contains("accept-encoding"));
    if (asked.headers.contains("range")) {
      EXPECT_TRUE(asked.headers.contains("if-match"));
    }
  }
  EXPECT_EQ(Fetch()->fetched_bytes, 0);
  EXPECT_EQ(Fetch()->version, snapshot->version);
}

TEST_F(S3FetchTest, NewObjectsAreANewVersion) {
  const S3Snapshot old = *Fetch();
  objects_["a b/é+x/adapter_config.json"] = "{\"r\": 1}";
  const S3Snapshot now = *Fetch();
  EXPECT_NE(now.version, old.version);
  EXPECT_EQ(*ReadFile(old.path + "/adapter_config.json"), "{}");
  EXPECT_EQ(*ReadFile(now.path + "/adapter_config.json"), "{\"r\": 1}");
}

TEST_F(S3FetchTest, AVersionThatLostFilesIsFetchedAnew) {
  objects_["a b/é+x/chat_template.jinja"] = "{{ messages }}";
  const S3Snapshot old = *Fetch();
  for (const char* const file : {"adapter_model.safetensors", "chat_template.jinja"}) {
    fs::remove(old.path + "/" + file);
    const Result<S3Snapshot> now = Fetch();
    ASSERT_TRUE(now.ok()) << now.status().ToString();
    EXPECT_EQ(now->path, old.path);
    EXPECT_EQ(*ReadFile(old.path + "/" + file), objects_[std::string("a b/é+x/") + file]);
  }
  const auto num_there = [&] {
    return std::distance(fs::directory_iterator(fs::path(old.path).parent_path()), {});
  };
  const auto before = num_there();
  EXPECT_TRUE(RemoveS3Version(old.path).ok());
  EXPECT_TRUE(RemoveS3Version(old.path).ok());  // gone already
  EXPECT_EQ(num_there(), before - 1);
  EXPECT_EQ(RemoveS3Version(folder_).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(FileExists(folder_));
}

TEST_F(S3FetchTest, WhatIsLargerThanItMayBeIsNotBegun) {
  const S3Name name{.bucket = "shelf", .prefix = "a b/é+x"};
  const DownloadOptions options{.bytes_max = 1000};
  const Status status = FetchFromS3(settings_, name, HubKind::kAdapter, options).status();
  EXPECT_EQ(status.code(), StatusCode::kOutOfRange);
  EXPECT_FALSE(FileExists(folder_));
}

TEST_F(S3FetchTest, WhatIsNoWholeListingIsNotAnEmptyOne) {
  for (const char* const body :
       {"<html>sign in</html>", "<ListBucketResult><Contents><Key>a b/é+x/adapter_config.json"}) {
    on_ask_ = [=](const AskedOfWeb&) { return std::optional(ScriptedReply{.body = body}); };
    const Status status = Fetch().status();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << body;
    EXPECT_THAT(status.message(), HasSubstr("is it a store?"));
  }
}

TEST_F(S3FetchTest, WhatIsNoAdapterHasAVersionToo) {
  objects_.erase("a b/é+x/adapter_model.safetensors");
  DownloadOptions options;
  const S3Name name{.bucket = "shelf", .prefix = "a b/é+x"};
  const auto version = [&] { return VersionInS3(settings_, name, HubKind::kAdapter, options); };
  const Result<std::string> first = version();
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_EQ(*version(), *first);
  EXPECT_EQ(Fetch().status().code(), StatusCode::kUnimplemented);
  objects_["a b/é+x/README.md"] = "words";
  EXPECT_NE(*version(), *first);
  EXPECT_EQ(Fetch().status().code(), StatusCode::kUnimplemented);
}

// Another machine that shares the folder and not its locks was first.
TEST_F(S3FetchTest, AVersionThatIsThereMeanwhileIsTaken) {
  std::string path;
  on_ask_ = [&](const AskedOfWeb& asked) -> std::optional<ScriptedReply> {
    if (path.empty() || asked.method != "GET" || !asked.headers.contains("range")) {
      return std::nullopt;
    }
    fs::create_directories(path);
    for (const char* const file : {"adapter_config.json", "adapter_model.safetensors"}) {
      std::ofstream(path + "/" + file) << objects_.at(std::string("a b/é+x/") + file);
    }
    return std::nullopt;
  };
  const std::string first = Fetch()->path;
  fs::remove_all(first);
  path = first;
  const Result<S3Snapshot> second = Fetch();
  ASSERT_TRUE(second.ok()) << second.status().ToString();
  EXPECT_EQ(second->path, first);
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(first).parent_path())) {
    EXPECT_THAT(entry.path().string(), Not(HasSubstr(".incomplete")));
  }
}

TEST_F(S3FetchTest, WrongBytesAreFoundByTheCheckSum) {
  int wrong = 1;
  on_ask_ = [&](const AskedOfWeb& asked) -> std::optional<ScriptedReply> {
    if (!asked.headers.contains("range") || !asked.target.ends_with(".safetensors")) {
      return std::nullopt;
    }
    ScriptedReply reply = ScriptedWeb::Bytes(asked, objects_["a b/é+x/adapter_model.safetensors"]);
    if (wrong-- > 0) reply.body[0] ^= 1;
    return reply;
  };
  EXPECT_TRUE(Fetch().ok());
  fs::remove_all(folder_);
  wrong = 1000;
  EXPECT_EQ(Fetch().status().code(), StatusCode::kDataLoss);
  EXPECT_FALSE(FileExists(folder_ + "/current"));
}

TEST_F(S3FetchTest, AnObjectThatIsReplacedMeanwhileIsNotMixed) {
  sends_checksums_ = false;
  int ranges = 0;
  on_ask_ = [&](const AskedOfWeb& asked) -> std::optional<ScriptedReply> {
    if (asked.headers.contains("range") && asked.target.ends_with(".safetensors") &&
        ++ranges == 2) {
      objects_["a b/é+x/adapter_model.safetensors"][0] ^= 1;
    }
    return std::nullopt;
  };
  EXPECT_EQ(Fetch().status().code(), StatusCode::kAborted);
  on_ask_ = {};
  const S3Snapshot snapshot = *Fetch();
  EXPECT_EQ(*ReadFile(snapshot.path + "/adapter_model.safetensors"),
            objects_["a b/é+x/adapter_model.safetensors"]);
}

TEST_F(S3FetchTest, SizesThatCannotBeAreRefused) {
  on_ask_ = [&](const AskedOfWeb& asked) -> std::optional<ScriptedReply> {
    if (asked.target.find("list-type") == std::string::npos) return std::nullopt;
    return ScriptedReply{.body =
                             "<Contents><Key>a b/é+x/adapter_config.json</Key><ETag>e</ETag>"
                             "<Size>9223372036854775807</Size></Contents></ListBucketResult>"};
  };
  EXPECT_EQ(Fetch().status().code(), StatusCode::kDataLoss);
}

TEST_F(S3FetchTest, CheckSumsOfPartsAreNotTakenForTheWhole) {
  bool is_inner = false;
  on_ask_ = [&](const AskedOfWeb& asked) -> std::optional<ScriptedReply> {
    if (asked.method != "HEAD" || is_inner) return std::nullopt;
    is_inner = true;
    ScriptedReply reply = Answer(asked);
    is_inner = false;
    reply.headers.emplace_back("x-amz-checksum-sha256", "AAAA-3");
    return reply;
  };
  EXPECT_TRUE(Fetch().ok());
}

TEST_F(S3FetchTest, ErrorsSayWhatToDoAndTellNoKey) {
  const auto fail = [&](ScriptedReply reply) {
    reply.body += std::string("<Message>") + kSecretKey + "</Message>";
    on_ask_ = [=](const AskedOfWeb&) { return std::optional(reply); };
    const Status status = Fetch().status();
    EXPECT_THAT(status.message(), Not(HasSubstr("planted")));
    return status;
  };
  EXPECT_THAT(fail({.status = 403, .body = "<Code>AccessDenied</Code>"}).message(),
              HasSubstr("(AccessDenied); the keys may not read it"));
  EXPECT_THAT(fail({.status = 403, .body = std::string("<Code>") + kSession + "</Code>"}).message(),
              HasSubstr("***"));
  EXPECT_THAT(fail({.status = 301, .headers = {{"x-amz-bucket-region", "eu-west-1"}}}).message(),
              HasSubstr("in the region eu-west-1; set AWS_REGION"));
  EXPECT_THAT(fail({.status = 301, .headers = {{"x-amz-bucket-region", kSession}}}).message(),
              HasSubstr("***"));
  EXPECT_THAT(fail({.status = 307, .headers = {{"Location", "http://10.0.0.1/"}}}).message(),
              HasSubstr("sends elsewhere, which is not followed"));
  EXPECT_EQ(fail({.status = 404, .body = "<Code>NoSuchBucket</Code>"}).code(),
            StatusCode::kNotFound);
  EXPECT_EQ(fail({.status = 503}).code(), StatusCode::kUnavailable);
  settings_.keys = {};
  EXPECT_THAT(fail({.status = 403}).message(), HasSubstr("set AWS_ACCESS_KEY_ID"));
}

TEST_F(S3FetchTest, AStoreThatIsAwayLeavesWhatTheCacheHas) {
  const S3Snapshot old = *Fetch();
  on_ask_ = [](const AskedOfWeb&) { return std::optional(ScriptedReply{.status = 503}); };
  EXPECT_EQ(Fetch()->path, old.path);
}

TEST_F(S3FetchTest, AWebIdentityGetsKeys) {
  fs::create_directories(folder_);
  std::ofstream(folder_ + "/token") << "planted.identity\n";
  settings_.keys = {};
  settings_.identity = {.role_arn = "arn:aws:iam::1:role/r",
                        .token_file = folder_ + "/token",
                        .endpoint = *settings_.endpoint};
  std::string form;
  on_ask_ = [&](const AskedOfWeb& asked) -> std::optional<ScriptedReply> {
    if (asked.method != "POST") {
      return IsSigned(asked) ? std::nullopt : std::optional(ScriptedReply{.status = 403});
    }
    form = asked.body;
    return ScriptedReply{.body = std::string("<AccessKeyId>AKID</AccessKeyId><SecretAccessKey>") +
                                 kSecretKey + "</SecretAccessKey><SessionToken>" + kSession +
                                 "</SessionToken><Expiration>2100-01-01T00:00:00Z</Expiration>"};
  };
  const Result<S3Snapshot> snapshot = Fetch();
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().ToString();
  EXPECT_THAT(form, HasSubstr("Action=AssumeRoleWithWebIdentity"));
  EXPECT_THAT(form, HasSubstr("WebIdentityToken=planted.identity"));
}

TEST(S3NameTest, RefusesTricks) {
  EXPECT_EQ(ParseS3Name("s3://shelf/a/b/")->prefix, "a/b");
  EXPECT_EQ(ParseS3Name("s3://shelf")->prefix, "");
  for (const char* const bad :
       {"s3://", "s3://ab/x", "s3://A-B/x", "s3://shelf/../x", "s3://shelf/a//b", "http://shelf/x",
        "s3://shelf@host/x", "s3://10.0..1/x", "s3://shelf/a\\b", "s3:shelf"}) {
    EXPECT_FALSE(ParseS3Name(bad).ok()) << bad;
  }
}

TEST(S3XmlTest, ReadsTextsWithEntities) {
  EXPECT_EQ(XmlText("<a>x &amp;&#65;&#x42;&quot; &none; &#0;</a>", "a"), "x &AB\" &none; &#0;");
  EXPECT_EQ(XmlText("<a>x", "a"), "");
  EXPECT_EQ(XmlText("<a>&#x0010FFFF;&&amp;&" + std::string(20, 'b') + ";</a>", "a"),
            "\xF4\x8F\xBF\xBF&&&" + std::string(20, 'b') + ";");
  EXPECT_EQ(XmlElements("<c><k>1</k></c><c><k>2</k></c><c>", "c").size(), 2u);
}

TEST(S3SettingsTest, ReadsWhatAwsToolsRead) {
  const std::string folder = ::testing::TempDir() + "s3_settings";
  fs::create_directories(folder + "/.aws");
  std::ofstream(folder + "/.aws/credentials")
      << "[default]\naws_access_key_id = DEFAULT\naws_secret_access_key=one\n"
      << "# words\n[work]\naws_access_key_id = WORK\naws_secret_access_key = two\n"
      << "aws_session_token = three\n";
  std::ofstream(folder + "/.aws/config")
      << "[default]\nregion = eu-west-1\n[profile work]\nregion = eu-north-1\n"
      << "endpoint_url = http://minio:9000/\ns3 =\n  endpoint_url = http://x\n"
      << "[profile sso]\nsso_start_url = https://x\n"
      << "[profile pod]\nrole_arn = arn:x\nweb_identity_token_file = /token\n";
  std::map<std::string, std::string> variables = {{"HOME", folder}};
  const ReadVariable read = [&](const char* name) -> std::optional<std::string> {
    const auto it = variables.find(name);
    return it == variables.end() ? std::nullopt : std::optional(it->second);
  };
  S3Settings settings = *S3Settings::FromEnvironment(read);
  EXPECT_EQ(settings.keys.id, "DEFAULT");
  EXPECT_EQ(settings.region, "eu-west-1");
  EXPECT_FALSE(settings.endpoint.has_value());
  EXPECT_EQ(settings.cache, folder + "/.cache/graft/s3");
  variables["AWS_PROFILE"] = "work";
  settings = *S3Settings::FromEnvironment(read);
  EXPECT_EQ(settings.keys.id, "WORK");
  EXPECT_EQ(settings.keys.session_token.Reveal(), "three");
  EXPECT_EQ(settings.endpoint->Text(), "http://minio:9000");
  EXPECT_EQ(settings.region, "eu-north-1");
  variables["AWS_PROFILE"] = "pod";
  settings = *S3Settings::FromEnvironment(read);
  EXPECT_EQ(settings.identity->endpoint.Text(), "https://sts.us-east-1.amazonaws.com");
  variables["AWS_PROFILE"] = "sso";
  EXPECT_EQ(S3Settings::FromEnvironment(read).status().code(), StatusCode::kFailedPrecondition);
  variables["AWS_PROFILE"] = "none";
  EXPECT_EQ(S3Settings::FromEnvironment(read).status().code(), StatusCode::kInvalidArgument);
  variables = {{"HOME", folder},
               {"AWS_ACCESS_KEY_ID", "ENV"},
               {"AWS_SECRET_ACCESS_KEY", "key"},
               {"AWS_ENDPOINT_URL", "http://a:1"},
               {"AWS_ENDPOINT_URL_S3", "http://b:2"},
               {"AWS_REGION", "auto"}};
  settings = *S3Settings::FromEnvironment(read);
  EXPECT_EQ(settings.keys.id, "ENV");
  EXPECT_EQ(settings.endpoint->Text(), "http://b:2");
  variables["AWS_REGION"] = "x/y";
  EXPECT_FALSE(S3Settings::FromEnvironment(read).ok());
  variables.erase("AWS_SECRET_ACCESS_KEY");
  variables["AWS_REGION"] = "auto";
  EXPECT_FALSE(S3Settings::FromEnvironment(read).ok());
  fs::remove_all(folder);
}

}  // namespace
}  // namespace s3_fetch_test
}  // namespace graft
