// Test-only: a responder with memory of its own, and a peer that sends it FPDUs as it is told.
#pragma once

#include <sys/mman.h>

#include <vector>

#include "base/byte_order.h"
#include "base/crc32c.h"
#include "engine/testing/raw_peer.h"
#include "engine/testing/side.h"
#include "wire/ddp.h"
#include "wire/fpdu.h"
#include "wire/rdmap.h"

namespace weft::engine::testing {

using Bytes = std::vector<std::uint8_t>;
inline constexpr std::size_t kPayload = 60'000;
inline constexpr std::size_t kSendHeader = wire::kUlpduLengthOctets + wire::kUntaggedHeaderOctets;

inline Bytes fpdu(const wire::DDPHeader& header, const Bytes& payload) {
  const std::size_t ulpdu = header.octets() + payload.size();
  Bytes octets(wire::kUlpduLengthOctets + header.octets());
  store_be16(octets.data(), static_cast<std::uint16_t>(ulpdu));
  header.encode(MutableOctets(octets).subspan(wire::kUlpduLengthOctets));
  octets.insert(octets.end(), payload.begin(), payload.end());
  octets.resize(octets.size() + wire::pad_octets(ulpdu));
  const std::uint32_t crc = crc32c_finish(crc32c_extend(kCRC32CStart, octets));
  octets.resize(octets.size() + wire::kCRCOctets);
  store_crc(octets.data() + octets.size() - wire::kCRCOctets, crc);
  return octets;
}

inline Bytes payload_of(std::size_t octets) {
  Bytes payload(octets);
  for (std::size_t i = 0; i < octets; ++i) payload[i] = static_cast<std::uint8_t>(1 + i % 251);
  return payload;
}

inline Bytes send_of(const Bytes& payload, std::uint32_t msn = 1, std::uint32_t mo = 0,
                     bool last = true) {
  wire::DDPHeader header;
  header.last = last;
  header.rdmap_control = wire::rdmap_control(wire::Opcode::Send);
  header.msn = {msn};
  header.mo = mo;
  return fpdu(header, payload);
}

/// What a peer placed, seen as a program sees a Write: without anything that orders the two.
[[gnu::noinline, gnu::no_sanitize("thread")]] inline std::uint8_t look_at(
    const std::uint8_t* octet) {
  return *octet;
}

/// A responder with one receive of mapped memory, and an initiator that sends what it is told.
class LandingTest : public PairTest {
 protected:
  void SetUp() override {
    server = std::make_unique<Side>(make_settings(), transport());
    listen();
    memory = static_cast<std::uint8_t*>(
        ::mmap(nullptr, kMapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(memory, MAP_FAILED);
    stag = server->register_octets(memory, kMapped, device::kLocalWrite | device::kRemoteWrite);
    qp = server->make_qp();
    ASSERT_TRUE(peer.connect(server_address));
    wire::StartupFrame request = plain_request();
    request.crc = make_settings().crc;
    ASSERT_TRUE(peer.send(request));
    const auto requested = server->wait_event();
    ASSERT_TRUE(requested.has_value());
    ASSERT_TRUE(
        server->rnic
            .accept(requested->event.connection,
                    {.qp = qp.face.number, .ird = 4, .ord = 4, .private_data = {}}, 22)
            .ok());
    const auto established = server->wait_event();
    ASSERT_TRUE(established.has_value());
    ASSERT_EQ(established->event.kind, device::ConnectionEventKind::Established);
  }
  /// Null: kernel TCP as it is.
  virtual transport::Transport* transport() { return nullptr; }
  void TearDown() override {
    server.reset();
    if (!unmapped) ::munmap(memory, kMapped);
  }

  void give(const Bytes& octets, std::size_t from, std::size_t to) {
    while (from < to) {
      const ssize_t n = ::send(peer.fd(), octets.data() + from, to - from, MSG_NOSIGNAL);
      ASSERT_GT(n, 0);
      from += static_cast<std::size_t>(n);
      server->progress();
    }
  }
  void give(const Bytes& octets) { give(octets, 0, octets.size()); }
  /// Half of a Send of kPayload octets. Its beginning is staged, so that there is a rest to land.
  void give_half(const Bytes& octets) {
    give(octets, 0, 100);
    settle();
    give(octets, 100, kMiddle);
    EXPECT_TRUE(wait_octet(kPayload / 2 - 1, payload_of(kPayload)[kPayload / 2 - 1]));
  }
  /// Waits until this octet of the memory is what it is to be.
  bool wait_octet(std::size_t at, std::uint8_t value) {
    return server->wait_until([&] {
      server->progress();
      return look_at(memory + at) == value;
    });
  }
  /// Lets the server take what was given so far, without a sign that it did.
  void settle() {
    for (int i = 0; i < 20; ++i) {
      server->progress();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  void expect_completion(device::CompletionStatus status, std::size_t octets = 0) {
    const auto completion = server->wait_completion();
    ASSERT_TRUE(completion.has_value());
    EXPECT_EQ(completion->status, status);
    if (status == device::CompletionStatus::Success) {
      EXPECT_EQ(completion->octets, octets);
    }
  }

  static constexpr std::size_t kMapped = 256 * 1024;
  static constexpr std::size_t kMiddle = kSendHeader + kPayload / 2;
  std::uint8_t* memory = nullptr;
  bool unmapped = false;
  std::uint32_t stag = 0;
  QPHandle qp;
  RawPeer peer;
};

}  // namespace weft::engine::testing
