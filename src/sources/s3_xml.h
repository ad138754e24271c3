// The few elements that are read of S3's and STS's XML: texts between tags that do not nest in
// themselves. No entities but XML's own five and numbers, no DTD. Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace graft {

// What stands between the first <tag> and the next </tag>, unescaped; "" where there is none.
std::string XmlText(std::string_view xml, const std::string& tag);
// What stands between each <tag> and its </tag>, as it is.
std::vector<std::string_view> XmlElements(std::string_view xml, const std::string& tag);

}  // namespace graft
