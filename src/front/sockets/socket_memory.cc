// Registered memory and operations of a socket.
#include "front/sockets/socket_memory.h"

#include <cerrno>
#include <new>

#include <sys/eventfd.h>

#include "front/sockets/kernel.h"
#include "front/sockets/socket_wait.h"

namespace weft::sockets {
namespace {

constexpr auto kEndPatience = std::chrono::seconds(2);
constexpr auto kMarkPatience = std::chrono::milliseconds(10);
constexpr int kRights = IWARP_LOCAL_WRITE | IWARP_REMOTE_READ | IWARP_REMOTE_WRITE;

int access_of(int rights) {
  int access = 0;
  // A peer that may write needs the local right too.
  if ((rights & (IWARP_LOCAL_WRITE | IWARP_REMOTE_WRITE)) != 0) access |= IBV_ACCESS_LOCAL_WRITE;
  if ((rights & IWARP_REMOTE_READ) != 0) access |= IBV_ACCESS_REMOTE_READ;
  if ((rights & IWARP_REMOTE_WRITE) != 0) access |= IBV_ACCESS_REMOTE_WRITE;
  return access;
}

}  // namespace

SocketMemory::SocketMemory(VerbsLane& lane, std::uint32_t open_max)
    : lane_(lane), operations_(lane, regions_, open_max) {
  lane_.set_operations(&operations_);
}

SocketMemory::~SocketMemory() {
  lane_.set_operations(nullptr);
  release_regions();
  if (event_fd_ >= 0) kernel::close(event_fd_);
}

void SocketMemory::release_regions() {
  while (Region* region = regions_.any()) {
    ibv_dereg_mr(region->registration);
    regions_.take(region->number);
  }
}

Result<SocketMemory*> SocketMemory::of(Socket& socket) {
  if (socket.closing_ || socket.state_ == Socket::State::Closed) return Error{EBADF, "closed"};
  if (socket.state_ != Socket::State::Connected) return Error{ENOTCONN, "not connected"};
  if (socket.memory_ == nullptr) {
    if (socket.relayed_) return Error{EOPNOTSUPP, "another process uses it too"};
    socket.memory_ = std::make_shared<SocketMemory>(*socket.lane_, socket.size_.operations);
  }
  if (socket.memory_->ending_) return Error{EBADF, "closed meanwhile"};
  return socket.memory_.get();
}

/// Looks for ends of transfers, about `count` of them.
///
/// Who asks again and again drives the connection, as with the verbs; and as there it learns of no
/// more than it asks for. What a program does not know to be done makes weft gather its posts
/// (docs/adr/0013): who took all at once would begin anew each time, with a system call for each
/// of the first posts.
void SocketMemory::look_for_ends(Socket& socket, int count) {
  while (operations_.completions() == 0 && socket.poll_queue(operations_.ends_of(count))) {
  }
  if (operations_.completions() == 0) expect_ends(socket);
}

void SocketMemory::expect_ends(Socket& socket) {
  // A device that has nothing else to do is done with a mark at once.
  if (operations_.expect_ends()) socket.poll_queue();
}

/// For calls that tell what is done and do not wait. They wait for a mark, which takes no longer
/// than a round trip where all before it is done.
void SocketMemory::await_mark(Socket& socket, std::unique_lock<Mutex>& lock) {
  expect_ends(socket);
  if (!operations_.mark_open()) return;
  static_cast<void>(
      socket.wait(lock, Clock::now() + kMarkPatience, [this] { return !operations_.mark_open(); }));
}

Error SocketMemory::ended_error(const Stream& stream) const {
  return stream.error() != 0 ? Error{stream.error(), "the connection broke"}
                             : Error{ENOTCONN, "the connection has ended"};
}

Result<SocketMemory*> SocketMemory::open(Socket& socket) {
  auto memory = of(socket);
  if (memory && socket.stream().ended()) return (*memory)->ended_error(socket.stream());
  return memory;
}

Result<int> SocketMemory::add_region(Socket& socket, void* memory, std::size_t octets, int rights) {
  if (memory == nullptr || octets == 0 || (rights & ~kRights) != 0) {
    return Error{EINVAL, "no memory, or rights that there are not"};
  }
  if ((rights & IWARP_REMOTE_WRITE) != 0) rights |= IWARP_LOCAL_WRITE;
  std::lock_guard lock(socket.mutex_);
  auto self = open(socket);
  if (!self) return self.error();
  Regions& regions = (*self)->regions_;
  if (regions.size() == IWARP_REGIONS_MAX) return Error{ENOBUFS, "as many regions as may be"};
  Region region;
  region.registration = ibv_reg_mr(socket.lane_->pd(), memory, octets, access_of(rights));
  if (region.registration == nullptr) return Error{errno, "the memory cannot be registered"};
  region.address = reinterpret_cast<std::uintptr_t>(memory);
  region.octets = octets;
  region.rights = rights;
  region.local_key = region.registration->lkey;
  region.remote_key = region.registration->rkey;
  auto added = regions.add(region);
  if (added) return (*added)->number;
  ibv_dereg_mr(region.registration);
  return added.error();
}

Result<void> SocketMemory::remove_region(Socket& socket, int number) {
  std::unique_lock lock(socket.mutex_);
  auto self = of(socket);
  if (!self) return self.error();
  const auto uses = [&](const Region* region) {
    return region != nullptr && (*self)->operations_.uses(*region);
  };
  const Region* region = (*self)->regions_.find(number);
  // What has ended may not have been heard of yet.
  if (uses(region)) socket.poll_queue();
  if (uses(region)) {
    (*self)->await_mark(socket, lock);
    if ((*self)->ending_) return Error{EBADF, "closed meanwhile"};
    region = (*self)->regions_.find(number);
  }
  if (region == nullptr) return Error{EINVAL, "no such region"};
  if (uses(region)) return Error{EBUSY, "an operation uses it"};
  ibv_dereg_mr(region->registration);
  (*self)->regions_.take(number);
  return {};
}

Result<RemoteMemory> SocketMemory::describe(Socket& socket, int number) {
  std::lock_guard lock(socket.mutex_);
  auto self = of(socket);
  if (!self) return self.error();
  const Region* region = (*self)->regions_.find(number);
  if (region == nullptr) return Error{EINVAL, "no such region"};
  const auto rights =
      static_cast<std::uint32_t>(region->rights) & (IWARP_REMOTE_READ | IWARP_REMOTE_WRITE);
  if (rights == 0) return Error{EACCES, "the peer has no right to it"};
  return RemoteMemory{region->address, region->octets, region->remote_key, rights};
}

Result<std::size_t> SocketMemory::transfer(Socket& socket, bool reads, std::span<const iovec> local,
                                           const RemoteMemory& remote, std::uint64_t offset) {
  // Before anything is begun: what has begun must be waited for.
  if (auto wake = own_wake_fd(); !wake) return wake.error();
  std::unique_lock lock(socket.mutex_);
  Outcome outcome;
  for (;;) {
    auto self = open(socket);
    if (!self) return self.error();
    Operations& operations = (*self)->operations_;
    const int code = operations.transfer(reads, local, remote, offset, {0, &outcome});
    if (code == 0) break;
    if (code != EAGAIN) return Error{code, "the operation cannot be begun"};
    const std::size_t needed = Operations::entries_needed(reads, local.size());
    // The object lives as long as somebody waits.
    static_cast<void>(socket.wait(lock, {}, [&] {
      operations.expect_ends();
      return operations.entries_free() >= needed || socket.closing_ || (*self)->ending_ ||
             socket.stream().ended();
    }));
  }
  if (!outcome.done) socket.poll_queue();
  while (!outcome.done) {
    // EINTR: the memory is in use, so on it goes.
    static_cast<void>(socket.wait(lock, {}, [&] { return outcome.done; }));
  }
  if (outcome.error != 0) return Error{outcome.error, "the operation failed"};
  std::size_t octets = 0;
  for (const iovec& part : local) octets += part.iov_len;
  return octets;
}

int SocketMemory::post_transfer(Socket& socket, bool reads, std::span<const iovec> local,
                                const RemoteMemory& remote, std::uint64_t offset,
                                std::uint64_t context) {
  std::lock_guard lock(socket.mutex_);
  if (!is_open(socket)) {
    auto self = open(socket);
    if (!self) return self.error().code;
  }
  return socket.memory_->operations_.transfer(reads, local, remote, offset, {context, nullptr});
}

Result<void> SocketMemory::post_send(Socket& socket, std::span<const iovec> local,
                                     std::uint64_t context) {
  std::lock_guard lock(socket.mutex_);
  auto self = of(socket);
  if (!self) return self.error();
  const Stream& stream = socket.stream();
  if (stream.write_closed()) return Error{EPIPE, "shut for writing"};
  if (stream.ended()) return (*self)->ended_error(stream);
  if (auto posted = (*self)->operations_.post_send(local, context); !posted) return posted;
  (*self)->advance(socket.stream());
  return {};
}

Result<void> SocketMemory::post_receive(Socket& socket, const iovec& to, bool all,
                                        std::uint64_t context) {
  std::lock_guard lock(socket.mutex_);
  auto self = of(socket);  // at the end of the stream too: it tells of it
  if (!self) return self.error();
  if (auto posted = (*self)->operations_.post_receive(to, all, context); !posted) return posted;
  socket.show();
  return {};
}

Result<int> SocketMemory::collect(Socket& socket, std::span<iwarp_completion> to, int wait_ms) {
  std::unique_lock lock(socket.mutex_);
  auto self = of(socket);
  if (!self) return self.error();
  Operations& operations = (*self)->operations_;
  // With nothing open too: the peer may be at this memory.
  (*self)->look_for_ends(socket, static_cast<int>(to.size()));
  if (operations.completions() == 0 && operations.open() != 0 && wait_ms != 0) {
    Deadline last;
    if (wait_ms > 0) last = Clock::now() + std::chrono::milliseconds(wait_ms);
    auto waited = socket.wait(lock, last, [&] {
      if (operations.completions() == 0) operations.expect_ends();
      return operations.completions() != 0 || operations.open() == 0 || socket.closing_;
    });
    if (socket.closing_) return Error{EBADF, "closed meanwhile"};
    if (!waited && waited.error().code != EAGAIN) return waited.error();
  }
  const int taken = operations.collect(to.data(), static_cast<int>(to.size()));
  (*self)->show_completions();
  return taken;
}

Result<int> SocketMemory::completion_fd(Socket& socket) {
  std::lock_guard lock(socket.mutex_);
  auto self = of(socket);
  if (!self) return self.error();
  SocketMemory& memory = **self;
  if (memory.event_fd_ < 0) {
    const Result<int> made = make_event_fd();
    if (!made) return made.error();
    memory.event_fd_ = *made;
    memory.operations_.tell_all();
    memory.show_completions();
    socket.serve_in_background();
  }
  const int fd = kernel::fcntl(memory.event_fd_, F_DUPFD_CLOEXEC);
  if (fd < 0) return Error{errno, "no descriptor"};
  return fd;
}

void SocketMemory::advance(Stream& stream) {
  operations_.advance(stream);
  if (event_fd_ >= 0) show_completions();
}

void SocketMemory::show_completions() {
  const bool any = operations_.completions() != 0 || ending_;
  if (event_fd_ < 0 || any == shown_) return;
  shown_ = any;
  if (any) {
    wake(event_fd_);
  } else {
    settle(event_fd_);
  }
}

void SocketMemory::end(Socket& socket) {
  std::unique_lock lock(socket.mutex_);
  if (socket.memory_ == nullptr || socket.memory_->ending_) return;
  SocketMemory& memory = *socket.memory_;
  memory.ending_ = true;
  Operations& operations = memory.operations_;
  const auto over = [&] {
    operations.expect_ends();
    return operations.drained() || socket.stream().ended();
  };
  if (!over()) socket.poll_queue();
  if (!operations.drained()) memory.await_mark(socket, lock);
  if (!over() && !socket.nonblocking) {
    const Deadline last = Clock::now() + kEndPatience;
    while (!over() && Clock::now() < *last) static_cast<void>(socket.wait(lock, last, over));
  }
  if (!operations.drained()) {
    // The peer takes nothing, or has gone. As TCP resets what it cannot deliver.
    memory.lane_.abort();
    socket.abortive_ = true;
  }
  operations.fail_all(EBADF);
  memory.release_regions();
  memory.show_completions();
  socket.notify();
}

void Socket::advance_memory() {
  if (lane_ != nullptr && state_ == State::Connected) memory_->advance(stream());
}

bool Socket::memory_sends_wait() const {
  return memory_ != nullptr && memory_->sends_wait();
}

void Socket::end_memory() {
  SocketMemory::end(*this);
}

}  // namespace weft::sockets
