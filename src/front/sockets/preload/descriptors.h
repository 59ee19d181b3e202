// What a number led to that leads to something else now.
#pragma once

#include <atomic>

#include "front/sockets/calls.h"
#include "front/sockets/preload/candidate.h"
#include "front/sockets/preload/number_sets.h"

namespace weft::sockets {

/// The number is about to lead to something else, or nowhere: what was there loses it.
void vacate(int fd);

/// The tables are there, which an allocator that calls while it is made must not ask for.
inline constinit std::atomic<bool> has_tables{false};

/// A number that libc gave the program just now, or -1; returns it. What the tables still have
/// under it was closed by who enters the kernel by himself (a part of libc, io_uring), unseen: it
/// goes now, else what the program writes to a file would be sent to a peer.
inline int fresh(int fd) {
  if (!has_tables.load(std::memory_order_relaxed)) return fd;
  if (hidden_numbers.has(fd)) hidden_numbers.unmark(fd);
  if (sockets().has(fd) || candidates().has(fd)) vacate(fd);
  return fd;
}

}  // namespace weft::sockets
