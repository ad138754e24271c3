// Where the tests of this folder find their files, and small tokenizers for them.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "base/check.h"
#include "base/json.h"
#include "text/tokenizer.h"

namespace graft {

inline std::string SourceDir() {
  const char* dir = std::getenv("GRAFT_SOURCE_DIR");
  return dir == nullptr ? "." : dir;
}

// Files of real models, which are not part of the repository.
inline std::string ConformanceDir() { return SourceDir() + "/../shared/conformance"; }

// tests/goldens/tokenizer/components.json: see make_goldens.py beside it.
inline Json ComponentGoldens() {
  Result<Json> json = ParseJsonFile(SourceDir() + "/tests/goldens/tokenizer/components.json");
  CHECK(json.ok()) << json.status().ToString();
  return *std::move(json);
}

// The base tokenizer of a family of the goldens: 0 is byte-level, 1 metaspace with byte fallback.
inline std::unique_ptr<Tokenizer> GoldenTokenizer(int family) {
  const Json goldens = ComponentGoldens();
  auto tokenizer = Tokenizer::Parse(DumpJson(goldens["families"][family]["tokenizer"]), "");
  CHECK(tokenizer.ok()) << tokenizer.status().ToString();
  return *std::move(tokenizer);
}

// Changes a tokenizer for one case in the way that make_goldens.py does.
inline Json Patched(Json file, const Json& patch) {
  for (const auto& [key, value] : patch.items()) {
    if (key != "model") {
      file[key] = value;
      continue;
    }
    for (const auto& [field, change] : value.items()) {
      if (field != "vocab") {
        file["model"][field] = change;
        continue;
      }
      for (const auto& [token, id] : change.items()) {
        if (id.is_null()) {
          file["model"]["vocab"].erase(token);
        } else {
          file["model"]["vocab"][token] = id;
        }
      }
    }
  }
  return file;
}

// Calls test(case, tokenizer) with every case of the goldens.
template <typename Test>
void ForEachComponent(const Json& goldens, Test test) {
  for (const Json& family : goldens["families"]) {
    for (const Json& entry : family["cases"]) {
      SCOPED_TRACE(entry["name"].get<std::string>());
      const std::string file = DumpJson(Patched(family["tokenizer"], entry["patch"]));
      const auto tokenizer = Tokenizer::Parse(file, "");
      ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
      test(entry, **tokenizer);
    }
  }
}

}  // namespace graft
