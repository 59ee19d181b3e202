// Reads classic pcap files and puts TCP streams back together.
#include "tests/support/pcap.h"

#include <array>
#include <fstream>
#include <iterator>
#include <utility>

namespace weft::test {
namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::uint32_t kPcapMagic = 0xa1b2c3d4;
constexpr std::uint32_t kLinkEthernet = 1;
constexpr std::size_t kFileHeaderOctets = 24;
constexpr std::size_t kRecordHeaderOctets = 16;
constexpr std::size_t kEthernetOctets = 14;

std::uint32_t le32(const Bytes& b, std::size_t at) {
  return b[at] | b[at + 1] << 8 | b[at + 2] << 16 | static_cast<std::uint32_t>(b[at + 3]) << 24;
}
std::uint32_t be16(const Bytes& b, std::size_t at) {
  return static_cast<std::uint32_t>(b[at] << 8 | b[at + 1]);
}
std::uint32_t be32(const Bytes& b, std::size_t at) { return be16(b, at) << 16 | be16(b, at + 2); }

/// Address and port of both ends, source first.
using Ends = std::array<std::uint32_t, 4>;

struct Segment {
  Ends ends{};
  std::uint32_t sequence = 0;
  bool syn = false, ack = false, fin = false;
  Bytes payload;
};

std::optional<Segment> parse_frame(const Bytes& f) {
  const std::size_t ip = kEthernetOctets;
  if (f.size() < ip + 20 || be16(f, 12) != 0x0800 || f[ip] >> 4 != 4 || f[ip + 9] != 6) return {};
  const std::size_t tcp = ip + (f[ip] & 15) * 4u;
  const std::size_t end = ip + be16(f, ip + 2);  // less than the frame when Ethernet padded it
  if (f.size() < end || end < tcp + 20) return {};
  const std::size_t payload = tcp + (f[tcp + 12] >> 4) * 4u;
  if (payload > end) return {};
  Segment s;
  s.ends = {be32(f, ip + 12), be16(f, tcp), be32(f, ip + 16), be16(f, tcp + 2)};
  s.sequence = be32(f, tcp + 4);
  s.fin = (f[tcp + 13] & 1) != 0;
  s.syn = (f[tcp + 13] & 2) != 0;
  s.ack = (f[tcp + 13] & 16) != 0;
  s.payload.assign(f.begin() + static_cast<std::ptrdiff_t>(payload),
                   f.begin() + static_cast<std::ptrdiff_t>(end));
  return s;
}

/// Puts segments in order by their distance from the SYN, which also holds across a wrap.
class Reassembly {
 public:
  explicit Reassembly(std::uint32_t syn_sequence) : first_(syn_sequence + 1) {}

  void add(const Segment& s) {
    const std::uint32_t at = s.sequence + (s.syn ? 1 : 0) - first_;
    if (at >= 0x80000000u) return;  // a keep-alive in front of the stream
    if (s.fin) end_ = at + s.payload.size();
    if (s.payload.empty()) return;
    Bytes& kept = segments_[at];
    if (s.payload.size() > kept.size()) kept = s.payload;
  }
  TCPStream finish() const {
    TCPStream stream;
    for (const auto& [at, payload] : segments_) {
      const std::size_t have = stream.octets.size();
      stream.gap = at > have;
      if (stream.gap) break;
      if (at + payload.size() <= have) continue;
      stream.octets.insert(stream.octets.end(),
                           payload.begin() + static_cast<std::ptrdiff_t>(have - at), payload.end());
    }
    stream.complete = end_ && *end_ == stream.octets.size();
    return stream;
  }

 private:
  std::uint32_t first_;
  std::map<std::size_t, Bytes> segments_;
  std::optional<std::size_t> end_;
};

struct Halves {
  Ends client;
  std::optional<Reassembly> from_client, from_server;
};

void add_segment(std::vector<Halves>& connections, const Segment& s) {
  const Ends reversed = {s.ends[2], s.ends[3], s.ends[0], s.ends[1]};
  if (s.syn && !s.ack) {
    for (const Halves& c : connections) {
      if (c.client == s.ends) return;  // a repeated SYN
    }
    connections.push_back({s.ends, Reassembly(s.sequence), std::nullopt});
    return;
  }
  for (Halves& c : connections) {
    if (c.client == s.ends) return c.from_client->add(s);
    if (c.client != reversed) continue;
    if (s.syn && !c.from_server) c.from_server.emplace(s.sequence);
    if (c.from_server) c.from_server->add(s);
    return;
  }
}

}  // namespace

std::optional<std::vector<TCPConnection>> read_connections(const std::string& path,
                                                           std::string& error) {
  std::ifstream in(path, std::ios::binary);
  const Bytes file{std::istreambuf_iterator<char>(in), {}};
  if (!in && file.empty()) {
    error = path + ": cannot be read";
    return std::nullopt;
  }
  if (file.size() < kFileHeaderOctets || le32(file, 0) != kPcapMagic ||
      le32(file, 20) != kLinkEthernet) {
    error = path + ": not a little-endian pcap file with Ethernet frames";
    return std::nullopt;
  }
  std::vector<Halves> halves;
  for (std::size_t at = kFileHeaderOctets; at < file.size();) {
    if (file.size() - at < kRecordHeaderOctets) {
      error = path + ": ends inside a record";
      return std::nullopt;
    }
    const std::size_t octets = le32(file, at + 8);
    at += kRecordHeaderOctets;
    if (octets > file.size() - at) {
      error = path + ": ends inside a record";
      return std::nullopt;
    }
    const Bytes frame(file.begin() + static_cast<std::ptrdiff_t>(at),
                      file.begin() + static_cast<std::ptrdiff_t>(at + octets));
    at += octets;
    if (const auto segment = parse_frame(frame)) add_segment(halves, *segment);
  }
  std::vector<TCPConnection> connections;
  for (const Halves& h : halves) {
    TCPConnection connection;
    connection.from_client = h.from_client->finish();
    if (h.from_server) connection.from_server = h.from_server->finish();
    connections.push_back(std::move(connection));
  }
  return connections;
}

}  // namespace weft::test
