// HubSettings: which hub, by which token, and where its cache lies, as Hugging Face's own client
// reads it from the environment: HF_ENDPOINT, HF_TOKEN, HF_TOKEN_PATH, HF_HOME, HF_HUB_CACHE,
// HF_HUB_OFFLINE. Plain data.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/status.h"
#include "sources/secret.h"
#include "sources/web_url.h"

namespace graft {

// A variable's value; none where it is not set or empty.
using ReadVariable = std::function<std::optional<std::string>(const char* name)>;
ReadVariable ReadProcessEnvironment();

struct HubSettings {
  WebUrl endpoint;    // https://huggingface.co unless HF_ENDPOINT says another
  Secret token;       // empty: none
  std::string cache;  // the folder of models--ORG--NAME
  bool is_offline = false;

  // kInvalidArgument: HF_ENDPOINT is no address. Errors of reading a token's file are its own. A
  // process that has a token leaves no core file from then on.
  static Result<HubSettings> FromEnvironment(const ReadVariable& read = ReadProcessEnvironment());
};

// The user's own folder: $HOME, else what the system says of the user.
std::string HomeFolder(const ReadVariable& read);

}  // namespace graft
