// weft devices: lists the RDMA devices of this machine, by the public verbs API alone.
#include "weft/devices.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <infiniband/verbs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "weft/output.h"

namespace weft::tools {
namespace {

struct Port {
  int number = 0;
  std::string state;
  std::uint32_t mtu_octets = 0;
  std::string interface;
  std::vector<std::string> gids;
  std::vector<std::string> addresses;
};

struct Device {
  std::string name;
  std::string transport;
  std::string guid;
  std::string fault;  ///< why it cannot be opened; empty if it can
  std::vector<Port> ports;
};

std::string transport_name(int transport) {
  switch (transport) {
    case IBV_TRANSPORT_IWARP:
      return "iWARP";
    case IBV_TRANSPORT_IB:
      return "InfiniBand";
    default:
      return "unknown";
  }
}

std::string state_name(ibv_port_state state) {
  switch (state) {
    case IBV_PORT_DOWN:
      return "down";
    case IBV_PORT_INIT:
      return "init";
    case IBV_PORT_ARMED:
      return "armed";
    case IBV_PORT_ACTIVE:
      return "active";
    default:
      return "unknown";
  }
}

std::string guid_text(__be64 guid) {
  std::uint8_t octets[8];
  std::memcpy(octets, &guid, sizeof octets);
  return fmt::format("{:02x}{:02x}:{:02x}{:02x}:{:02x}{:02x}:{:02x}{:02x}", octets[0], octets[1],
                     octets[2], octets[3], octets[4], octets[5], octets[6], octets[7]);
}

/// A GID in IPv6 notation, which is also how IP-mapped GIDs are written (::ffff:127.0.0.1).
std::string gid_text(const ibv_gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  ::inet_ntop(AF_INET6, gid.raw, text, sizeof text);
  return text;
}

void add_once(std::vector<std::string>& list, std::string text) {
  if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(std::move(text));
}

/// The IP addresses of a network interface, as the operating system has them now.
std::vector<std::string> interface_addresses(const std::string& interface) {
  std::vector<std::string> addresses;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return addresses;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || interface != entry->ifa_name) continue;
    char text[INET6_ADDRSTRLEN] = "";
    if (entry->ifa_addr->sa_family == AF_INET) {
      const auto* in = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
      ::inet_ntop(AF_INET, &in->sin_addr, text, sizeof text);
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      const auto* in6 = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr);
      ::inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof text);
    } else {
      continue;
    }
    add_once(addresses, text);
  }
  ::freeifaddrs(first);
  return addresses;
}

Port describe_port(ibv_context* context, std::uint8_t number) {
  Port port;
  port.number = number;
  ibv_port_attr attributes{};
  if (ibv_query_port(context, number, &attributes) != 0) {
    port.state = "cannot be queried";
    return port;
  }
  port.state = state_name(attributes.state);
  port.mtu_octets = 128u << attributes.active_mtu;
  for (int index = 0; index < attributes.gid_tbl_len; ++index) {
    // The extended query also tells the interface; older libraries know only the plain one.
    ibv_gid_entry entry{};
    ibv_gid gid{};
    if (ibv_query_gid_ex(context, number, static_cast<std::uint32_t>(index), &entry, 0) == 0) {
      gid = entry.gid;
      char interface[IF_NAMESIZE] = "";
      if (entry.ndev_ifindex != 0 && ::if_indextoname(entry.ndev_ifindex, interface) != nullptr) {
        port.interface = interface;
      }
    } else if (ibv_query_gid(context, number, index, &gid) != 0) {
      continue;
    }
    const bool empty = std::all_of(std::begin(gid.raw), std::end(gid.raw),
                                   [](std::uint8_t octet) { return octet == 0; });
    if (!empty) add_once(port.gids, gid_text(gid));
  }
  if (!port.interface.empty()) port.addresses = interface_addresses(port.interface);
  return port;
}

Device describe_device(ibv_device* device) {
  Device described;
  described.name = ibv_get_device_name(device);
  described.transport = transport_name(device->transport_type);
  described.guid = guid_text(ibv_get_device_guid(device));
  const std::unique_ptr<ibv_context, int (*)(ibv_context*)> context(ibv_open_device(device),
                                                                    ibv_close_device);
  if (!context) {
    described.fault = std::strerror(errno);
    return described;
  }
  ibv_device_attr attributes{};
  if (const int error = ibv_query_device(context.get(), &attributes); error != 0) {
    described.fault = std::strerror(error);
    return described;
  }
  for (int number = 1; number <= attributes.phys_port_cnt; ++number) {
    described.ports.push_back(describe_port(context.get(), static_cast<std::uint8_t>(number)));
  }
  return described;
}

std::string as_text(const std::vector<Device>& devices) {
  std::string text;
  const auto out = std::back_inserter(text);
  for (const Device& device : devices) {
    fmt::format_to(out, "{}  {}  guid {}\n", device.name, device.transport, device.guid);
    if (!device.fault.empty()) fmt::format_to(out, "  cannot be opened: {}\n", device.fault);
    for (const Port& port : device.ports) {
      fmt::format_to(out, "  port {}  {}  mtu {}{}{}\n", port.number, port.state, port.mtu_octets,
                     port.interface.empty() ? "" : "  interface ", port.interface);
      for (const auto& gid : port.gids) fmt::format_to(out, "    gid  {}\n", gid);
      for (const auto& address : port.addresses) fmt::format_to(out, "    ip   {}\n", address);
    }
  }
  return text;
}

std::string as_json(const std::vector<Device>& devices) {
  auto list = nlohmann::json::array();
  for (const Device& device : devices) {
    nlohmann::json entry = {{"name", device.name},
                            {"transport", device.transport},
                            {"guid", device.guid},
                            {"ports", nlohmann::json::array()}};
    if (!device.fault.empty()) entry["error"] = device.fault;
    for (const Port& port : device.ports) {
      entry["ports"].push_back({{"port", port.number},
                                {"state", port.state},
                                {"mtu_octets", port.mtu_octets},
                                {"interface", port.interface},
                                {"gids", port.gids},
                                {"addresses", port.addresses}});
    }
    list.push_back(std::move(entry));
  }
  return nlohmann::json{{"devices", std::move(list)}}.dump(2) + "\n";
}

}  // namespace

int list_devices(bool json) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list == nullptr) {
    const int error = errno;
    complain(fmt::format("the list of devices cannot be had: {}", std::strerror(error)));
    return 1;
  }
  std::vector<Device> devices;
  for (int index = 0; index < count; ++index) devices.push_back(describe_device(list[index]));
  ibv_free_device_list(list);
  const std::string text = json ? as_json(devices) : as_text(devices);
  if (!write_output("the list of devices", text)) return 1;
  if (devices.empty()) {
    complain(
        "no device: there is one for each network interface, up or down, that is Ethernet or "
        "loopback or has an IP address");
    return 1;
  }
  if (std::all_of(devices.begin(), devices.end(), [](const auto& d) { return !d.fault.empty(); })) {
    complain("none of these devices can be opened");
    return 1;
  }
  return 0;
}

}  // namespace weft::tools
