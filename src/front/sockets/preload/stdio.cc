// FILEs over sockets.
//
// glibc's stdio enters the kernel by itself, where nobody can stand in front of it. But a FILE may
// have functions of its own (fopencookie): one that is opened on a socket of ours gets these, which
// read and write as the program would.
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "front/libibverbs/export.h"
#include "front/sockets/kernel.h"
#include "front/sockets/preload/candidate.h"
#include "front/sockets/preload/libc.h"
#include "front/sockets/preload/own.h"

namespace {

namespace weft_sockets = weft::sockets;
namespace libc = weft::sockets::libc;

void* cookie_of(int fd) {
  return reinterpret_cast<void*>(static_cast<std::intptr_t>(fd));
}
int fd_of(void* cookie) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(cookie));
}

ssize_t read_some(void* cookie, char* to, std::size_t octets) {
  return ::read(fd_of(cookie), to, octets);
}

/// All, or what went before an error: stdio asks for no less. 0 is an error to it.
ssize_t write_all(void* cookie, const char* from, std::size_t octets) {
  std::size_t written = 0;
  while (written < octets) {
    const ssize_t part = ::write(fd_of(cookie), from + written, octets - written);
    if (part < 0) break;
    written += static_cast<std::size_t>(part);
  }
  return static_cast<ssize_t>(written);
}

int seek_nowhere(void*, off64_t*, int) {
  return weft_sockets::fail(ESPIPE);
}

int close_it(void* cookie) {
  return ::close(fd_of(cookie));
}

int print(int fd, const char* format, va_list arguments) {
  char* text = nullptr;
  const int octets = ::vasprintf(&text, format, arguments);
  if (octets < 0) return octets;
  const ssize_t written = write_all(cookie_of(fd), text, static_cast<std::size_t>(octets));
  const int code = errno;
  std::free(text);
  errno = code;
  return written == octets ? octets : -1;
}

/// What `act` does to a FILE closes its number, where that is a socket's of ours without our
/// functions (one that was put under it later): libc does it by itself.
template <typename Act>
auto close_within(FILE* file, Act act) {
  const int fd = file->_fileno;
  const weft_sockets::SocketPtr socket =
      weft_sockets::sockets().has(fd) ? weft_sockets::sockets().find(fd) : nullptr;
  const auto result = act();
  // The number may be given out again already: then it leads to something else.
  if (socket != nullptr && weft_sockets::sockets().find(fd) == socket) weft_sockets::forget(fd);
  return result;
}

}  // namespace

WEFT_EXPORT int fclose(FILE* file) {
  return close_within(file, [&] { return libc::fclose(file); });
}

WEFT_EXPORT FILE* freopen(const char* path, const char* mode, FILE* file) {
  return close_within(file, [&] { return libc::freopen(path, mode, file); });
}
extern "C" __attribute__((visibility("default"), alias("freopen"))) FILE* freopen64(
    const char*, const char*, FILE*);

/// Also on a socket that may become ours: it is asked each time it is read or written.
WEFT_EXPORT FILE* fdopen(int fd, const char* mode) noexcept {
  if (!weft_sockets::is_ours(fd) && !weft_sockets::candidates().has(fd)) {
    return libc::fdopen(fd, mode);
  }
  const cookie_io_functions_t functions{read_some, write_all, seek_nowhere, close_it};
  FILE* file = ::fopencookie(cookie_of(fd), mode, functions);
  if (file != nullptr) file->_fileno = fd;  // what fileno() tells
  return file;
}

WEFT_EXPORT int vdprintf(int fd, const char* format, va_list arguments) {
  if (!weft_sockets::is_ours(fd)) return libc::vdprintf(fd, format, arguments);
  return print(fd, format, arguments);
}

WEFT_EXPORT int dprintf(int fd, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int result = ::vdprintf(fd, format, arguments);
  va_end(arguments);
  return result;
}

// What a fortified program calls instead.
extern "C" {
WEFT_EXPORT int __vdprintf_chk(int fd, int, const char* format, va_list arguments) {
  return ::vdprintf(fd, format, arguments);
}
WEFT_EXPORT int __dprintf_chk(int fd, int, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int result = ::vdprintf(fd, format, arguments);
  va_end(arguments);
  return result;
}
}
