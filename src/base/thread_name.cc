#include "base/thread_name.h"

#include <pthread.h>

#include "base/check.h"

namespace graft {

void NameThread(const char* name) {
  CHECK_EQ(pthread_setname_np(pthread_self(), name), 0) << "longer than 15 bytes: " << name;
}

}  // namespace graft
