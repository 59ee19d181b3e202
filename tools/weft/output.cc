// By stdio, not fmt::print, which throws where it cannot write.
#include "weft/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

namespace weft::tools {

bool fill_standard_descriptors() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    // The lowest free number is this one: those below are open by now.
    const int flags = (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC;
    if (::open("/dev/null", flags) != fd) return false;
  }
  return true;
}

int put_output(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (written && std::fflush(stdout) == 0) return 0;
  return errno != 0 ? errno : EIO;
}

bool write_output(std::string_view what, std::string_view text) {
  const int error = put_output(text);
  if (error != 0) complain(fmt::format("cannot write {}: {}", what, std::strerror(error)));
  return error == 0;
}

void complain(std::string_view text) {
  const std::string line = fmt::format("weft: {}\n", text);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace weft::tools
