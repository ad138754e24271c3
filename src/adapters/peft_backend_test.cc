#include "adapters/peft_backend.h"
#include "base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <thread>

#include "adapters/adapter_test_util.h"
#include "adapters/peft_folder.h"
#include "adapters/torch_weights.h"
#include "base/fault.h"
#include "tensor/allocations.h"

namespace graft {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::LoraTestTensors;
using testing::OddModel;
using testing::Peft;
using testing::PeftJson;
using testing::PromptJson;
using testing::PromptTestTensor;
using testing::SafetensorsBytes;
using testing::SourcePath;
using testing::TempDir;
using testing::TestTensor;
using testing::WriteAdapter;
using testing::WriteFile;

class PeftBackendTest : public ::testing::Test {
 protected:
  // Makes a folder with a config and random weights that fit it, and returns its path.
  std::string Folder(const std::string& name, const std::string& extra = "") {
    const std::string path = dir_.File(name);
    WriteAdapter(path, PeftJson(extra), SafetensorsBytes(LoraTestTensors(Peft(extra), model_)));
    return path;
  }
  std::string Refusal(const std::string& path) {
    const Result<AdapterFacts> facts = backend_.Read(path);
    return facts.ok() ? "accepted" : facts.status().ToString();
  }

  const ModelConfig model_ = OddModel();
  const TempDir dir_;
  Metrics metrics_;
  HostStore store_{int64_t{8} << 20, metrics_};
  PeftBackend backend_{model_, TypesOf(DType::kF32), store_};
};

TEST_F(PeftBackendTest, ReadsIntoTheHostsMemory) {
  const std::string path = Folder("a", R"("r": 6, "lora_alpha": 9)");
  const Result<AdapterFacts> facts = backend_.Read(path);
  ASSERT_TRUE(facts.ok()) << facts.status().ToString();
  EXPECT_EQ(facts->hash, *backend_.Hash(path));
  EXPECT_EQ(facts->hash.size(), 64u);
  EXPECT_EQ(facts->base_model, "test/base");
  EXPECT_EQ(facts->rank_max, 6);
  EXPECT_EQ(facts->bytes, RowsBytes(facts->rows));
  const HostStore::Held held = store_.Find(facts->hash);
  ASSERT_TRUE(held);
  const HostAdapter::Matrix& q = held->matrices[2 * kLoraModules];
  EXPECT_EQ(q.rank, 6);
  EXPECT_EQ(q.scale, 1.5f);
  // An adapter that is in the host's memory needs no folder.
  std::filesystem::remove_all(path);
  EXPECT_TRUE(backend_.Fetch(path, facts->hash).ok());
  EXPECT_THAT(Refusal(path), HasSubstr("NOT_FOUND"));
}

TEST_F(PeftBackendTest, WhatLiesBesideTheWeightsIsHandedOn) {
  std::string refused_vocabulary;
  PeftBackend backend(
      model_, TypesOf(DType::kF32), store_, {}, {},
      {.read = [](const ReadBesideAdapter& read) -> Result<AdapterTextPtr> {
         ASSIGN_OR_RETURN(const std::optional<std::string> text, read("chat_template.jinja"));
         if (!text.has_value()) return InvalidArgumentError("generation_config.json: no");
         return ShareAdapterText({.chat_template = *text});
       },
       .check_vocabulary = [&](const ReadBesideAdapter& read) -> Status {
         ASSIGN_OR_RETURN(const std::optional<std::string> text, read("tokenizer.json"));
         const bool is_refused = text.value_or("") == refused_vocabulary;
         return is_refused ? InvalidArgumentError("tokenizer.json: no") : OkStatus();
       }});
  const std::string path = Folder("a");
  EXPECT_EQ(backend.Read(path)->text, nullptr);
  EXPECT_EQ(*backend.ReadText(path), nullptr);
  const std::string bare = *backend.Hash(path);
  WriteFile(path + "/chat_template.jinja", "hi");
  const Result<AdapterFacts> facts = backend.Read(path);
  ASSERT_TRUE(facts.ok()) << facts.status().ToString();
  EXPECT_EQ(facts->text->chat_template, "hi");
  EXPECT_EQ(*backend.ReadText(path), facts->text);
  EXPECT_NE(facts->hash, bare);
  EXPECT_EQ(store_.FactsOf(facts->hash)->text, facts->text);
  // As it was read, the store has it; a second look at the folder finds the same.
  WriteFile(path + "/tokenizer.json", "theirs");
  EXPECT_TRUE(backend.Read(path).ok());
  // What was accepted is looked at again once it has changed.
  refused_vocabulary = "another's";
  EXPECT_TRUE(backend.Read(path).ok());
  WriteFile(path + "/tokenizer.json", "another's");
  EXPECT_THAT(backend.Read(path).status().message(), HasSubstr(path + ": tokenizer.json: no"));
  WriteFile(Folder("b") + "/generation_config.json", "{}");
  EXPECT_THAT(backend.ReadText(dir_.File("b")).status().message(),
              HasSubstr("b: generation_config.json: no"));
}

TEST_F(PeftBackendTest, WhereTextsDoNotCountTheyAreNoPartOfTheContent) {
  PeftBackend counts(model_, TypesOf(DType::kF32), store_, {}, {},
                     {.read = [](const ReadBesideAdapter&) -> Result<AdapterTextPtr> {
                       return ShareAdapterText({.chat_template = "hi"});
                     }});
  const std::string path = Folder("a");
  const std::string bare = *backend_.Hash(path);
  WriteFile(path + "/chat_template.jinja", "hi");
  const std::string with_texts = *counts.Hash(path);
  ASSERT_NE(with_texts, bare);
  EXPECT_EQ(*backend_.Hash(path), bare);
  EXPECT_EQ(backend_.Read(path)->hash, bare);
  EXPECT_EQ(*backend_.ReadText(path), nullptr);
  EXPECT_EQ((*InspectAdapter(path, model_, TypesOf(DType::kF32)))["hash"], bare);
  // Known by the hash of a server that takes them, it is the same weights without them.
  EXPECT_EQ(*backend_.HashAs(path, with_texts), with_texts);
  EXPECT_EQ(*backend_.HashAs(path, std::string(64, 'a')), bare);
  const Result<AdapterFacts> facts = backend_.ReadAs(path, with_texts);
  ASSERT_TRUE(facts.ok()) << facts.status().ToString();
  EXPECT_EQ(facts->hash, with_texts);
  EXPECT_EQ(facts->text, nullptr);
  // Nor is one read that cannot be.
  std::filesystem::remove(path + "/chat_template.jinja");
  std::filesystem::create_directories(path + "/chat_template.jinja");
  EXPECT_FALSE(counts.Hash(path).ok());
  EXPECT_EQ(*backend_.Hash(path), bare);
}

TEST_F(PeftBackendTest, LinksToTextsOutsideAreNotRead) {
  Folder("in/a");
  WriteFile(dir_.File("secret"), "secret");
  const std::string path = dir_.File("in/a");
  PeftBackend backend(model_, TypesOf(DType::kF32), store_, FileJail({dir_.File("in")}), {},
                      {.read = [](const ReadBesideAdapter&) -> Result<AdapterTextPtr> {
                         return InvalidArgumentError("it was read");
                       },
                       .check_vocabulary = [](const ReadBesideAdapter&) -> Status {
                         return InvalidArgumentError("it was compared");
                       }});
  const std::string bare = *backend.Hash(path);
  for (const char* const file : {"chat_template.jinja", "tokenizer.json"}) {
    std::filesystem::create_symlink(dir_.File("secret"), path + "/" + file);
  }
  EXPECT_EQ(*backend.Hash(path), bare);
  EXPECT_EQ(*backend.ReadText(path), nullptr);
  const Result<AdapterFacts> facts = backend.Read(path);
  ASSERT_TRUE(facts.ok()) << facts.status().ToString();
  EXPECT_EQ(facts->hash, bare);
}

TEST_F(PeftBackendTest, AnEarlierVersionsHashLeadsToTheWeightsAlone) {
  int num_vocabularies = 0;
  PeftBackend backend(model_, TypesOf(DType::kF32), store_, {}, {},
                      {.read = [](const ReadBesideAdapter&) -> Result<AdapterTextPtr> {
                         return ShareAdapterText({.chat_template = "hi"});
                       },
                       .check_vocabulary = [&](const ReadBesideAdapter&) -> Status {
                         ++num_vocabularies;
                         return OkStatus();
                       }});
  const std::string path = Folder("a");
  const std::string former = *backend.Hash(path);
  WriteFile(path + "/chat_template.jinja", "hi");
  WriteFile(path + "/tokenizer.json", "{}");
  const std::string now = *backend.Hash(path);
  ASSERT_NE(now, former);
  EXPECT_EQ(*backend.HashAs(path, former), former);
  EXPECT_EQ(*backend.HashAs(path, now), now);
  EXPECT_EQ(*backend.HashAs(path, std::string(64, 'a')), now);
  const AdapterFacts facts = backend.ReadAs(path, former).value();
  EXPECT_EQ(facts.hash, former);
  EXPECT_EQ(facts.text, nullptr);
  EXPECT_TRUE(facts.leaves_texts_out);
  const AdapterFacts whole = backend.ReadAs(path, now).value();
  EXPECT_EQ(whole.hash, now);
  EXPECT_EQ(whole.text->chat_template, "hi");
  EXPECT_FALSE(whole.leaves_texts_out);
  EXPECT_FALSE(backend.ReadAs(path, std::string(64, 'a')).ok());
  EXPECT_EQ(num_vocabularies, 1) << "as it was when it was accepted";
}

TEST_F(PeftBackendTest, TellsWhatChangesNothing) {
  EXPECT_FALSE(backend_.Read(Folder("a"))->changes_nothing);
  const std::string path = Folder("b", R"("lora_alpha": 0)");
  EXPECT_TRUE(backend_.Read(path)->changes_nothing);
  EXPECT_EQ((*InspectAdapter(path, model_, TypesOf(DType::kF32)))["changes_nothing"], true);
  WriteAdapter(dir_.File("soft"), PromptJson("PROMPT_TUNING"),
               SafetensorsBytes({PromptTestTensor(3, 21)}));
  EXPECT_FALSE(backend_.Read(dir_.File("soft"))->changes_nothing);
}

// A name that names nothing is skipped, and people are told; a tensor that belongs to it is
// not.
TEST_F(PeftBackendTest, TellsWhichTargetsAreSkipped) {
  const std::string extra = R"("target_modules": ["q_proj", "query_key_value"])";
  const std::string path = Folder("a", extra);
  EXPECT_THAT(backend_.Read(path)->left_out, HasSubstr("\"query_key_value\""));
  EXPECT_THAT((*InspectAdapter(path, model_, TypesOf(DType::kF32)))["left_out"].dump(),
              HasSubstr("query_key_value"));
  EXPECT_EQ(backend_.Read(Folder("b"))->left_out, "");
  EXPECT_THAT(backend_.Read(Folder("d", R"("fan_in_fan_out": true)"))->left_out,
              HasSubstr("taken for false"));
  EXPECT_FALSE(InspectAdapter(Folder("b"), model_, TypesOf(DType::kF32))->contains("left_out"));
  PeftBackend strict(model_, TypesOf(DType::kF32), store_, {}, {}, {}, {},
                     {.strict_targets = true});
  const std::string other = Folder("c", extra + R"(, "lora_alpha": 5)");
  EXPECT_THAT(strict.Read(other).status().message(),
              AllOf(HasSubstr(other), HasSubstr("names \"query_key_value\"")));
  std::vector<TestTensor> tensors = LoraTestTensors(Peft(extra), model_);
  tensors.push_back(tensors[0]);
  tensors.back().name = "base_model.model.model.layers.0.self_attn.query_key_value.lora_A.weight";
  WriteAdapter(path, PeftJson(extra), SafetensorsBytes(tensors));
  EXPECT_THAT(Refusal(path), AllOf(HasSubstr("query_key_value.lora_A"), HasSubstr("UNIMPLEM")));
}

TEST_F(PeftBackendTest, ReadsAPromptAlone) {
  const std::string path = dir_.File("soft");
  WriteAdapter(path, PromptJson("PROMPT_TUNING"), SafetensorsBytes({PromptTestTensor(3, 21)}));
  const Result<AdapterFacts> facts = backend_.Read(path);
  ASSERT_TRUE(facts.ok()) << facts.status().ToString();
  EXPECT_EQ(facts->hash, *backend_.Hash(path));
  EXPECT_EQ(facts->base_model, "test/base");
  EXPECT_EQ(facts->rank_max, 0);
  EXPECT_EQ(facts->num_virtual_tokens, 3);
  EXPECT_FALSE(facts->has_virtual_kv);
  // Three rows of 21 floats, and a table of three pointers.
  EXPECT_EQ(facts->bytes, 3 * 128 + 64);
  EXPECT_EQ(facts->bytes, RowsBytes(facts->rows));
  const HostStore::Held held = store_.Find(facts->hash);
  ASSERT_TRUE(held);
  EXPECT_EQ(held->virtual_tokens.num_tokens, 3);
  EXPECT_EQ(held->virtual_tokens.table_begin, 3 * 128);
  const TestTensor tensor = PromptTestTensor(3, 21);
  const auto* first = reinterpret_cast<const float*>(held->stretches[0].data);
  EXPECT_EQ(std::memcmp(first, tensor.data.data(), 21 * sizeof(float)), 0);
  WriteAdapter(path, PromptJson("PREFIX_TUNING"), SafetensorsBytes({PromptTestTensor(3, 60)}));
  EXPECT_TRUE(backend_.Read(path)->has_virtual_kv);
}

// LoRA on all rows and virtual tokens in front, under one hash.
TEST_F(PeftBackendTest, ReadsABundle) {
  const std::string path = dir_.File("both");
  Folder("both/lora", R"("r": 6, "lora_alpha": 9)");
  WriteAdapter(path + "/prompt", PromptJson("PROMPT_TUNING"),
               SafetensorsBytes({PromptTestTensor(3, 21)}));
  WriteFile(path + "/graft.json", R"({"format": 1})");
  const Result<AdapterFacts> facts = backend_.Read(path);
  ASSERT_TRUE(facts.ok()) << facts.status().ToString();
  EXPECT_EQ(facts->hash, *backend_.Hash(path));
  EXPECT_EQ(facts->rank_max, 6);
  EXPECT_EQ(facts->num_virtual_tokens, 3);
  EXPECT_EQ(facts->bytes, RowsBytes(facts->rows));
  const AdapterFacts lora = *backend_.Read(path + "/lora");
  const AdapterFacts prompt = *backend_.Read(path + "/prompt");
  EXPECT_EQ(facts->bytes, lora.bytes + prompt.bytes);
  EXPECT_NE(facts->hash, lora.hash);
  EXPECT_NE(facts->hash, prompt.hash);
  // The rows of both lie in the host's memory as in their own.
  const HostStore::Held both = store_.Find(facts->hash);
  const HostStore::Held alone = store_.Find(lora.hash);
  ASSERT_TRUE(both && alone);
  const HostAdapter::Matrix& q = both->matrices[0];
  EXPECT_EQ(q.a_begin, alone->matrices[0].a_begin + 3 * 128);
  EXPECT_EQ(std::memcmp(both->stretches[0].data + q.a_begin,
                        alone->stretches[0].data + alone->matrices[0].a_begin, 21 * sizeof(float)),
            0);
  const OrderedJson told = *InspectAdapter(path, model_, TypesOf(DType::kF32));
  EXPECT_EQ(told["virtual_tokens"]["count"], 3);
  EXPECT_EQ(told["rank_max"], 6);
  // The hash that graft.json gives is checked.
  WriteFile(path + "/graft.json", R"({"format": 1, "hash": ")" + facts->hash + R"("})");
  EXPECT_EQ(Refusal(path), "accepted");
  // Files of texts may come later. The bundle is another content with them where they count, and
  // graft.json may have either hash.
  WriteFile(path + "/chat_template.jinja", "hi");
  EXPECT_EQ(backend_.Read(path).value().hash, facts->hash);
  PeftBackend counts(model_, TypesOf(DType::kF32), store_, {}, {},
                     {.read = [](const ReadBesideAdapter&) -> Result<AdapterTextPtr> {
                       return AdapterTextPtr();
                     }});
  const std::string with_texts = *counts.Hash(path);
  EXPECT_NE(with_texts, facts->hash);
  WriteFile(path + "/graft.json", R"({"format": 1, "hash": ")" + with_texts + R"("})");
  EXPECT_TRUE(counts.Read(path).ok());
  EXPECT_EQ(Refusal(path), "accepted");
  WriteFile(path + "/graft.json", R"({"format": 1, "hash": ")" + facts->hash + R"("})");
  Folder("both/lora", R"("r": 6, "lora_alpha": 8)");
  EXPECT_THAT(Refusal(path), AllOf(HasSubstr("DATA_LOSS"), HasSubstr(path + "/graft.json"),
                                   HasSubstr(facts->hash), HasSubstr("changed")));
}

TEST_F(PeftBackendTest, ABundleMayLackAFolder) {
  const std::string path = dir_.File("one");
  WriteAdapter(path + "/prompt", PromptJson("PREFIX_TUNING"),
               SafetensorsBytes({PromptTestTensor(3, 60)}));
  WriteFile(path + "/graft.json", R"({"format": 1})");
  EXPECT_TRUE(backend_.Read(path)->has_virtual_kv);
  std::filesystem::rename(path + "/prompt", path + "/lora");
  EXPECT_THAT(Refusal(path), HasSubstr("its place is the folder prompt"));
  Folder("one/prompt");
  std::filesystem::remove_all(path + "/lora");
  EXPECT_THAT(Refusal(path), HasSubstr("LoRA's place is the folder lora"));
  std::filesystem::rename(path + "/prompt", path + "/lora");
  EXPECT_EQ(backend_.Read(path)->rank_max, 4);
  WriteFile(path + "/graft.json", R"({"format": 2})");
  EXPECT_THAT(Refusal(path), AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr("\"format\"")));
  std::filesystem::remove_all(path + "/lora");
  WriteFile(path + "/graft.json", R"({"format": 1})");
  EXPECT_THAT(Refusal(path), AllOf(HasSubstr("NOT_FOUND"), HasSubstr("neither")));
}

// `graft learn` writes where an adapter comes from beside a PEFT folder's files.
TEST_F(PeftBackendTest, APeftFolderWithAGraftJsonIsAPeftFolder) {
  const std::string path = Folder("learned");
  const std::string hash = *backend_.Hash(path);
  WriteFile(path + "/graft.json", "whatever");
  EXPECT_EQ(backend_.Read(path)->hash, hash);
}

TEST_F(PeftBackendTest, PromptsThatDoNotFitAreRefused) {
  const std::string path = dir_.File("soft");
  WriteAdapter(path, PromptJson("PROMPT_TUNING"), SafetensorsBytes({PromptTestTensor(3, 64)}));
  EXPECT_THAT(Refusal(path), AllOf(HasSubstr(path), HasSubstr("another base")));
  WriteAdapter(path, PromptJson("PROMPT_TUNING", R"("token_dim": 64)"),
               SafetensorsBytes({PromptTestTensor(3, 21)}));
  EXPECT_THAT(Refusal(path), HasSubstr(path + "/adapter_config.json: \"token_dim\" = 64"));
  EXPECT_EQ(store_.num_adapters(), 0);
}

TEST_F(PeftBackendTest, InspectTellsOfVirtualTokens) {
  const std::string path = dir_.File("soft");
  WriteAdapter(path, PromptJson("PREFIX_TUNING"), SafetensorsBytes({PromptTestTensor(3, 60)}));
  const Result<OrderedJson> facts = InspectAdapter(path, model_, TypesOf(DType::kF32));
  ASSERT_TRUE(facts.ok()) << facts.status().ToString();
  EXPECT_EQ((*facts)["virtual_tokens"],
            OrderedJson::parse(R"({"count": 3, "kind": "keys and values"})"));
  EXPECT_EQ((*facts)["rank_max"], 0);
  EXPECT_TRUE((*facts)["modules"].empty());
  EXPECT_FALSE(facts->contains("layers"));
  EXPECT_FALSE(
      InspectAdapter(Folder("a"), model_, TypesOf(DType::kF32))->contains("virtual_tokens"));
}

TEST_F(PeftBackendTest, WhereMemoryRunsOutTheAdapterIsRefusedForNow) {
  const std::string path = Folder("a");
  const auto file =
      static_cast<int64_t>(std::filesystem::file_size(path + "/adapter_model.safetensors"));
  {
    const AllocationLimit limit({}, 0);  // not even the file
    EXPECT_THAT(Refusal(path),
                AllOf(HasSubstr("RESOURCE_EXHAUSTED"), HasSubstr(path), HasSubstr("no room")));
  }
  {
    const AllocationLimit limit({}, file);  // no room for what it is converted to
    EXPECT_THAT(Refusal(path),
                AllOf(HasSubstr("RESOURCE_EXHAUSTED"), HasSubstr(path), HasSubstr("--host-gib")));
  }
  EXPECT_TRUE(backend_.Read(path).ok());
}

TEST_F(PeftBackendTest, AChangedFolderIsRefused) {
  const std::string path = Folder("a");
  const std::string hash = *backend_.Hash(path);
  Folder("a", R"("lora_alpha": 9)");
  const Status changed = backend_.Fetch(path, hash).status();
  EXPECT_EQ(changed.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(changed.message(), AllOf(HasSubstr("has changed"), HasSubstr(hash.substr(0, 12))));
  EXPECT_TRUE(backend_.Fetch(path, "").ok()) << "nobody knew what it held";
}

// It is no fault of the request: another machine's folder may be whole.
TEST_F(PeftBackendTest, ABrokenFolderIsNotTheRequestsFault) {
  std::vector<TestTensor> tensors = LoraTestTensors(Peft(), model_);
  tensors.pop_back();
  const std::string broken = dir_.File("broken");
  WriteAdapter(broken, PeftJson(), SafetensorsBytes(tensors));
  const std::string odd = dir_.File("odd");
  WriteAdapter(odd, PeftJson(R"("use_dora": true)"), SafetensorsBytes(tensors));
  for (const std::string& path : {broken, odd}) {
    const Status fetched = backend_.FetchForRequests(path, "").status();
    EXPECT_EQ(fetched.code(), StatusCode::kDataLoss);
    EXPECT_EQ(fetched.message(), backend_.Read(path).status().message());
    const Status sum =
        backend_.FetchSum({{.path = path, .hash = "", .key = path, .weight = 0.5f}}, {}).status();
    EXPECT_EQ(sum.code(), StatusCode::kDataLoss);
  }
  EXPECT_EQ(backend_.Read(broken).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(backend_.FetchForRequests(dir_.File("none"), "").status().code(),
            StatusCode::kNotFound);
  EXPECT_TRUE(backend_.FetchForRequests(Folder("whole"), "").ok());
}

TEST_F(PeftBackendTest, ContentIsIdentity) {
  const std::string hash = *backend_.Hash(Folder("a"));
  EXPECT_EQ(*backend_.Hash(Folder("b")), hash);
  EXPECT_NE(*backend_.Hash(Folder("a", R"("lora_alpha": 9)")), hash);
  // Hash does not judge what it reads; Read does.
  WriteAdapter(dir_.File("junk"), "junk", "junk");
  EXPECT_TRUE(backend_.Hash(dir_.File("junk")).ok());
  EXPECT_THAT(backend_.Hash(dir_.File("nowhere")).status().ToString(), HasSubstr("NOT_FOUND"));
}

// A user with write access to one adapter's folder puts links there after it was listed.
TEST_F(PeftBackendTest, NothingOutsideTheJailIsRead) {
  Folder("outside");
  const std::string path = dir_.File("in/a");
  std::filesystem::create_directories(path);
  PeftBackend jailed(model_, TypesOf(DType::kF32), store_, FileJail({dir_.File("in")}));
  for (const char* file : {"adapter_config.json", "adapter_model.safetensors"}) {
    std::filesystem::create_symlink(dir_.File("outside") + "/" + file, path + "/" + file);
  }
  EXPECT_EQ(jailed.Read(path).status().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(jailed.Hash(path).status().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(jailed.Fetch(path, "").status().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(store_.num_adapters(), 0);
  EXPECT_TRUE(backend_.Read(path).ok()) << "without a jail";
  Folder("in/b");
  EXPECT_TRUE(jailed.Read(dir_.File("in/b")).ok());
}

// A server with too many open connections must not answer that the adapter does not exist.
TEST_F(PeftBackendTest, ALackOfDescriptorsPasses) {
  const std::string path = Folder("a");
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{0, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const Status status = backend_.Read(path).status();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_TRUE(IsPassing(status)) << status.ToString();
  EXPECT_TRUE(backend_.Read(path).ok());
}

TEST_F(PeftBackendTest, AFailedReadKeepsNothing) {
  ASSERT_TRUE(backend_.Read(Folder("good")).ok());
  std::vector<TestTensor> tensors = LoraTestTensors(Peft(), model_);
  tensors.pop_back();
  WriteAdapter(dir_.File("bad"), PeftJson(), SafetensorsBytes(tensors));
  EXPECT_THAT(Refusal(dir_.File("bad")), HasSubstr("is missing"));
  EXPECT_EQ(store_.num_adapters(), 1);
}

TEST_F(PeftBackendTest, ErrorsCarryThePathAndTheReason) {
  const std::string weights = SafetensorsBytes(LoraTestTensors(Peft(), model_));
  const std::string path = dir_.File("x");
  WriteAdapter(path, PeftJson(R"("use_dora": true)"), weights);
  EXPECT_THAT(Refusal(path), AllOf(HasSubstr("UNIMPLEMENTED: " + path + "/adapter_config.json: "),
                                   HasSubstr("\"use_dora\" = true")));
  WriteAdapter(path, "{", weights);
  EXPECT_THAT(Refusal(path), AllOf(HasSubstr(path), HasSubstr("not valid JSON")));
  WriteAdapter(path, PeftJson(R"("target_modules": ["c_attn"])"), weights);
  EXPECT_THAT(Refusal(path), AllOf(HasSubstr(path), HasSubstr("\"c_attn\"")));
  WriteAdapter(path, PeftJson(R"("r": 8)"), weights);
  EXPECT_THAT(Refusal(path),
              AllOf(HasSubstr(path), HasSubstr("has shape [4, 21]"), HasSubstr("takes [8, 21]")));
  WriteAdapter(path, PeftJson(), weights.substr(0, weights.size() - 1));
  EXPECT_THAT(Refusal(path), HasSubstr(path + "/adapter_model.safetensors"));
  WriteAdapter(path, PeftJson(), weights);
  EXPECT_EQ(Refusal(path), "accepted");
  std::filesystem::rename(path + "/adapter_model.safetensors", path + "/adapter_model.bin");
  EXPECT_THAT(Refusal(path), AllOf(HasSubstr(path), HasSubstr("adapter_model.bin")));
  EXPECT_THAT(Refusal(dir_.File("nowhere")), HasSubstr("nowhere/adapter_config.json"));
}

TEST_F(PeftBackendTest, TheSelfTestRunsAtLoad) {
  std::vector<TestTensor> tensors = LoraTestTensors(Peft(), model_);
  for (TestTensor& tensor : tensors) {
    tensor.data = testing::BytesOf(std::vector<float>(tensor.data.size() / 4, 1e30f));
  }
  WriteAdapter(dir_.File("huge"), PeftJson(), SafetensorsBytes(tensors));
  EXPECT_THAT(Refusal(dir_.File("huge")), AllOf(HasSubstr("INVALID_ARGUMENT"),
                                                HasSubstr("self-test of"), HasSubstr("too large")));
  EXPECT_EQ(store_.num_adapters(), 0) << "no request finds it";
  EXPECT_EQ(store_.bytes(), 0);
  // The same where it runs beside the copy, and where the store has no room.
  WorkCrew crew(4);
  HostStore none(0, metrics_);
  for (HostStore* const store : {&store_, &none}) {
    PeftBackend backend(model_, TypesOf(DType::kF32), *store, {}, {}, {}, {.crew = &crew});
    EXPECT_THAT(backend.Fetch(dir_.File("huge"), "").status().message(), HasSubstr("self-test of"));
    EXPECT_EQ(store->num_adapters(), 0);
  }
  EXPECT_EQ(store_.CheckIntegrity().ToString(), "OK");
}

// Several threads fetch several folders at once, with helpers and a memory of hashes: each gets the
// bytes of its folder, and what is remembered is what is hashed.
TEST_F(PeftBackendTest, ManyAreFetchedAtOnce) {
  WorkCrew crew(4);
  HashMemory memory({.settle_ns = 0});
  PeftBackend backend(model_, TypesOf(DType::kF32), store_, {}, {}, {},
                      {.crew = &crew, .memory = &memory});
  constexpr int kFolders = 6;
  std::vector<std::string> paths;
  std::vector<std::string> hashes;
  for (int i = 0; i < kFolders; ++i) {
    paths.push_back(Folder("a" + std::to_string(i), R"("r": )" + std::to_string(i + 1)));
    hashes.push_back(*backend_.Hash(paths.back()));
  }
  for (int round = 0; round < 2; ++round) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kFolders; ++i) {
          const auto at = static_cast<size_t>((i + t) % kFolders);
          const Result<HostStore::Held> held =
              backend.Fetch(paths[at], i % 2 == 0 ? "" : hashes[at]);
          ASSERT_TRUE(held.ok()) << held.status().ToString();
          EXPECT_EQ((*held)->facts.hash, hashes[at]);
          EXPECT_EQ((*held)->facts.rank_max, static_cast<int32_t>(at) + 1);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(store_.num_adapters(), kFolders);
  for (int i = 0; i < kFolders; ++i) {
    EXPECT_EQ(*backend.Hash(paths[static_cast<size_t>(i)]), hashes[static_cast<size_t>(i)]);
  }
}

TEST_F(PeftBackendTest, AKnownHashIsNotComputed) {
  HashMemory memory({.settle_ns = 0});
  PeftBackend backend(model_, TypesOf(DType::kF32), store_, {}, {}, {}, {.memory = &memory});
  const std::string path = Folder("a");
  for (const int64_t now = FileTimeNow(); FileTimeNow() <= now + 20'000'000;) {
  }
  const std::string hash = *backend.Hash(path);
  EXPECT_EQ(memory.num_entries(), 1);
  EXPECT_EQ(backend.Fetch(path, "").value()->facts.hash, hash);
  EXPECT_EQ(memory.num_entries(), 1);
  // What was written since is something else, also for requests that know it by its hash.
  const std::string weights = path + "/adapter_model.safetensors";
  std::string bytes = *ReadFile(weights);
  bytes.back() ^= 1;
  HostStore none(0, metrics_);
  PeftBackend another(model_, TypesOf(DType::kF32), none, {}, {}, {}, {.memory = &memory});
  EXPECT_TRUE(another.Fetch(path, hash).ok());
  WriteFile(weights, bytes);
  EXPECT_THAT(another.Fetch(path, hash).status().message(), HasSubstr("has changed"));
  EXPECT_NE(*another.Hash(path), hash);
}

TEST_F(PeftBackendTest, TellsWhatAFetchTakes) {
  const std::string path = Folder("a");
  const auto file =
      static_cast<int64_t>(std::filesystem::file_size(path + "/adapter_model.safetensors"));
  EXPECT_EQ(backend_.BytesToFetch(path), 3 * file);
  EXPECT_EQ(PeftBackend(model_, TypesOf(DType::kBF16), store_).BytesToFetch(path), 2 * file);
  EXPECT_EQ(backend_.BytesToFetch(dir_.File("nowhere")), 0);
  // Tensors of torch's files may share bytes there, and have their own once they are read.
  const std::string torch = SourcePath("tests/goldens/forms/llama-bin");
  const auto bin = static_cast<int64_t>(std::filesystem::file_size(torch + "/adapter_model.bin"));
  const ModelConfig llama = *LoadModelConfig(SourcePath("tests/goldens/llama"));
  EXPECT_EQ(PeftBackend(llama, TypesOf(DType::kF32), store_).BytesToFetch(torch),
            3 * kTorchGrowthMax * bin);
  // What no adapter has is refused unread, so that no others need to make room for it.
  const auto bytes_max = static_cast<uintmax_t>(AdapterWeightsBytesMax(model_));
  std::filesystem::resize_file(path + "/adapter_model.safetensors", bytes_max);
  EXPECT_EQ(backend_.BytesToFetch(path), 3 * AdapterWeightsBytesMax(model_));
  std::filesystem::resize_file(path + "/adapter_model.safetensors", bytes_max + 1);
  EXPECT_EQ(backend_.BytesToFetch(path), 0);
  EXPECT_THAT(Refusal(path), HasSubstr("the limit is"));
}

TEST_F(PeftBackendTest, InspectTellsModulesRanksAndScales) {
  const std::string path = SourcePath("demo/adapters/burroughs");
  const ModelConfig demo = *LoadModelConfig(SourcePath("demo/base"));
  const Result<OrderedJson> facts = InspectAdapter(path, demo, TypesOf(DType::kBF16));
  ASSERT_TRUE(facts.ok()) << facts.status().ToString();
  EXPECT_EQ((*facts)["path"], path);
  EXPECT_EQ((*facts)["hash"], *backend_.Hash(path));
  EXPECT_EQ((*facts)["rank_max"], 16);
  EXPECT_EQ((*facts)["served_dtype"], "bf16");
  EXPECT_EQ((*facts)["layers"], OrderedJson::parse(R"({"first": 0, "last": 11, "count": 12})"));
  EXPECT_EQ((*facts)["modules"].size(), 7u);
  EXPECT_EQ((*facts)["modules"]["q_proj"],
            OrderedJson::parse(R"({"ranks": [4, 16], "scales": [1.0, 4.0], "layers": 12})"));
  EXPECT_EQ((*facts)["modules"]["down_proj"],
            OrderedJson::parse(R"({"ranks": [8], "scales": [4.0], "layers": 12})"));
  const Result<OrderedJson> carroll =
      InspectAdapter(SourcePath("demo/adapters/carroll"), demo, TypesOf(DType::kF32));
  ASSERT_TRUE(carroll.ok());
  EXPECT_EQ((*carroll)["layers"], OrderedJson::parse(R"({"first": 4, "last": 11, "count": 8})"));
  const std::string phi = SourcePath("tests/goldens/phi3-longrope");
  const Result<OrderedJson> fused =
      InspectAdapter(phi + "/adapter", *LoadModelConfig(phi), TypesOf(DType::kF32));
  ASSERT_TRUE(fused.ok()) << fused.status().ToString();
  EXPECT_EQ((*fused)["modules"].size(), 4u);
  EXPECT_EQ((*fused)["modules"]["qkv_proj"]["ranks"], OrderedJson({6}));
  // Refused like a load would be: it is an adapter of the demo model on another base.
  EXPECT_THAT(InspectAdapter(path, model_, TypesOf(DType::kF32)).status().message(),
              AllOf(HasSubstr(path), HasSubstr("another base")));
}

TEST_F(PeftBackendTest, AddsAdaptersUp) {
  const std::string a = Folder("a", R"("r": 6, "lora_alpha": 9)");
  const std::string b = Folder("b", R"("r": 3, "lora_alpha": 12, "target_modules": ["q_proj"])");
  const std::string b_hash = *backend_.Hash(b);
  std::vector<std::string> read;
  const auto on_read = [&](const std::string& key, const AdapterFacts& facts) {
    EXPECT_EQ(facts.hash, b_hash);
    read.push_back(key);
  };
  const std::vector<AdapterPart> parts = {
      {.path = b, .hash = "", .key = "unread b", .weight = 0.5f},
      {.path = a, .hash = *backend_.Hash(a), .key = "a", .weight = -2.0f}};
  std::string hash;
  {
    const Result<HostStore::Held> sum = backend_.FetchSum(parts, on_read);
    ASSERT_TRUE(sum.ok()) << sum.status().ToString();
    EXPECT_THAT(read, ::testing::ElementsAre("unread b"));
    EXPECT_EQ((*sum)->facts.rank_max, 9);
    EXPECT_EQ((*sum)->facts.bytes, RowsBytes((*sum)->facts.rows));
    EXPECT_EQ((*sum)->matrices[0].rank, 9);
    EXPECT_EQ((*sum)->matrices[0].scale, -3.0f) << "the larger of 0.5 * 4 and 2 * 1.5";
    EXPECT_EQ((*sum)->matrices[static_cast<size_t>(LoraModule::kV)].rank, 6);
    hash = (*sum)->facts.hash;
  }
  // The store has it under its hash, and the parts need no folders any more.
  EXPECT_TRUE(backend_.Has(hash));
  std::filesystem::remove_all(a);
  std::filesystem::remove_all(b);
  std::vector<AdapterPart> known = parts;
  known[0].hash = b_hash;
  const Result<HostStore::Held> again = backend_.FetchSum(known, {});
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ((*again)->facts.hash, hash);
}

TEST_F(PeftBackendTest, SaysWhichSumsThereAreNot) {
  const std::string lora = Folder("lora", R"("r": 6, "lora_alpha": 9)");
  const std::string wide = Folder("wide", R"("r": 253)");
  const std::string later = Folder("later", R"("alora_invocation_tokens": [3, 4])");
  const std::string soft = dir_.File("soft");
  WriteAdapter(soft, PromptJson("PROMPT_TUNING"), SafetensorsBytes({PromptTestTensor(3, 21)}));
  const auto add = [&](const std::vector<std::pair<std::string, float>>& folders) {
    std::vector<AdapterPart> parts;
    for (const auto& [path, weight] : folders) {
      parts.push_back({.path = path, .hash = "", .key = path, .weight = weight});
    }
    return backend_.FetchSum(std::move(parts), {});
  };
  const auto refusal = [&](const std::vector<std::pair<std::string, float>>& folders) {
    const Result<HostStore::Held> sum = add(folders);
    EXPECT_FALSE(sum.ok());
    EXPECT_EQ(sum.status().code(), StatusCode::kInvalidArgument);
    return sum.status().message();
  };
  EXPECT_THAT(refusal({{lora, 1}, {wide, 1}}),
              AllOf(HasSubstr("the sum of "), HasSubstr(" and "), HasSubstr("add up to 259")));
  EXPECT_THAT(refusal({{lora, 1}, {later, 1}}), HasSubstr("activated LoRA"));
  EXPECT_THAT(refusal({{lora, 1}, {soft, 0.5f}}), HasSubstr("has the weight 1"));
  EXPECT_THAT(refusal({{soft, 1}, {soft, 1}}), HasSubstr("two adapters with virtual tokens"));
  EXPECT_EQ(add({{lora, 1}, {dir_.File("none"), 1}}).status().code(), StatusCode::kNotFound);
  // One alone keeps where it begins, and LoRA goes with one prompt.
  const Result<HostStore::Held> alone = add({{later, 0.5f}});
  ASSERT_TRUE(alone.ok()) << alone.status().ToString();
  EXPECT_THAT((*alone)->facts.invocation_tokens, ::testing::ElementsAre(3, 4));
  EXPECT_EQ((*alone)->matrices[0].scale, 1.0f);
  const Result<HostStore::Held> both = add({{lora, 0.5f}, {soft, 1}});
  ASSERT_TRUE(both.ok()) << both.status().ToString();
  EXPECT_EQ((*both)->facts.num_virtual_tokens, 3);
  EXPECT_EQ((*both)->facts.rank_max, 6);
  const TestTensor tensor = PromptTestTensor(3, 21);
  EXPECT_EQ(std::memcmp((*both)->stretches[0].data, tensor.data.data(), 21 * sizeof(float)), 0);
}

}  // namespace
}  // namespace graft
