// By getaddrinfo, which knows scopes such as fe80::1%eth0 too.
#include "measure/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cstring>

#include "measure/basics.h"

namespace weft::measure {

Address parse_address(const std::string& text, std::uint16_t port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  const auto service = std::to_string(port);
  if (::getaddrinfo(text.c_str(), service.c_str(), &hints, &found) != 0) {
    fail("{} is not a numeric IPv4 or IPv6 address", text);
  }
  Address address;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.length = found->ai_addrlen;
  ::freeaddrinfo(found);
  return address;
}

std::uint16_t port_of(const Address& address) {
  // The port lies at the same place in both families.
  return ntohs(reinterpret_cast<const sockaddr_in&>(address.storage).sin_port);
}

}  // namespace weft::measure
