// Parts of the program that lie in libraries of their own, opened by what needs them. Any thread.
#pragma once

#include <string>

namespace graft {

// The path of the library. It lies beside the program, or where packages keep libraries, or, for
// programs of a build folder, in the folder `build_folder` beside theirs ("": none). If it is in
// none of these, returns the name itself, for the loader's own search.
std::string FindSharedLibrary(const std::string& name, const std::string& build_folder = "");

// Why this thread's last call of dlopen or dlsym failed.
std::string SharedLibraryError();

}  // namespace graft
