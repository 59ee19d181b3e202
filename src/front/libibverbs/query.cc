// What a device and its port say of themselves.
#include <endian.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <limits>

#include "front/libibverbs/behind.h"
#include "front/libibverbs/export.h"
#include "front/libibverbs/gids.h"
#include "front/libibverbs/objects.h"
#include "front/libibverbs/operations.h"
#include "verbs/device_factory.h"
#include "verbs/limits.h"

#undef ibv_query_port

namespace weft::front {
namespace {

constexpr std::uint32_t kVendorId = 0x776566;  // "wef": no vendor has it
constexpr std::uint32_t kVendorPartId = 0x74;  // "t"
constexpr std::uint64_t kNanosecondClockKhz = 1'000'000;
constexpr std::uint8_t kPort = 1;

/// Octets of ibv_port_attr that the exported symbol may write: what there was of it when programs
/// began to pass their own size to the operation instead.
constexpr std::size_t kOldPortAttributeOctets = offsetof(ibv_port_attr, port_cap_flags2);

void fill_device(const verbs::Interface& interface, ibv_device_attr* attr) {
  *attr = {};
  std::snprintf(attr->fw_ver, sizeof attr->fw_ver, "%s", WEFT_VERSION);
  attr->node_guid = htobe64(interface.guid);
  attr->sys_image_guid = attr->node_guid;
  attr->max_mr_size = std::numeric_limits<std::uint64_t>::max();
  attr->page_size_cap = 4096;
  attr->vendor_id = kVendorId;
  attr->vendor_part_id = kVendorPartId;
  attr->max_qp = verbs::kQPCountMax;
  attr->max_qp_wr = device::kQueueDepthMax;
  attr->device_cap_flags = IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_MEM_MGT_EXTENSIONS |
                           IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  attr->max_sge = device::kSGECountMax;
  attr->max_sge_rd = verbs::kReadSGECountMax;
  attr->max_cq = verbs::kCQCountMax;
  attr->max_cqe = device::kCQDepthMax;
  attr->max_mr = verbs::kRegionCountMax;
  attr->max_mw = verbs::kRegionCountMax;
  attr->max_pd = verbs::kPDCountMax;
  attr->max_qp_rd_atom = device::kReadDepthMax;
  attr->max_qp_init_rd_atom = device::kReadDepthMax;
  attr->max_res_rd_atom = verbs::kQPCountMax * device::kReadDepthMax;
  // Atomic operations are atomic instructions of the CPU that has the memory. Programs that know
  // InfiniBand alone (UCX) ask for the word that hardware says, and take no more for it.
  attr->atomic_cap = verbs::persona() == verbs::Persona::IB ? IBV_ATOMIC_HCA : IBV_ATOMIC_GLOB;
  attr->max_srq = verbs::kSRQCountMax;
  attr->max_srq_wr = device::kQueueDepthMax;
  attr->max_srq_sge = device::kSGECountMax;
  attr->max_pkeys = 1;
  attr->phys_port_cnt = 1;
}

/// The largest of InfiniBand's MTUs that fits the interface's.
ibv_mtu to_mtu(unsigned octets) {
  if (octets >= 4096) return IBV_MTU_4096;
  if (octets >= 2048) return IBV_MTU_2048;
  if (octets >= 1024) return IBV_MTU_1024;
  if (octets >= 512) return IBV_MTU_512;
  return IBV_MTU_256;
}

/// An Ethernet speed in InfiniBand's lanes and rates per lane, whose product comes nearest.
void fill_speed(std::uint32_t mbps, ibv_port_attr* attr) {
  constexpr std::uint8_t kWidth1X = 1, kWidth4X = 2;
  constexpr std::uint8_t kSDR = 1, kDDR = 2, kFDR10 = 8, kEDR = 32, kHDR = 64, kNDR = 128;
  struct Row {
    std::uint32_t mbps_max;
    std::uint8_t width, speed;
  };
  constexpr Row kRows[] = {
      {2'500, kWidth1X, kSDR},   {10'000, kWidth1X, kFDR10}, {20'000, kWidth4X, kDDR},
      {25'000, kWidth1X, kEDR},  {40'000, kWidth4X, kFDR10}, {50'000, kWidth1X, kHDR},
      {100'000, kWidth4X, kEDR}, {200'000, kWidth4X, kHDR},
  };
  const Row* row = std::find_if(std::begin(kRows), std::end(kRows),
                                [&](const Row& r) { return mbps <= r.mbps_max; });
  attr->active_width = row != std::end(kRows) ? row->width : kWidth4X;
  attr->active_speed = row != std::end(kRows) ? row->speed : kNDR;
}

void fill_port(ibv_context* context, const verbs::Interface& interface, ibv_port_attr* attr) {
  constexpr std::uint8_t kPhysicalDisabled = 3, kPhysicalLinkUp = 5;
  *attr = {};
  attr->state = interface.up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attr->max_mtu = IBV_MTU_4096;
  attr->active_mtu = to_mtu(interface.mtu);
  attr->gid_tbl_len = gid_table_length(gid_table(context).size());
  attr->port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_DEVICE_MGMT_SUP;
  attr->max_msg_sz = verbs::kMessageOctetsMax;
  attr->pkey_tbl_len = 1;
  attr->max_vl_num = 1;
  fill_speed(interface.speed_mbps, attr);
  attr->phys_state = interface.up ? kPhysicalLinkUp : kPhysicalDisabled;
  attr->link_layer = IBV_LINK_LAYER_ETHERNET;
  if (verbs::persona() == verbs::Persona::IB) {
    attr->port_cap_flags |= IBV_PORT_IP_BASED_GIDS;
    attr->flags = IBV_QPF_GRH_REQUIRED;
  }
}

/// The engine reads and writes through the process's own mappings: pages come as they are touched,
/// under every operation.
void fill_on_demand(ibv_device_attr_ex* attr) {
  attr->odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
  attr->odp_caps.per_transport_caps.rc_odp_caps =
      IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ |
      IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV;
}

/// Copies what fits of a struct that programs of other years know shorter or longer.
template <typename Struct>
void copy_sized(const Struct& full, void* target, std::size_t octets) {
  std::memcpy(target, &full, std::min(sizeof full, octets));
  if (octets > sizeof full) {
    std::memset(static_cast<std::uint8_t*>(target) + sizeof full, 0, octets - sizeof full);
  }
}

}  // namespace

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attr, std::size_t octets) {
  if (input != nullptr && input->comp_mask != 0) return fail(EINVAL);
  constexpr std::size_t kLeast =
      offsetof(ibv_device_attr_ex, comp_mask) + sizeof(ibv_device_attr_ex::comp_mask);
  if (octets < kLeast) return fail(EINVAL);
  const auto* interface = to_device_object(context)->interface();
  if (interface == nullptr) return fail(ENODEV);
  ibv_device_attr_ex full = {};
  fill_device(*interface, &full.orig_attr);
  full.completion_timestamp_mask = std::numeric_limits<std::uint64_t>::max();
  full.hca_core_clock = kNanosecondClockKhz;
  full.device_cap_flags_ex = full.orig_attr.device_cap_flags;
  full.phys_port_cnt_ex = 1;
  full.cq_mod_caps = {std::numeric_limits<std::uint16_t>::max(),
                      std::numeric_limits<std::uint16_t>::max()};
  fill_on_demand(&full);
  copy_sized(full, attr, octets);
  return 0;
}

int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr, std::size_t octets) {
  if (port != kPort) return fail(EINVAL);
  const auto* interface = to_device_object(context)->interface();
  if (interface == nullptr) return fail(ENODEV);
  ibv_port_attr full;
  fill_port(context, *interface, &full);
  copy_sized(full, attr, octets);
  return 0;
}

int query_rt_values(ibv_context*, ibv_values_ex* values) {
  if ((values->comp_mask & ~std::uint32_t{IBV_VALUES_MASK_RAW_CLOCK}) != 0) return fail(EINVAL);
  // The clock of the completions' timestamps.
  if (clock_gettime(CLOCK_MONOTONIC, &values->raw_clock) != 0) return fail(errno);
  return 0;
}

}  // namespace weft::front

using namespace weft::front;

WEFT_VERB(int, query_device, (ibv_context * context, ibv_device_attr* attr)) {
  if (is_foreign(context)) return behind().ibv_query_device(context, attr);
  const auto* interface = to_device_object(context)->interface();
  if (interface == nullptr) return fail(ENODEV);
  fill_device(*interface, attr);
  return 0;
}

WEFT_VERB(int, query_port,
          (ibv_context * context, std::uint8_t port_num, _compat_ibv_port_attr* port_attr)) {
  if (is_foreign(context)) return behind().ibv_query_port(context, port_num, port_attr);
  return query_port(context, port_num, reinterpret_cast<ibv_port_attr*>(port_attr),
                    kOldPortAttributeOctets);
}
