// Switching a descriptor from TCP to iWARP, and back.
#include "front/sockets/preload/candidate.h"

#include <link.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/number_gate.h"
#include "front/sockets/addresses.h"
#include "front/sockets/kernel.h"
#include "front/sockets/no_memory.h"
#include "front/sockets/preload/number_sets.h"
#include "front/sockets/preload/rules.h"

namespace weft::sockets {
namespace {

/// Where our libraries lie in memory; their own sockets are not the program's.
struct Libraries {
  struct Range {
    std::uintptr_t first, last;
  };
  std::vector<Range> ranges;

  Libraries() {
    ::dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* self) {
          static_cast<Libraries*>(self)->add(*info);
          return 0;
        },
        this);
  }

  void add(const dl_phdr_info& info) {
    const std::array<std::uintptr_t, 3> ours{reinterpret_cast<std::uintptr_t>(&ibv_get_device_list),
                                             reinterpret_cast<std::uintptr_t>(&rdma_create_id),
                                             reinterpret_cast<std::uintptr_t>(&rule_holds)};
    for (int i = 0; i < info.dlpi_phnum; ++i) {
      const auto& part = info.dlpi_phdr[i];
      if (part.p_type != PT_LOAD) continue;
      const std::uintptr_t first = info.dlpi_addr + part.p_vaddr;
      const std::uintptr_t last = first + part.p_memsz;
      for (const std::uintptr_t one : ours) {
        if (one >= first && one < last) ranges.push_back({first, last});
      }
    }
  }
};

bool wants(Candidate& candidate, const sockaddr& address) {
  std::lock_guard lock(switching);
  if (candidate.mode) return *candidate.mode != IWARP_MODE_OFF;
  return rule_holds(address);
}

bool may_fall_back(Candidate& candidate) {
  std::lock_guard lock(switching);
  if (candidate.mode) return *candidate.mode == IWARP_MODE_ON;
  return sockets::may_fall_back();
}

/// This process has too little of something: no reason to try another protocol.
bool is_short(int code) {
  return code == ENOMEM || code == ENOBUFS || code == EMFILE || code == ENFILE;
}

/// Takes the number out of all epoll sets that still have it, before it leads to something else:
/// they would go on telling of what it led to. With `switching` held.
void unregister(Candidate& candidate, int fd) {
  std::erase_if(candidate.registered, [&](const auto& entry) {
    const auto [epoll, number] = entry.first;
    return number == fd && kernel::epoll_ctl(epoll, EPOLL_CTL_DEL, fd, nullptr) != 0;
  });
}

/// Tells them again what they knew of it. With `switching` held. True: there are some.
bool register_again(Candidate& candidate, int fd) {
  bool any = false;
  for (const auto& [which, event] : candidate.registered) {
    const auto [epoll, number] = which;
    if (number != fd) continue;
    epoll_event copy = event;
    kernel::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &copy);
    epoll_sets.mark(epoll);
    any = true;
  }
  return any;
}

/// Not one that fell back to TCP before.
bool is_unused(int fd) {
  std::uint8_t state = 0;  // the first octet of it
  socklen_t octets = sizeof state;
  return kernel::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &state, &octets) == 0 && state == TCP_CLOSE;
}

int cloexec_of(int fd) {
  return (kernel::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0;
}

/// The TCP socket makes way for what `ours` is, and stays as `kept`. False, with errno: it is there
/// still.
bool replace(int fd, int ours, int kept, const SocketPtr& socket, Candidate& candidate) {
  std::lock_guard lock(switching);
  if (sockets().has(fd)) return errno = EISCONN, false;  // another thread was faster
  const int cloexec = cloexec_of(fd);
  socket->size().operations = candidate.operations;
  unregister(candidate, fd);
  int code = 0;
  if (kernel::dup3(ours, fd, cloexec) < 0) {
    code = errno;
  } else if (!sockets().set(fd, socket)) {
    code = ENOMEM;
    kernel::dup3(kept, fd, cloexec);
  }
  if (code != 0) {
    register_again(candidate, fd);
    return errno = code, false;
  }
  candidate.kept = kept;
  return true;
}

/// Puts the socket under the number of a TCP socket. False, with errno: that is there still.
bool put_in_place(const SocketPtr& socket, int fd, int kept, Candidate& candidate) {
  const bool nonblocking = (kernel::fcntl(fd, F_GETFL) & O_NONBLOCK) != 0;
  const auto ours = socket->open_descriptor(cloexec_of(fd) | (nonblocking ? SOCK_NONBLOCK : 0));
  if (!ours) return errno = ours.error().code, false;
  const bool done = attempt([&] { socket->add_number(fd); })
                        ? replace(fd, *ours, kept, socket, candidate)
                        : (errno = ENOMEM, false);
  const int code = errno;
  kernel::close(*ours);
  if (!done) socket->remove_number(fd);
  return errno = code, done;
}

/// Whether epoll sets knew the number, and now know it again.
bool is_known_again(Candidate& candidate, int fd) {
  std::lock_guard lock(switching);
  return register_again(candidate, fd);
}

/// Puts a socket of ours under the number; the TCP socket stays in candidate.kept.
SocketPtr switch_over(int fd, Candidate& candidate) {
  sockaddr_storage bound{};
  socklen_t octets = sizeof bound;
  if (kernel::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &octets) != 0) return nullptr;
  if (octets_of(bound.ss_family) == 0) return nullptr;
  const auto socket = std::make_shared<Socket>(bound.ss_family);
  if (!carry_options(fd, *socket)) return nullptr;
  // It goes on holding its port, in a way that lets the connection manager have it too.
  const int on = 1;
  kernel::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const auto port = reinterpret_cast<const sockaddr_in&>(bound).sin_port;
  const auto give_up = [&]() -> SocketPtr {
    socket->close(false);  // its port too
    return nullptr;
  };
  if (port != 0 && !socket->bind(reinterpret_cast<const sockaddr&>(bound))) return give_up();
  const int kept = duplicate_out_of_the_way(fd);
  if (kept < 0) return give_up();
  if (!put_in_place(socket, fd, kept, candidate)) {
    const int code = errno;
    kernel::close(kept);
    give_up();
    return errno = code, nullptr;
  }
  if (is_known_again(candidate, fd)) socket->watch();
  return socket;
}

/// Puts the TCP socket under those of the numbers that still lead to ours, and leaves those.
void replace_by_kept(const SocketPtr& socket, Candidate& candidate, std::vector<int>& numbers) {
  std::lock_guard lock(switching);
  if (candidate.kept < 0) return numbers.clear();
  const bool nonblocking = socket->nonblocking;
  const long flags = kernel::fcntl(candidate.kept, F_GETFL);
  kernel::fcntl(candidate.kept, F_SETFL,
                nonblocking ? flags | O_NONBLOCK : flags & ~long{O_NONBLOCK});
  std::erase_if(numbers, [&](int fd) {
    return !sockets().take_from(fd, socket, [&] {
      unregister(candidate, fd);
      kernel::dup3(candidate.kept, fd, cloexec_of(fd));
      register_again(candidate, fd);
    });
  });
  kernel::close(candidate.kept);
  candidate.kept = -1;
}

/// The TCP socket again, under all numbers that still lead to ours.
void switch_back(const SocketPtr& socket, Candidate& candidate) {
  std::vector<int> numbers = socket->numbers();
  replace_by_kept(socket, candidate, numbers);
  for (const int fd : numbers) socket->remove_number(fd);
}

/// The same attempt by TCP. False: that is over at once, and no better.
bool connect_kept(Candidate& candidate, const sockaddr_storage& target) {
  std::lock_guard lock(switching);
  candidate.owes_word = true;
  const auto* address = reinterpret_cast<const sockaddr*>(&target);
  return kernel::connect(candidate.kept, address, octets_of(target.ss_family)) == 0 ||
         errno == EINPROGRESS;
}

bool takes_word(Candidate& candidate) {
  std::lock_guard lock(switching);
  return std::exchange(candidate.owes_word, false);
}

void drop_kept(Candidate& candidate) {
  std::lock_guard lock(switching);
  if (candidate.kept >= 0) kernel::close(candidate.kept);
  candidate.kept = -1;
}

}  // namespace

Candidate::~Candidate() {
  if (kept >= 0) kernel::close(kept);
}

FdTable<Candidate>& candidates() {
  static auto* table = [] {
    // A child's is of a moment when nobody was in it, as its sockets() is. Who switches a socket
    // takes `switching` and then a mutex of sockets(); so does a fork, which begins with what was
    // registered last. Hence sockets() first.
    sockets();
    constexpr auto kEnd = [] {
      candidates().unlock_all();
      switching.unlock();
    };
    pthread_atfork(
        [] {
          switching.lock();
          candidates().lock_all();
        },
        kEnd, kEnd);
    return new FdTable<Candidate>;
  }();
  return *table;
}

bool consider(int fd) {
  return attempt([&] { candidates().set(fd, std::make_shared<Candidate>()); }) &&
         candidates().has(fd);
}

bool is_programs(const void* return_address) {
  static const Libraries* const libraries = new Libraries;
  const auto at = reinterpret_cast<std::uintptr_t>(return_address);
  for (const auto& range : libraries->ranges) {
    if (at >= range.first && at < range.last) return false;
  }
  return true;
}

void note_epoll(int fd, int epoll, int operation, const epoll_event* event) {
  const auto candidate = candidates().find(fd);
  if (candidate == nullptr) return;
  std::lock_guard lock(switching);
  if (operation == EPOLL_CTL_DEL) {
    candidate->registered.erase({epoll, fd});
  } else if (event != nullptr) {
    // Without memory it is not told again, should the socket be switched.
    attempt([&] { candidate->registered[{epoll, fd}] = *event; });
  }
}

int set_mode(int fd, const void* value, socklen_t octets) try {
  int mode = 0;
  if (value == nullptr || octets < sizeof mode) return errno = EINVAL, -1;
  std::memcpy(&mode, value, sizeof mode);
  if (mode < IWARP_MODE_OFF || mode > IWARP_MODE_REQUIRED) return errno = EINVAL, -1;
  int type = 0, family = 0;
  socklen_t size = sizeof type;
  if (kernel::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0) return -1;
  if (sockets().has(fd)) return errno = EISCONN, -1;
  size = sizeof family;
  kernel::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size);
  if (type != SOCK_STREAM || octets_of(family) == 0) return errno = EOPNOTSUPP, -1;
  if (!candidates().has(fd) && !consider(fd)) return no_memory();
  const auto candidate = candidates().find(fd);
  if (candidate == nullptr) return errno = ENOMEM, -1;
  std::lock_guard lock(switching);
  candidate->mode = mode;
  return 0;
} catch (const std::exception&) {
  return no_memory();
}

int get_mode(int fd, void* value, socklen_t* octets) {
  if (value == nullptr || octets == nullptr || *octets < sizeof(int)) return errno = EINVAL, -1;
  const int mode = sockets().has(fd) ? IWARP_MODE_ON : IWARP_MODE_OFF;
  std::memcpy(value, &mode, sizeof mode);
  *octets = sizeof mode;
  return 0;
}

std::optional<int> listen_switched(int fd, int backlog) try {
  const auto candidate = candidates().find(fd);
  if (candidate == nullptr) return {};
  sockaddr_storage bound{};
  socklen_t octets = sizeof bound;
  if (kernel::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &octets) != 0) return {};
  if (!wants(*candidate, reinterpret_cast<const sockaddr&>(bound)) || !is_unused(fd)) return {};
  const SocketPtr socket = switch_over(fd, *candidate);
  if (socket == nullptr) {
    if (may_fall_back(*candidate)) return {};
    return errno = EOPNOTSUPP, -1;
  }
  if (listen(*socket, backlog) == 0) {
    drop_kept(*candidate);
    return 0;
  }
  const int code = errno;
  switch_back(socket, *candidate);
  socket->close(false);
  if (code != EADDRINUSE && may_fall_back(*candidate)) return {};
  return errno = code, -1;
} catch (const std::exception&) {
  return no_memory();
}

std::optional<int> connect_switched(int fd, const sockaddr* address, socklen_t octets) try {
  const auto candidate = candidates().find(fd);
  if (candidate == nullptr || address == nullptr || octets < octets_of(address->sa_family) ||
      octets_of(address->sa_family) == 0 || takes_word(*candidate) ||
      !wants(*candidate, *address) || !is_unused(fd)) {
    return {};
  }
  const bool falls_back = may_fall_back(*candidate);
  errno = 0;
  const SocketPtr socket = switch_over(fd, *candidate);
  if (socket == nullptr) {
    if (is_short(errno) || errno == EISCONN) return -1;
    if (falls_back) return {};
    return errno = EOPNOTSUPP, -1;
  }
  if (socket->nonblocking && falls_back) {
    sockaddr_storage target{};
    std::memcpy(&target, address, octets_of(address->sa_family));
    socket->set_settle([candidate, target](const SocketPtr& settled) {
      const bool goes_on =
          settled->is_refused() && settled->may_fall_back() && connect_kept(*candidate, target);
      if (goes_on) {
        switch_back(settled, *candidate);
      } else {
        drop_kept(*candidate);
      }
      return goes_on;
    });
  }
  const int result = connect(*socket, address, octets);
  if (result == 0) {
    drop_kept(*candidate);
    return 0;
  }
  const int code = errno;
  if (code == EINPROGRESS || code == EINTR) return errno = code, -1;
  // What is short here, TCP would hide; who refuses by iWARP's own word is not asked again.
  if (!falls_back || is_short(code) || !socket->may_fall_back()) return errno = code, -1;
  switch_back(socket, *candidate);
  socket->close(false);
  return {};
} catch (const std::exception&) {
  return no_memory();
}

}  // namespace weft::sockets
