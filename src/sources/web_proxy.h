// Proxies, as the environment names them: https_proxy, http_proxy, all_proxy, no_proxy (and the
// first, third and fourth in capital letters). Behind a proxy the address that a name leads to is
// the proxy's knowledge alone, so only names are checked. Any thread.
#pragma once

#include <string>

#include "sources/web_url.h"

namespace graft {

// "" for none.
std::string ProxyFor(const WebUrl& url);

// Whether a name that no operator configured may be asked of a proxy: no IP address in any form, no
// name without a dot, none of localhost, internal, local and their kind.
bool IsPublicName(const std::string& host);

}  // namespace graft
