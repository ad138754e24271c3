// Tells the service manager that started this process the process's state (systemd's Type=notify
// and Type=notify-reload). Any thread; nothing happens if none asked to be told.
#pragma once

#include <string>
#include <string_view>

namespace graft {

// One datagram to $NOTIFY_SOCKET: "READY=1", "STOPPING=1", lines of such.
void NotifyService(std::string_view state);

// What says that a reload begins now; "READY=1" ends it.
std::string ReloadingState();

}  // namespace graft
