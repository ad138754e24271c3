#include "sources/curl_library.h"

#include <dlfcn.h>

#include <string>

#include "base/shared_library.h"

namespace graft {
namespace {

constexpr char kCurlName[] = "libcurl.so.4";
// The first with CURLOPT_AWS_SIGV4 and CURLOPT_PROTOCOLS_STR.
constexpr unsigned kCurlVersionMin = 0x075500;

template <typename Function>
bool FindFunction(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

Result<CurlLibrary> LoadCurl() {
  void* const library = dlopen(FindSharedLibrary(kCurlName).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return FailedPreconditionError(
        "models and adapters are fetched by libcurl, which could not be opened; install the "
        "package libcurl4: " +
        SharedLibraryError());
  }
  CurlLibrary curl;
  decltype(&curl_global_init) global_init = nullptr;
  decltype(&curl_version_info) version_info = nullptr;
  const bool has_all = FindFunction(library, "curl_easy_init", &curl.easy_init) &&
                       FindFunction(library, "curl_easy_reset", &curl.easy_reset) &&
                       FindFunction(library, "curl_easy_perform", &curl.easy_perform) &&
                       FindFunction(library, "curl_easy_cleanup", &curl.easy_cleanup) &&
                       FindFunction(library, "curl_easy_strerror", &curl.easy_strerror) &&
                       FindFunction(library, "curl_easy_setopt", &curl.easy_setopt) &&
                       FindFunction(library, "curl_slist_append", &curl.slist_append) &&
                       FindFunction(library, "curl_slist_free_all", &curl.slist_free_all) &&
                       FindFunction(library, "curl_global_init", &global_init) &&
                       FindFunction(library, "curl_version_info", &version_info);
  if (!has_all || version_info(CURLVERSION_NOW)->version_num < kCurlVersionMin) {
    return FailedPreconditionError("libcurl is older than 7.85; install a newer one");
  }
  if (global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
    return FailedPreconditionError("libcurl could not be set up");
  }
  return curl;
}

}  // namespace

Result<const CurlLibrary*> OpenCurl() {
  static const Result<CurlLibrary> curl = LoadCurl();
  if (!curl.ok()) return curl.status();
  return &*curl;
}

}  // namespace graft
