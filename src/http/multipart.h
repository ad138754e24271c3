// Bodies of multipart/form-data (RFC 7578): the fields of a form, files among them. Pure functions;
// any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "http/api_error.h"

namespace graft {

struct FormPart {
  std::string name;
  std::string file_name;  // without folders; "" for a field that is no file
  bool is_file = false;
  std::string_view content;  // within the body
};

// Whether a Content-Type is a form's.
bool IsFormType(std::string_view content_type);

// `content_type` names the boundary. The parts point into `body`. 400 where it is no form, has more
// than 64 parts, or a name twice.
ApiResult<std::vector<FormPart>> ParseForm(std::string_view content_type, std::string_view body);

}  // namespace graft
