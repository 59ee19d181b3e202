// Copying to and from the caller's memory, plainly or by way of the kernel.
#include "transport/loopback/caller_memory.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "transport/tcp/syscalls.h"

namespace weft::transport {
namespace {

/// Walks a list of pieces as one run.
class Cursor {
 public:
  explicit Cursor(std::span<const iovec> pieces) : pieces_(pieces) { skip_empty(); }

  bool at_end() const { return pieces_.empty(); }
  std::uint8_t* data() const { return static_cast<std::uint8_t*>(pieces_[0].iov_base) + done_; }
  std::size_t octets() const { return pieces_[0].iov_len - done_; }
  void advance(std::size_t octets) {
    done_ += octets;
    skip_empty();
  }

 private:
  void skip_empty() {
    while (!pieces_.empty() && done_ == pieces_[0].iov_len) {
      pieces_ = pieces_.subspan(1);
      done_ = 0;
    }
  }

  std::span<const iovec> pieces_;
  std::size_t done_ = 0;
};

/// The kernel's copy between this process and itself; minus the errno when it refuses.
long copy_by_kernel(CopyDirection direction, std::uint8_t* caller, std::uint8_t* own,
                    std::size_t octets) {
  const iovec theirs = {caller, octets};
  const iovec ours = {own, octets};
  const long number =
      direction == CopyDirection::FromCaller ? SYS_process_vm_readv : SYS_process_vm_writev;
  return raw::call(number, ::getpid(), &ours, 1ul, &theirs, 1ul, 0ul);
}

std::size_t copy_run(CopyDirection direction, std::uint8_t* caller, std::uint8_t* own,
                     std::size_t octets, bool guarded) {
  if (guarded) {
    const long result = copy_by_kernel(direction, caller, own, octets);
    // A sandbox may forbid the call; then copying plainly is all that is left.
    if (result != -ENOSYS && result != -EPERM) {
      return result < 0 ? 0 : static_cast<std::size_t>(result);
    }
  }
  const bool from_caller = direction == CopyDirection::FromCaller;
  std::memcpy(from_caller ? own : caller, from_caller ? caller : own, octets);
  return octets;
}

}  // namespace

std::size_t copy_caller_memory(CopyDirection direction, std::span<const iovec> pieces,
                               std::span<const iovec> own, bool guarded) {
  Cursor theirs(pieces);
  Cursor ours(own);
  std::size_t total = 0;
  while (!theirs.at_end() && !ours.at_end()) {
    const std::size_t octets = std::min(theirs.octets(), ours.octets());
    const std::size_t copied = copy_run(direction, theirs.data(), ours.data(), octets, guarded);
    total += copied;
    if (copied < octets) {
      break;
    }
    theirs.advance(octets);
    ours.advance(octets);
  }
  return total;
}

}  // namespace weft::transport
