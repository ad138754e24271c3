// Which names a server answers to, against DNS rebinding: a web page can point its own name at
// 127.0.0.1 and make the browser call a server there as if it were the page's site. The Host header
// then has the site's name. Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace graft {

// The Host names that the server answers to, in lower case. An empty list means any. `given` is the
// operator's list; "*" in it means any. If it is empty, a server on loopback without keys answers
// to this machine's own names, and every other server to any name.
std::vector<std::string> ServedHosts(const std::vector<std::string>& given,
                                     const std::string& bind_host, bool needs_key);

// Whether a Host header's value ("localhost:8000", "[::1]") is one of `hosts`, with any port. What
// is not a browser may send none ("").
bool IsServedHost(const std::vector<std::string>& hosts, std::string_view host);

}  // namespace graft
