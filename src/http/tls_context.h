// The server's side of TLS, from its files. Any thread.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "base/status.h"

namespace graft {

// TLS 1.2 and 1.3 with forward secrecy and authenticated encryption alone, for HTTP/1.1, by a chain
// and a key in PEM. Null if both names are ""; the error says which of the files is wrong.
Result<std::shared_ptr<boost::asio::ssl::context>> LoadTlsContext(const std::string& cert_file,
                                                                  const std::string& key_file);

}  // namespace graft
