// Octets of a peer that says what it likes, in good FPDUs.
#pragma once

#include <optional>

#include "core/qp/testing/end.h"
#include "wire/fpdu.h"

namespace weft::core::testing {

/// One FPDU around `ulpdu`, without markers.
Bytes fpdu(const Bytes& ulpdu);
/// The ULPDUs of octets that our side sent; the CRCs are checked.
std::vector<Bytes> ulpdus(Octets octets);
/// A list of one, to compare with.
std::vector<Bytes> only(const Bytes& ulpdu);

Bytes ulpdu(const wire::DDPHeader& header, const Bytes& payload);
Bytes tagged(wire::Opcode opcode, STag stag, std::uint64_t to, const Bytes& payload = {},
             bool last = true);
Bytes untagged(wire::Opcode opcode, std::uint32_t qn, std::uint32_t msn, std::uint32_t mo,
               const Bytes& payload = {}, bool last = true, STag invalidate = {});
Bytes send(std::uint32_t msn, const Bytes& payload = {}, std::uint32_t mo = 0, bool last = true);
Bytes read_request(std::uint32_t msn, const wire::ReadRequest& request);
Bytes immediate(std::uint32_t msn, std::uint64_t value,
                wire::Opcode opcode = wire::Opcode::Immediate);
Bytes atomic_request(std::uint32_t msn, const wire::AtomicRequest& request);
Bytes atomic_response(std::uint32_t msn, std::uint32_t id, std::uint64_t original);
/// A Terminate as RFC 5040 §4.8 wants it: `about` empty for no headers; `read_request` quotes the
/// octets behind the DDP header too.
Bytes terminate(std::uint16_t error, const Bytes& about = {}, bool read_request = false);

}  // namespace weft::core::testing
