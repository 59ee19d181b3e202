// The GID and P_Key tables.
#include "front/libibverbs/gids.h"
#include "front/libibverbs/behind.h"

#include <endian.h>
#include <netinet/in.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "front/libibverbs/export.h"
#include "front/libibverbs/objects.h"
#include "verbs/device_factory.h"

namespace weft::front {
namespace {

constexpr std::uint32_t kPort = 1;
constexpr std::uint16_t kDefaultPkey = 0xffff;

ibv_gid mac_gid(const verbs::Interface& interface) {
  ibv_gid gid{};
  std::memcpy(gid.raw, interface.mac, sizeof interface.mac);
  const bool no_mac = std::all_of(std::begin(interface.mac), std::end(interface.mac),
                                  [](std::uint8_t octet) { return octet == 0; });
  if (no_mac) {  // loopback: a GID of zeros would mean that there is none
    gid.raw[0] = 0x02;
    gid.raw[4] = static_cast<std::uint8_t>(interface.index >> 8);
    gid.raw[5] = static_cast<std::uint8_t>(interface.index);
  }
  return gid;
}

ibv_gid address_gid(const sockaddr_storage& address) {
  ibv_gid gid{};
  if (address.ss_family == AF_INET) {
    gid.raw[10] = gid.raw[11] = 0xff;
    std::memcpy(gid.raw + 12, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, 4);
  } else {
    std::memcpy(gid.raw, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, 16);
  }
  return gid;
}

/// A GID table entry as the extended queries give it.
ibv_gid_entry to_entry(ibv_context* context, const ibv_gid& gid, std::uint32_t index) {
  const auto* interface = to_device_object(context)->interface();
  ibv_gid_entry entry = {};
  entry.gid = gid;
  entry.gid_index = index;
  entry.port_num = kPort;
  // What iWARP devices say is IB: the other types are RoCE's.
  const bool ib = verbs::persona() == verbs::Persona::IB;
  entry.gid_type = ib ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_IB;
  entry.ndev_ifindex = interface != nullptr ? interface->index : 0;
  return entry;
}

}  // namespace

std::vector<ibv_gid> gid_table(ibv_context* context) {
  std::vector<ibv_gid> table;
  const auto* interface = to_device_object(context)->interface();
  if (interface == nullptr) return table;
  if (verbs::persona() == verbs::Persona::IWarp) table.push_back(mac_gid(*interface));
  auto& runtime = verbs::ProcessRuntime::instance();
  for (const auto& address : runtime.addresses(interface->index)) {
    table.push_back(address_gid(address.address));
  }
  return table;
}

int gid_table_length(std::size_t count) {
  constexpr std::size_t kLeast = 16;
  return static_cast<int>(std::max(kLeast, std::bit_ceil(count + 1)));
}

bool address_of_gid(ibv_context* context, const ibv_gid& gid, sockaddr_storage* address) {
  in6_addr six;
  std::memcpy(&six, gid.raw, sizeof six);
  *address = {};
  if (IN6_IS_ADDR_UNSPECIFIED(&six) || IN6_IS_ADDR_MULTICAST(&six)) return false;
  if (IN6_IS_ADDR_V4MAPPED(&six)) {
    auto& four = reinterpret_cast<sockaddr_in&>(*address);
    four.sin_family = AF_INET;
    std::memcpy(&four.sin_addr, gid.raw + 12, sizeof four.sin_addr);
    return true;
  }
  auto& full = reinterpret_cast<sockaddr_in6&>(*address);
  full.sin6_family = AF_INET6;
  full.sin6_addr = six;
  const auto* interface = to_device_object(context)->interface();
  if (IN6_IS_ADDR_LINKLOCAL(&six) && interface != nullptr) full.sin6_scope_id = interface->index;
  return true;
}

}  // namespace weft::front

using namespace weft::front;

WEFT_VERB(int, query_gid,
          (ibv_context * context, std::uint8_t port_num, int index, ibv_gid* gid)) {
  if (is_foreign(context)) return behind().ibv_query_gid(context, port_num, index, gid);
  const auto table = gid_table(context);
  if (port_num != kPort || index < 0 || index >= gid_table_length(table.size())) {
    errno = EINVAL;
    return -1;
  }
  const auto at = static_cast<std::size_t>(index);
  *gid = at < table.size() ? table[at] : ibv_gid{};
  return 0;
}

/// ENODATA: an index that is not in use, for which the plain query gives a GID of zeros.
WEFT_EXPORT int _ibv_query_gid_ex(ibv_context* context, std::uint32_t port_num,
                                  std::uint32_t gid_index, ibv_gid_entry* entry,
                                  std::uint32_t flags, std::size_t entry_size) {
  if (is_foreign(context)) {
    return behind()._ibv_query_gid_ex(context, port_num, gid_index, entry, flags, entry_size);
  }
  if (port_num != kPort || flags != 0 || entry_size < sizeof *entry) return fail(EINVAL);
  const auto table = gid_table(context);
  if (gid_index >= table.size()) return fail(ENODATA);
  std::memset(entry, 0, entry_size);
  *entry = to_entry(context, table[gid_index], gid_index);
  return 0;
}

/// Returns the number of entries, or -errno: EINVAL when they do not fit, too.
WEFT_EXPORT ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries,
                                         std::size_t max_entries, std::uint32_t flags,
                                         std::size_t entry_size) {
  if (is_foreign(context)) {
    return behind()._ibv_query_gid_table(context, entries, max_entries, flags, entry_size);
  }
  if (flags != 0 || entry_size < sizeof *entries) return -fail(EINVAL);
  const auto table = gid_table(context);
  if (table.size() > max_entries) return -fail(EINVAL);
  auto* octets = reinterpret_cast<std::uint8_t*>(entries);
  for (std::uint32_t i = 0; i < table.size(); ++i, octets += entry_size) {
    const ibv_gid_entry entry = to_entry(context, table[i], i);
    std::memset(octets, 0, entry_size);
    std::memcpy(octets, &entry, sizeof entry);
  }
  return static_cast<ssize_t>(table.size());
}

/// Private, yet imported by programs: the type as sysfs names it. 0 is "IB/RoCE v1", which is what
/// every device says that is not RoCE v2, and of an index that is not in use; 1 is that.
WEFT_EXPORT int ibv_query_gid_type(ibv_context* context, std::uint8_t port_num, unsigned index,
                                   int* type) {
  if (is_foreign(context)) return behind().ibv_query_gid_type(context, port_num, index, type);
  const std::size_t count = gid_table(context).size();
  if (port_num != kPort || index >= static_cast<unsigned>(gid_table_length(count))) {
    errno = EINVAL;
    return -1;
  }
  *type = weft::verbs::persona() == weft::verbs::Persona::IB && index < count ? 1 : 0;
  return 0;
}

WEFT_VERB(int, query_pkey,
          (ibv_context * context, std::uint8_t port_num, int index, __be16* pkey)) {
  if (is_foreign(context)) return behind().ibv_query_pkey(context, port_num, index, pkey);
  if (port_num != kPort || index != 0) {
    errno = EINVAL;
    return -1;
  }
  *pkey = htobe16(kDefaultPkey);
  return 0;
}

WEFT_EXPORT int ibv_get_pkey_index(ibv_context* context, std::uint8_t port_num, __be16 pkey) {
  if (is_foreign(context)) return behind().ibv_get_pkey_index(context, port_num, pkey);
  if (port_num != kPort || be16toh(pkey) != kDefaultPkey) {
    errno = EINVAL;
    return -1;
  }
  return 0;
}
