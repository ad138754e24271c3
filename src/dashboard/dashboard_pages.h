// The dashboard's page and its files as responses: nothing of them is secret, for what they show
// comes by /dashboard/data. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "http/http_message.h"

namespace graft {

// Whether the page loads a file of this name.
bool IsDashboardFile(std::string_view name);
// The page itself: dashboard.html. The name is that of an embedded file.
HttpResponse DashboardFile(std::string_view name);
// What stands at "/": where to go from there.
HttpResponse StartPage();
HttpResponse DashboardData(std::string json);

// The number in a query of "since=N"; 0 where there is none.
uint64_t SinceIn(std::string_view query);

}  // namespace graft
