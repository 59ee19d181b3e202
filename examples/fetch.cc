// Fetches a file out of another process's memory, many pieces at a time, waiting in epoll.
//
//   fetch PORT FILE             offers FILE, for one reader after the other
//   fetch HOST PORT > COPY      reads it
//
//   c++ -std=c++20 fetch.cc $(pkg-config --cflags --libs weft-sockets)
#include <netdb.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weft/sockets.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace iwarp = weft::iwarp;

namespace {

constexpr std::size_t kPiece = 64 * 1024;

/// A descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd, const char* what) : fd_(fd) {
    if (fd < 0) throw std::system_error(errno, std::generic_category(), what);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

void need(bool holds, const char* what) {
  if (!holds) throw std::system_error(errno, std::generic_category(), what);
}

/// A socket for `host`, connected; without one, listening.
Descriptor open(const char* host, const char* port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = host == nullptr ? AI_PASSIVE : 0;
  if (const int code = ::getaddrinfo(host, port, &hints, &found); code != 0) {
    throw std::runtime_error(::gai_strerror(code));
  }
  Descriptor socket(::socket(found->ai_family, SOCK_STREAM, 0), "socket");
  const int mode = IWARP_MODE_REQUIRED, on = 1;
  need(::setsockopt(socket.get(), SOL_IWARP, IWARP_MODE, &mode, sizeof mode) == 0, "IWARP_MODE");
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (host != nullptr) {
    need(::connect(socket.get(), found->ai_addr, found->ai_addrlen) == 0, "connect");
  } else {
    need(::bind(socket.get(), found->ai_addr, found->ai_addrlen) == 0, "bind");
    need(::listen(socket.get(), 8) == 0, "listen");
  }
  ::freeaddrinfo(found);
  return socket;
}

[[noreturn]] void offer(const char* port, const char* path) {
  std::vector<char> octets(std::filesystem::file_size(path));
  if (octets.empty()) throw std::runtime_error(std::string(path) + ": nothing to offer");
  std::ifstream file(path, std::ios::binary);
  if (!file.read(octets.data(), static_cast<std::streamsize>(octets.size()))) {
    throw std::runtime_error(std::string(path) + ": not to be read");
  }
  const Descriptor listener = open(nullptr, port);
  for (;;) {
    const Descriptor reader(::accept(listener.get(), nullptr, nullptr), "accept");
    const iwarp::RegisteredMemory memory(reader.get(), std::span(octets), IWARP_REMOTE_READ);
    const iwarp_key key = memory.key();
    need(::send(reader.get(), &key, sizeof key, MSG_NOSIGNAL) == sizeof key, "send");
    // The reader does the rest; it closes when it has all.
    char end = 0;
    while (::recv(reader.get(), &end, 1, 0) > 0) continue;
  }
}

void fetch(const char* host, const char* port) {
  const Descriptor socket = open(host, port);
  const int fd = socket.get();
  iwarp_key key;
  need(::recv(fd, &key, sizeof key, MSG_WAITALL) == sizeof key, "recv");
  const iwarp::RemoteMemory file(key);
  std::vector<std::byte> copy(file.octets());
  const iwarp::RegisteredMemory memory(fd, std::span(copy), IWARP_LOCAL_WRITE);

  const iwarp::CompletionDescriptor completions(fd);
  const Descriptor epoll(::epoll_create1(0), "epoll_create1");
  epoll_event event{};
  event.events = EPOLLIN;
  need(::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, completions.get(), &event) == 0, "epoll_ctl");

  std::array<iwarp::Completion, 32> room;
  std::size_t asked = 0, got = 0;
  while (got < copy.size()) {
    while (asked < copy.size()) {
      const auto piece = std::span(copy).subspan(asked, std::min(kPiece, copy.size() - asked));
      if (!iwarp::post_read(fd, piece, file, asked, asked)) break;
      asked += piece.size();
    }
    need(::epoll_wait(epoll.get(), &event, 1, -1) == 1 || errno == EINTR, "epoll_wait");
    for (const auto& done : iwarp::poll(fd, room)) {
      done.check();
      got += done.octets();
    }
  }
  std::cout.write(reinterpret_cast<const char*>(copy.data()),
                  static_cast<std::streamsize>(copy.size()));
  // A full disk may show only now.
  need(std::cout.flush().good(), "standard output");
}

}  // namespace

int main(int count, char** words) try {
  if (count != 3) {
    std::cerr << "usage: fetch PORT FILE | fetch HOST PORT\n";
    return 2;
  }
  const bool offers = std::string(words[1]).find_first_not_of("0123456789") == std::string::npos;
  if (offers) offer(words[1], words[2]);
  fetch(words[1], words[2]);
  return 0;
} catch (const std::exception& problem) {
  std::cerr << "fetch: " << problem.what() << '\n';
  return 1;
}
