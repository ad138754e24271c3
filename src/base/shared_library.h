// Parts of the program that lie in libraries of their own, opened by what needs them. Any thread.
#pragma once

#include <string>

namespace graft {

// Where the library lies: beside the program, where packages keep libraries, or, of a build
// folder's programs, in the folder `build_folder` beside theirs ("": in none). The name itself
// where it is in none of these, for the loader's own search.
std::string FindSharedLibrary(const std::string& name, const std::string& build_folder = "");

// Why this thread's last call of dlopen or dlsym failed.
std::string SharedLibraryError();

}  // namespace graft
