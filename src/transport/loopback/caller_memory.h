// Copying to and from memory that its owner may have unmapped.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <span>

namespace weft::transport {

enum class CopyDirection { FromCaller, ToCaller };

/// Copies between `own` (mapped for certain) and `pieces` (the caller's), both taken as one run of
/// octets, as many as both hold.
///
/// guarded   asks the kernel to copy, which survives unmapped memory at the price of a system call;
///           without it an unmapped piece is a SIGSEGV.
/// returns   octets copied from the front; fewer than possible when a piece is not mapped.
/// threads   pure.
std::size_t copy_caller_memory(CopyDirection, std::span<const iovec> pieces,
                               std::span<const iovec> own, bool guarded);

}  // namespace weft::transport
