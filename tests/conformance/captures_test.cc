// Every captured connection, by weft's decoder: both startup frames, then every FPDU of both
// directions, its DDP header and its RDMAP opcode. The octets come from an independent writer
// (a..f) and from Linux's software iWARP (siw-*).
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "core/mpa/deframer.h"
#include "core/mpa/startup.h"
#include "gtest/gtest.h"
#include "tests/support/pcap.h"
#include "wire/ddp.h"
#include "wire/startup_frame.h"

#ifndef WEFT_CAPTURES
#define WEFT_CAPTURES "tests/captures"
#endif

namespace weft {
namespace {

using core::Deframer;
using wire::StartupFrame;
using Bytes = std::vector<std::uint8_t>;

class PlainMover final : public core::Mover {
 public:
  std::uint32_t crc_extend(std::uint32_t state, Octets data) override {
    return crc32c_extend_portable(state, data);
  }
  bool crc_registered(std::uint32_t*, const std::uint8_t*, std::size_t) override { return false; }
  bool fetch(std::uint8_t*, const std::uint8_t*, std::size_t, std::uint32_t*,
             core::ReadBy) override {
    return false;
  }
  bool place(std::uint8_t*, Octets, std::uint32_t*) override { return false; }
  bool update(std::uint8_t*, const core::AtomicChange&, std::uint64_t*) override { return false; }
};

/// What is known about a capture: FPDUs from client and from server over all its connections. The
/// numbers were counted by other means. Every stream was cut at an FPDU boundary.
struct Expected {
  std::size_t connections;
  std::size_t from_client, from_server;
};

const std::map<std::string, Expected> kExpected = {
    {"a-rev1-crc.pcap", {1, 5, 4}},
    {"b-rev2-rtr-rfc7306.pcap", {1, 4, 5}},
    {"c-rev1-markers.pcap", {1, 7, 1}},
    {"d-rev1-nocrc.pcap", {1, 1, 0}},
    {"e-reject.pcap", {1, 0, 0}},
    {"f-markers-seq-wrap.pcap", {1, 4, 0}},
    {"siw-nvme-crc.pcap", {2, 37, 80}},
    {"siw-nvme.pcap", {2, 37, 80}},
    {"siw-read-bw.pcap", {2, 21, 76}},
    {"siw-rping-crc.pcap", {1, 9, 12}},
    {"siw-rping-p2p-read.pcap", {1, 10, 13}},
    {"siw-rping-p2p-write.pcap", {1, 10, 12}},
    {"siw-rping.pcap", {1, 9, 12}},
    {"siw-send-bw-mpa1-crc.pcap", {2, 71, 13}},
    {"siw-send-bw-mpa1.pcap", {2, 71, 13}},
    {"siw-send-bw.pcap", {2, 71, 13}},
    {"siw-write-bw-crc.pcap", {2, 76, 16}},
    {"siw-write-bw.pcap", {2, 76, 16}},
};

/// The startup frame at the front of a stream.
StartupFrame startup_frame(const Bytes& octets, wire::StartupKind kind) {
  const auto parsed = wire::parse_startup_frame(octets);
  const auto* frame = std::get_if<StartupFrame>(&parsed);
  EXPECT_NE(frame, nullptr);
  if (frame == nullptr) return {};
  EXPECT_EQ(frame->kind, kind);
  return *frame;
}

/// Runs what follows the startup frame through a deframer, offered in parts of random size.
/// Adds the number of FPDUs; `rest` gets what was left at the end.
std::size_t count_fpdus(Octets stream, bool markers, bool crc, std::uint64_t seed,
                        std::size_t& rest) {
  PlainMover mover;
  Deframer deframer(markers, crc, &mover);
  std::mt19937_64 random(seed);
  std::size_t count = 0;
  for (;;) {
    std::vector<Octets> parts;
    for (Octets left = stream; !left.empty();) {
      const std::size_t n = std::min<std::size_t>(1 + random() % 3000, left.size());
      parts.push_back(left.first(n));
      left = left.subspan(n);
      if (parts.size() == 64) {  // far more than one FPDU: do not cut up the whole stream each time
        parts.push_back(left);
        break;
      }
    }
    const auto result = deframer.next(OctetList{parts});
    if (const auto* error = std::get_if<wire::TermError>(&result)) {
      ADD_FAILURE() << "FPDU " << count << ": " << wire::text(*error);
      return count;
    }
    if (std::get_if<core::FPDUNeeds>(&result) != nullptr) {
      rest = stream.size();
      return count;
    }
    const auto& fpdu = *std::get_if<core::ArrivedFPDU>(&result);
    core::UlpduCursor ulpdu = fpdu.ulpdu;
    std::uint8_t octets[wire::kDDPHeaderOctetsMax];
    const MutableOctets head(octets, std::min(ulpdu.octets_left(), sizeof octets));
    ulpdu.copy(head);
    const auto header = wire::DDPHeader::parse(head);
    EXPECT_TRUE(header.has_value()) << "FPDU " << count;
    if (header) {
      EXPECT_EQ(header->version, wire::kDDPVersion);
      EXPECT_EQ(wire::rdmap_version(header->rdmap_control), wire::kRDMAPVersion);
      const wire::OpcodeTraits& row = wire::traits(header->rdmap_control);
      EXPECT_EQ(row.model, header->tagged ? wire::Model::Tagged : wire::Model::Untagged);
      if (!header->tagged) {
        EXPECT_EQ(row.queue, header->qn) << row.name;
      }
    }
    deframer.consume(fpdu.stream_octets);
    stream = stream.subspan(fpdu.stream_octets);
    ++count;
  }
}

struct Counted {
  std::size_t from_client = 0, from_server = 0;
  std::size_t rest = 0;
};

Counted count_connection(const test::TCPConnection& connection, std::uint64_t seed) {
  Counted counted;
  const Bytes& client = connection.from_client.octets;
  const Bytes& server = connection.from_server.octets;
  const StartupFrame request = startup_frame(client, wire::StartupKind::Request);
  const StartupFrame reply = startup_frame(server, wire::StartupKind::Reply);
  const bool crc = request.crc || reply.crc;
  if (reply.rejected) {
    EXPECT_EQ(client.size(), request.octets());
    EXPECT_EQ(server.size(), reply.octets());
    return counted;
  }
  std::size_t rest = 0;
  counted.from_client = count_fpdus(Octets(client).subspan(request.octets()), reply.markers, crc,
                                    seed, rest);
  counted.rest += rest;
  counted.from_server = count_fpdus(Octets(server).subspan(reply.octets()), request.markers, crc,
                                    seed + 1, rest);
  counted.rest += rest;
  return counted;
}

std::vector<std::filesystem::path> captures() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(WEFT_CAPTURES)) {
    if (entry.path().extension() == ".pcap") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<test::TCPConnection> connections_of(const std::filesystem::path& file) {
  std::string error;
  auto connections = test::read_connections(file.string(), error);
  EXPECT_TRUE(connections.has_value()) << error;
  return connections ? *connections : std::vector<test::TCPConnection>{};
}

TEST(Captures, NoneIsMissing) {
  std::set<std::string> names;
  for (const auto& file : captures()) names.insert(file.filename().string());
  EXPECT_EQ(names.size(), kExpected.size());
  for (const auto& [name, unused] : kExpected) EXPECT_EQ(names.count(name), 1u) << name;
}

//= MPA-04
//= MPA-07
//= MPA-10
//= MPA-12
//= MPA-16
//= MPA-24
//= CON-04
//= CON-05
//= ENH-03
TEST(Captures, EveryFPDUIsAccepted) {
  for (const auto& file : captures()) {
    SCOPED_TRACE(file.filename().string());
    const auto found = kExpected.find(file.filename().string());
    if (found == kExpected.end()) continue;  // NoneIsMissing tells
    const Expected& expected = found->second;
    const auto connections = connections_of(file);
    EXPECT_EQ(connections.size(), expected.connections);
    Counted total;
    for (const auto& connection : connections) {
      const Counted counted = count_connection(connection, 1);
      total.from_client += counted.from_client;
      total.from_server += counted.from_server;
      total.rest += counted.rest;
    }
    EXPECT_EQ(total.from_client, expected.from_client);
    EXPECT_EQ(total.from_server, expected.from_server);
    EXPECT_EQ(total.rest, 0u);
  }
}

//= CON-09
//= CON-12
//= CON-14
//= ENH-07
TEST(Captures, OurInitiatorTakesEveryReplyAsIfItHadSentTheRequest) {
  for (const auto& file : captures()) {
    SCOPED_TRACE(file.filename().string());
    for (const auto& connection : connections_of(file)) {
      const StartupFrame request =
          startup_frame(connection.from_client.octets, wire::StartupKind::Request);
      const StartupFrame reply =
          startup_frame(connection.from_server.octets, wire::StartupKind::Reply);
      core::StartupConfig config;
      config.revision = request.revision;
      config.crc = request.crc;
      config.markers = request.markers;
      if (request.enhanced) {
        config.ird = request.enhanced->ird;
        config.ord = request.enhanced->ord;
        config.peer_to_peer = request.enhanced->peer_to_peer;
        config.rtr_send = request.enhanced->rtr_send;
        config.rtr_write = request.enhanced->rtr_write;
        config.rtr_read = request.enhanced->rtr_read;
      }
      core::Startup startup(core::Role::Initiator, config, {});
      ASSERT_TRUE(startup.connect(request.private_data, {}).ok());
      const Octets sent = startup.poll_transmit();
      Bytes as_captured(connection.from_client.octets.begin(),
                        connection.from_client.octets.begin() +
                            static_cast<std::ptrdiff_t>(request.octets()));
      as_captured[16] &= 0xf0;  // siw uses a reserved bit
      EXPECT_EQ(Bytes(sent.begin(), sent.end()), as_captured);

      EXPECT_EQ(startup.handle_octets(connection.from_server.octets, {}), reply.octets());
      const auto event = startup.poll_event();
      ASSERT_TRUE(event.has_value());
      if (reply.rejected) {
        EXPECT_NE(std::get_if<core::StartupRejected>(&*event), nullptr);
        continue;
      }
      const auto* accepted = std::get_if<core::StartupAccepted>(&*event);
      ASSERT_NE(accepted, nullptr);
      EXPECT_FALSE(accepted->stream.terminate_with.has_value());
      EXPECT_EQ(accepted->stream.rtr != core::RTR::None, config.peer_to_peer);
    }
  }
}

// The reader itself: a damaged octet must not go unseen.
//= MPA-18
TEST(Captures, ADamagedFPDUIsNotAccepted) {
  auto connections = connections_of(std::filesystem::path(WEFT_CAPTURES) / "a-rev1-crc.pcap");
  ASSERT_EQ(connections.size(), 1u);
  EXPECT_TRUE(connections[0].from_client.complete);
  EXPECT_TRUE(connections[0].from_server.complete);
  Bytes octets = connections[0].from_client.octets;
  octets[24 + 30] ^= 1;
  PlainMover mover;
  Deframer deframer(false, true, &mover);
  const Octets part = Octets(octets).subspan(24);
  const auto result = deframer.next(OctetList{{&part, 1}});
  ASSERT_NE(std::get_if<wire::TermError>(&result), nullptr);
  EXPECT_EQ(*std::get_if<wire::TermError>(&result), wire::TermError::MPACRC);
}

}  // namespace
}  // namespace weft
