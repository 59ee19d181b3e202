// Addresses: copying them in, comparing hosts, and writing them for people.
#include "transport/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>

namespace weft::transport {
namespace {

// The storage is read through copies: a sockaddr_storage may not be read as a sockaddr_in.
template <typename T>
T read_as(const sockaddr_storage& storage) {
  T value;
  std::memcpy(&value, &storage, sizeof value);
  return value;
}

/// A host as an IPv6 address, IPv4 in its mapped form: one form to compare.
struct Host {
  std::array<std::uint8_t, 16> octets = {};
  std::uint32_t scope = 0;

  bool is_mapped() const {
    constexpr std::array<std::uint8_t, 12> kPrefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return std::equal(kPrefix.begin(), kPrefix.end(), octets.begin());
  }
};

Host host_of(const sockaddr_storage& storage) {
  Host host;
  if (storage.ss_family == AF_INET) {
    const auto v4 = read_as<sockaddr_in>(storage);
    host.octets[10] = host.octets[11] = 0xff;
    std::memcpy(&host.octets[12], &v4.sin_addr, 4);
  } else if (storage.ss_family == AF_INET6) {
    const auto v6 = read_as<sockaddr_in6>(storage);
    std::memcpy(host.octets.data(), &v6.sin6_addr, 16);
    host.scope = v6.sin6_scope_id;
  }
  return host;
}

}  // namespace

Address::Address(const sockaddr* from) : storage_{} {
  if (from == nullptr) {
    return;
  }
  sa_family_t family;
  std::memcpy(&family, &from->sa_family, sizeof family);
  if (family == AF_INET) {
    std::memcpy(&storage_, from, sizeof(sockaddr_in));
  } else if (family == AF_INET6) {
    std::memcpy(&storage_, from, sizeof(sockaddr_in6));
  }
}

std::uint16_t Address::port() const {
  switch (family()) {
    case AF_INET:
      return ntohs(read_as<sockaddr_in>(storage_).sin_port);
    case AF_INET6:
      return ntohs(read_as<sockaddr_in6>(storage_).sin6_port);
    default:
      return 0;
  }
}

void Address::set_port(std::uint16_t port) {
  // sin_port and sin6_port lie at the same offset.
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
  if (length() == 0) {
    return;
  }
  const std::uint16_t wire = htons(port);
  std::memcpy(reinterpret_cast<std::uint8_t*>(&storage_) + offsetof(sockaddr_in, sin_port), &wire,
              sizeof wire);
}

bool Address::is_any() const {
  if (family() != AF_INET && family() != AF_INET6) {
    return true;
  }
  const Host host = host_of(storage_);
  const auto first = host.octets.begin() + (host.is_mapped() ? 12 : 0);
  return std::all_of(first, host.octets.end(), [](std::uint8_t octet) { return octet == 0; });
}

bool Address::is_loopback() const {
  const Host host = host_of(storage_);
  if (host.is_mapped()) {
    return host.octets[12] == 127;
  }
  return family() == AF_INET6 && host.octets[15] == 1 &&
         std::all_of(host.octets.begin(), host.octets.end() - 1,
                     [](std::uint8_t octet) { return octet == 0; });
}

socklen_t Address::length() const {
  switch (family()) {
    case AF_INET:
      return sizeof(sockaddr_in);
    case AF_INET6:
      return sizeof(sockaddr_in6);
    default:
      return 0;
  }
}

bool Address::same_host(const Address& other) const {
  if (length() == 0 || other.length() == 0) {
    return length() == other.length();
  }
  const Host mine = host_of(storage_);
  const Host theirs = host_of(other.storage_);
  // A scope of 0 means "not said": a link-local address copied from a program often lacks it.
  const bool scopes_agree = mine.scope == theirs.scope || mine.scope == 0 || theirs.scope == 0;
  return mine.octets == theirs.octets && scopes_agree;
}

bool Address::is_before(const Address& other) const {
  return host_of(storage_).octets < host_of(other.storage_).octets;
}

std::array<char, 64> Address::text() const {
  std::array<char, 64> out = {};
  char host[INET6_ADDRSTRLEN] = {};
  if (family() == AF_INET) {
    const auto v4 = read_as<sockaddr_in>(storage_);
    inet_ntop(AF_INET, &v4.sin_addr, host, sizeof host);
    std::snprintf(out.data(), out.size(), "%.15s:%u", host, port());
  } else if (family() == AF_INET6) {
    const auto v6 = read_as<sockaddr_in6>(storage_);
    inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof host);
    if (v6.sin6_scope_id != 0) {
      std::snprintf(out.data(), out.size(), "[%.39s%%%u]:%u", host, v6.sin6_scope_id, port());
    } else {
      std::snprintf(out.data(), out.size(), "[%.45s]:%u", host, port());
    }
  } else {
    std::snprintf(out.data(), out.size(), "unspecified");
  }
  return out;
}

}  // namespace weft::transport
