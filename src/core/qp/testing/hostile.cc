// How such a peer's octets are made.
#include "core/qp/testing/hostile.h"

#include "wire/fpdu.h"

namespace weft::core::testing {

namespace {
template <typename Header>
Bytes encoded(const Header& header) {
  Bytes out(Header::kOctets);
  header.encode(out);
  return out;
}
}  // namespace

Bytes fpdu(const Bytes& ulpdu) {
  Bytes out(2);
  store_be16(out.data(), static_cast<std::uint16_t>(ulpdu.size()));
  out.insert(out.end(), ulpdu.begin(), ulpdu.end());
  out.resize(out.size() + wire::pad_octets(ulpdu.size()));
  const std::uint32_t crc = crc32c_finish(crc32c_extend_portable(kCRC32CStart, out));
  out.resize(out.size() + 4);
  store_crc(out.data() + out.size() - 4, crc);
  return out;
}

std::vector<Bytes> ulpdus(Octets octets) {
  std::vector<Bytes> out;
  while (octets.size() >= 2) {
    const std::size_t length = load_be16(octets.data());
    const std::size_t whole = wire::fpdu_octets(length);
    if (whole > octets.size()) break;
    const Octets inner = octets.subspan(2, length), outer = octets.first(whole);
    const Bytes ulpdu(inner.begin(), inner.end());
    EXPECT_EQ(fpdu(ulpdu), Bytes(outer.begin(), outer.end()));
    out.push_back(ulpdu);
    octets = octets.subspan(whole);
  }
  EXPECT_TRUE(octets.empty()) << "trailing octets";
  return out;
}

std::vector<Bytes> only(const Bytes& ulpdu) { return std::vector<Bytes>(1, ulpdu); }

Bytes ulpdu(const wire::DDPHeader& header, const Bytes& payload) {
  Bytes out(header.octets());
  header.encode(out);
  out.insert(out.end(), payload.begin(), payload.end());
  return out;
}

Bytes tagged(wire::Opcode opcode, STag stag, std::uint64_t to, const Bytes& payload, bool last) {
  wire::DDPHeader header;
  header.tagged = true;
  header.last = last;
  header.rdmap_control = wire::rdmap_control(opcode);
  header.stag = stag;
  header.to = to;
  return ulpdu(header, payload);
}

Bytes untagged(wire::Opcode opcode, std::uint32_t qn, std::uint32_t msn, std::uint32_t mo,
               const Bytes& payload, bool last, STag invalidate) {
  wire::DDPHeader header;
  header.last = last;
  header.rdmap_control = wire::rdmap_control(opcode);
  header.invalidate_stag = invalidate;
  header.qn = qn;
  header.msn = {msn};
  header.mo = mo;
  return ulpdu(header, payload);
}

Bytes send(std::uint32_t msn, const Bytes& payload, std::uint32_t mo, bool last) {
  return untagged(wire::Opcode::Send, 0, msn, mo, payload, last);
}

Bytes read_request(std::uint32_t msn, const wire::ReadRequest& request) {
  return untagged(wire::Opcode::ReadRequest, 1, msn, 0, encoded(request));
}

Bytes immediate(std::uint32_t msn, std::uint64_t value, wire::Opcode opcode) {
  return untagged(opcode, 0, msn, 0, encoded(wire::Immediate{value}));
}

Bytes atomic_request(std::uint32_t msn, const wire::AtomicRequest& request) {
  return untagged(wire::Opcode::AtomicRequest, 1, msn, 0, encoded(request));
}

Bytes atomic_response(std::uint32_t msn, std::uint32_t id, std::uint64_t original) {
  return untagged(wire::Opcode::AtomicResponse, 3, msn, 0,
                  encoded(wire::AtomicResponse{id, original}));
}

Bytes terminate(std::uint16_t error, const Bytes& about, bool read_request) {
  Bytes payload{static_cast<std::uint8_t>(error >> 8), static_cast<std::uint8_t>(error), 0, 0};
  if (!about.empty()) {
    payload[2] = read_request ? 0xe0 : 0xc0;
    payload.push_back(static_cast<std::uint8_t>(about.size() >> 8));
    payload.push_back(static_cast<std::uint8_t>(about.size()));
    const std::size_t ddp = about[0] & 0x80 ? 14 : 18;
    payload.insert(payload.end(), about.begin(),
                   about.begin() + static_cast<std::ptrdiff_t>(read_request ? ddp + 28 : ddp));
  }
  return untagged(wire::Opcode::Terminate, 2, 1, 0, payload);
}

}  // namespace weft::core::testing
