// The server's side of TLS, from its files. Any thread.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>

#include "base/status.h"
#include "server/server_options.h"

namespace graft {

// TLS 1.2 and 1.3 with forward secrecy and authenticated encryption alone, for HTTP/1.1. Null if
// `options` names no files; the error says which of them is wrong.
Result<std::shared_ptr<boost::asio::ssl::context>> LoadTlsContext(const ServerOptions& options);

}  // namespace graft
