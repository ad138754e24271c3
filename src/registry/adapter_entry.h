// What a catalog says of an adapter, as a registry remembers it, and back. Pure functions.
#pragma once

#include "registry/adapter_registry.h"
#include "request/adapter_catalog.h"

namespace graft {

AdapterInfo InfoOf(const RegistryEntry& entry);
// The entry of an adapter that was read.
RegistryEntry EntryOf(const AdapterInfo& info);

}  // namespace graft
