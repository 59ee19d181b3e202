// How a refused memory access is told to the peer.
#pragma once

#include "core/memory/memory_table.h"
#include "wire/terminate.h"

namespace weft::core {

/// For the source of a Read (RFC 5040 fig. 9, remote protection errors).
constexpr wire::TermError read_fault(MemoryFault fault) {
  switch (fault) {
    case MemoryFault::InvalidSTag: return wire::TermError::RDMAPInvalidSTag;
    case MemoryFault::NotAssociated: return wire::TermError::RDMAPNotAssociated;
    case MemoryFault::Access: return wire::TermError::RDMAPAccess;
    case MemoryFault::Wrap: return wire::TermError::RDMAPTOWrap;
    case MemoryFault::Bounds: return wire::TermError::RDMAPBounds;
  }
  return wire::TermError::RDMAPProtectionUnspecified;
}

/// For a tagged segment that is to be placed (RFC 5041 §7.2). DDP knows no access rights: memory
/// that may not be written is no STag of this stream.
constexpr wire::TermError tagged_fault(MemoryFault fault) {
  switch (fault) {
    case MemoryFault::InvalidSTag:
    case MemoryFault::Access: return wire::TermError::DDPTaggedInvalidSTag;
    case MemoryFault::NotAssociated: return wire::TermError::DDPTaggedNotAssociated;
    case MemoryFault::Wrap: return wire::TermError::DDPTaggedTOWrap;
    case MemoryFault::Bounds: return wire::TermError::DDPTaggedBounds;
  }
  return wire::TermError::DDPTaggedInvalidSTag;
}

}  // namespace weft::core
