// libcurl, opened when a source is first asked: it pulls some thirty libraries into a process, and
// a server that fetches nothing starts without them. Any thread.
#pragma once

#define CURL_DISABLE_TYPECHECK 1
#include <curl/curl.h>

#include "base/status.h"

namespace graft {

struct CurlLibrary {
  decltype(&curl_easy_init) easy_init = nullptr;
  decltype(&curl_easy_reset) easy_reset = nullptr;
  decltype(&curl_easy_perform) easy_perform = nullptr;
  decltype(&curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&curl_easy_strerror) easy_strerror = nullptr;
  CURLcode (*easy_setopt)(CURL*, CURLoption, ...) = nullptr;
  decltype(&curl_slist_append) slist_append = nullptr;
  decltype(&curl_slist_free_all) slist_free_all = nullptr;
};

// kFailedPrecondition where it is not there, or too old to sign.
Result<const CurlLibrary*> OpenCurl();

}  // namespace graft
