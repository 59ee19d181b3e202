// The kernel's default congestion control belongs to the namespace, so the machine keeps its own.
#include "bench/network.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <cstring>

#include "bench/leg.h"

namespace weft::bench {
namespace {

constexpr const char* kCongestionFile = "/proc/sys/net/ipv4/tcp_congestion_control";

bool try_write_file(const char* file, const std::string& text) {
  const int fd = ::open(file, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool wrote = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  return wrote;
}

void write_file(const char* file, const std::string& text) {
  if (!try_write_file(file, text)) {
    fail_errno(fmt::format("cannot write \"{}\" to {}", text, file));
  }
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

/// What a namespace's own default may not be, because the system allows it to the privileged only,
/// its routes may still ask for.
bool set_by_route(const std::string& congestion) {
  for (const char character : congestion) {
    if (std::isalnum(static_cast<unsigned char>(character)) == 0) return false;
  }
  // The addresses themselves have routes too, which come before those of their networks.
  // IPv6 knows no changing of a route without a metric, and may not be there at all.
  const auto command = fmt::format(
      "rest='dev lo table local proto kernel scope host src 127.0.0.1 congctl {0}'; "
      "ip route change local 127.0.0.0/8 $rest && ip route change local 127.0.0.1 $rest || exit 1; "
      "! ip -6 route del local ::1 dev lo table local 2>/dev/null || "
      "ip -6 route add local ::1 dev lo table local congctl {0}",
      congestion);
  return std::system(command.c_str()) == 0;
}

}  // namespace

void enter_own_network(const std::string& congestion) {
  if (::unshare(CLONE_NEWNET) != 0) become_owner_of_namespaces();
  bring_loopback_up();
  // The kernel hands a namespace only what tcp_allowed_congestion_control lists, and reno always.
  if (!try_write_file(kCongestionFile, congestion) && !set_by_route(congestion)) {
    fail("this system has no congestion control {} for a namespace, nor for a route", congestion);
  }
}

void enter_network(const std::string& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail_errno(file);
  if (::setns(fd, CLONE_NEWNET) != 0) fail_errno("cannot enter " + file);
  ::close(fd);
}

}  // namespace weft::bench
