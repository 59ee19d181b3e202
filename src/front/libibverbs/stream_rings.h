// The rings of a stream that is sent and received by RDMA Writes, each octet once and in order.
//
// In libibverbs.so.1 at the version WEFT_PRIVATE_1, for the sockets code, which does without them
// on other verbs libraries.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

/// From now on what the peer of `qp` writes into `mr` may stay where the device received it, until
/// it is read or its room is needed; completions tell of it as ever. `count` is how many pieces
/// stay so; while that is not 0, the region's memory is read with weft_read_written alone. It
/// outlives both. False: it is not done (not weft's, a region that peers may read, no memory), and
/// `count` stays 0.
extern "C" bool weft_keep_writes(ibv_qp* qp, ibv_mr* mr, std::atomic<std::uint32_t>* count);

/// Copies `octets` that lie at `from` in that region, or will: those of which completions were
/// polled. Without `peek` they are not read again. False: all is in its place now, or `to` is no
/// memory of the program's; nothing, or a part, was copied.
extern "C" bool weft_read_written(ibv_qp* qp, void* to, const void* from, std::size_t octets,
                                  bool peek);

/// From now on weft_copy_summed() saves the device the CRC of what this QP's Writes send. False: it
/// does not (not weft's, no memory).
extern "C" bool weft_sum_sends(ibv_qp* qp);

/// Copies what one Write of `qp` will send from `to`, before that Write is posted; in the order of
/// the Writes, one thread at a time.
extern "C" void weft_copy_summed(ibv_qp* qp, void* to, const void* from, std::size_t octets);
