// Address attributes from what arrived: the answer's path, and a GID's Ethernet address.
#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "front/libibverbs/behind.h"
#include "front/libibverbs/export.h"

using weft::front::behind;
using weft::front::is_foreign;

namespace {

constexpr int kGidsMax = 256;  // sgid_index is one octet
constexpr std::size_t kIpv4HeaderOctets = 20;
constexpr std::size_t kIpv4HeaderOffset = sizeof(ibv_grh) - kIpv4HeaderOctets;
constexpr std::uint16_t kNoVlan = 0xffff;

/// The index of `gid` on the port, or -1 with errno.
int gid_index(ibv_context* context, std::uint8_t port, const ibv_gid& gid) {
  ibv_gid entry;
  for (int index = 0; index < kGidsMax; ++index) {
    if (ibv_query_gid(context, port, index, &entry) != 0) break;
    const bool in_use = std::any_of(std::begin(entry.raw), std::end(entry.raw),
                                    [](std::uint8_t octet) { return octet != 0; });
    if (in_use && std::memcmp(entry.raw, gid.raw, sizeof gid.raw) == 0) return index;
  }
  errno = ENOENT;
  return -1;
}

ibv_gid ipv4_mapped(const std::uint8_t* address) {
  ibv_gid gid{};
  gid.raw[10] = 0xff;
  gid.raw[11] = 0xff;
  std::memcpy(gid.raw + 12, address, 4);
  return gid;
}

/// Whether the octets are an IPv4 header without options whose checksum holds.
bool is_ipv4_header(const std::uint8_t* octets) {
  if (octets[0] != 0x45) return false;
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < kIpv4HeaderOctets; i += 2) {
    sum += static_cast<std::uint32_t>(octets[i] << 8 | octets[i + 1]);
  }
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return sum == 0xffff;
}

}  // namespace

/// The attributes with which to answer the sender of a datagram. `grh` is the first 40 octets of
/// the received buffer; it is read only if the completion says it is there. Returns 0, or -1 with
/// errno: ENOENT if the datagram was for none of our GIDs, EPROTONOSUPPORT if it holds no header.
WEFT_EXPORT int ibv_init_ah_from_wc(ibv_context* context, std::uint8_t port_num, ibv_wc* wc,
                                    ibv_grh* grh, ibv_ah_attr* ah_attr) {
  if (is_foreign(context)) {
    return behind().ibv_init_ah_from_wc(context, port_num, wc, grh, ah_attr);
  }
  std::memset(ah_attr, 0, sizeof *ah_attr);
  ah_attr->dlid = wc->slid;
  ah_attr->sl = wc->sl;
  ah_attr->src_path_bits = wc->dlid_path_bits;
  ah_attr->port_num = port_num;
  if ((wc->wc_flags & IBV_WC_GRH) == 0) return 0;

  std::uint8_t header[sizeof(ibv_grh)];
  std::memcpy(header, grh, sizeof header);
  ibv_gid local;
  // Over IPv4 the header fills the end of the 40 octets and what precedes it is left over from
  // whatever the buffer held, so it is IPv4 that has to be recognised first, and by its checksum.
  const std::uint8_t* ipv4 = header + kIpv4HeaderOffset;
  if (is_ipv4_header(ipv4)) {
    ah_attr->grh.dgid = ipv4_mapped(ipv4 + 12);
    local = ipv4_mapped(ipv4 + 16);
    ah_attr->grh.traffic_class = ipv4[1];
  } else if (header[0] >> 4 == 6) {
    std::memcpy(ah_attr->grh.dgid.raw, header + 8, 16);
    std::memcpy(local.raw, header + 24, 16);
    ah_attr->grh.traffic_class = static_cast<std::uint8_t>(header[0] << 4 | header[1] >> 4);
    ah_attr->grh.flow_label =
        static_cast<std::uint32_t>((header[1] & 0x0f) << 16 | header[2] << 8 | header[3]);
  } else {
    errno = EPROTONOSUPPORT;
    return -1;
  }
  const int index = gid_index(context, port_num, local);
  if (index < 0) return -1;
  ah_attr->is_global = 1;
  ah_attr->grh.sgid_index = static_cast<std::uint8_t>(index);
  ah_attr->grh.hop_limit = 0xff;  // ours to choose: the one that arrived is what was left of theirs
  return 0;
}

/// The Ethernet address a GID itself tells: a multicast group's, or that in a link-local interface
/// identifier (RFC 4291 appendix A). Returns 0, or -EOPNOTSUPP for any other GID: the kernel routes
/// what weft sends, so nothing here needs a neighbour's address. vid may be null.
WEFT_EXPORT int ibv_resolve_eth_l2_from_gid(ibv_context* context, ibv_ah_attr* attr,
                                            std::uint8_t eth_mac[ETHERNET_LL_SIZE],
                                            std::uint16_t* vid) {
  if (is_foreign(context)) {
    return behind().ibv_resolve_eth_l2_from_gid(context, attr, eth_mac, vid);
  }
  const std::uint8_t* gid = attr->grh.dgid.raw;
  const bool link_local = gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
  if (gid[0] == 0xff) {
    // RFC 2464 §7: 33-33 and the last four octets of the group.
    eth_mac[0] = eth_mac[1] = 0x33;
    std::memcpy(eth_mac + 2, gid + 12, 4);
  } else if (link_local && gid[11] == 0xff && gid[12] == 0xfe) {
    eth_mac[0] = gid[8] ^ 0x02;
    eth_mac[1] = gid[9];
    eth_mac[2] = gid[10];
    std::memcpy(eth_mac + 3, gid + 13, 3);
  } else {
    errno = EOPNOTSUPP;
    return -EOPNOTSUPP;
  }
  if (vid != nullptr) *vid = kNoVlan;
  return 0;
}
