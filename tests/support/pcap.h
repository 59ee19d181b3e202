// Captured TCP connections as the two octet streams they carried. Test code: reads what the
// repository's own captures contain (classic pcap, Ethernet, IPv4, TCP), and says so if a file
// holds something else.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace weft::test {

/// One direction of one connection.
struct TCPStream {
  std::vector<std::uint8_t> octets;  ///< in order, without repetitions, up to the first gap
  bool complete = false;             ///< a FIN followed the last octet
  bool gap = false;                  ///< later octets were captured, but not the ones between
};

struct TCPConnection {
  TCPStream from_client;  ///< of the end that sent the SYN
  TCPStream from_server;
};

/// The connections of the file whose SYN was captured, in order of appearance.
/// Empty if the file cannot be read; `error` then says why.
std::optional<std::vector<TCPConnection>> read_connections(const std::string& path,
                                                           std::string& error);

}  // namespace weft::test
