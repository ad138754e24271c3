// Which names a server answers to. A page of some site can point its own name at 127.0.0.1 and have
// the browser ask whatever listens there as if it were that site (DNS rebinding); the Host header
// then has the site's name. Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace graft {

// The names that are checked, in lower case; empty: any will do. `given` is the operator's list,
// "*" in it for any. Without one, a server that listens on `bind_host` on this machine alone and
// asks for no key answers to this machine's own names; one that others reach, to any.
std::vector<std::string> ServedHosts(const std::vector<std::string>& given,
                                     const std::string& bind_host, bool needs_key);

// Whether a Host header's value ("localhost:8000", "[::1]") is one of `hosts`, with any port. What
// is not a browser may send none ("").
bool IsServedHost(const std::vector<std::string>& hosts, std::string_view host);

}  // namespace graft
