// Where sysfs is, and one attribute file of it, for programs that look beside the verbs.
#include <fcntl.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "front/libibverbs/export.h"

// Not in the public header, yet in the public node 1.0.
extern "C" const char* ibv_get_sysfs_path();
extern "C" int ibv_read_sysfs_file(const char* directory, const char* file, char* buffer,
                                   std::size_t size);

/// The mount point of sysfs without a trailing slash: $SYSFS_PATH, or "/sys". A program with more
/// privileges than its caller does not take the caller's word for it. Settled on the first call and
/// valid for ever. Threads: any.
WEFT_EXPORT const char* ibv_get_sysfs_path() {
  static char path[PATH_MAX] = "/sys";
  static std::once_flag once;
  std::call_once(once, [] {
    const char* wanted = getauxval(AT_SECURE) != 0 ? nullptr : std::getenv("SYSFS_PATH");
    if (wanted == nullptr) return;
    int octets = std::snprintf(path, sizeof path, "%s", wanted);
    if (octets >= static_cast<int>(sizeof path)) octets = sizeof path - 1;
    while (octets > 0 && path[octets - 1] == '/') path[--octets] = '\0';
  });
  return path;
}

/// Reads directory/file into `buffer`, drops a final newline and ends the text with a zero octet.
/// Returns the octets of the text, or -1 with errno, EOVERFLOW if the zero does not fit.
/// Threads: any.
WEFT_EXPORT int ibv_read_sysfs_file(const char* directory, const char* file, char* buffer,
                                    std::size_t size) {
  char path[PATH_MAX];
  const int path_octets = std::snprintf(path, sizeof path, "%s/%s", directory, file);
  if (path_octets < 0 || path_octets >= static_cast<int>(sizeof path)) {
    errno = ENAMETOOLONG;
    return -1;
  }
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t octets;
  do {
    octets = read(fd, buffer, size);
  } while (octets < 0 && errno == EINTR);
  const int read_errno = errno;
  close(fd);
  if (octets < 0) {
    errno = read_errno;
    return -1;
  }
  if (octets > 0 && buffer[octets - 1] == '\n') {
    buffer[--octets] = '\0';
  } else if (static_cast<std::size_t>(octets) < size) {
    buffer[octets] = '\0';
  } else if (octets > 0) {
    errno = EOVERFLOW;
    return -1;
  }
  return static_cast<int>(octets);
}
