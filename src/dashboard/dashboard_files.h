// The dashboard's page and what it loads, as bytes inside the program (cmake/embed.cmake writes the
// file that defines them). Constant; any thread.
#pragma once

#include <span>
#include <string_view>

namespace graft {

struct EmbeddedFile {
  std::string_view name;
  std::string_view bytes;
};

std::span<const EmbeddedFile> DashboardFiles();

}  // namespace graft
