// The kernel's default congestion control belongs to the namespace, so the machine keeps its own.
#include "bench/network.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "bench/leg.h"

namespace weft::bench {
namespace {

void write_file(const char* file, const std::string& text) {
  const int fd = ::open(file, O_WRONLY | O_CLOEXEC);
  const bool wrote =
      fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (!wrote) fail_errno(fmt::format("cannot write \"{}\" to {}", text, file));
  ::close(fd);
}

void become_owner_of_namespaces() {
  const auto user = ::geteuid();
  const auto group = ::getegid();
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
    fail_errno("--congestion needs a network namespace, which this user may not make");
  }
  write_file("/proc/self/setgroups", "deny");
  write_file("/proc/self/uid_map", fmt::format("0 {} 1", user));
  write_file("/proc/self/gid_map", fmt::format("0 {} 1", group));
}

void bring_loopback_up() {
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) fail_errno("socket");
  ifreq request{};
  std::memcpy(request.ifr_name, "lo", sizeof "lo");
  request.ifr_flags = IFF_UP;
  if (::ioctl(fd, SIOCSIFFLAGS, &request) != 0) fail_errno("cannot bring the loopback up");
  ::close(fd);
}

}  // namespace

void enter_own_network(const std::string& congestion) {
  if (::unshare(CLONE_NEWNET) != 0) become_owner_of_namespaces();
  bring_loopback_up();
  // The kernel hands a namespace only what tcp_allowed_congestion_control lists, and reno always.
  write_file("/proc/sys/net/ipv4/tcp_congestion_control", congestion);
}

}  // namespace weft::bench
