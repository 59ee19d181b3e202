// Opening devices through libibverbs, and their default PDs.
#include "front/librdmacm/verbs_device.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace weft::front::cm {
namespace {

ibv_context* open_by_name(const char* name) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list == nullptr) return nullptr;
  ibv_context* context = nullptr;
  errno = ENODEV;
  for (int i = 0; i < count; ++i) {
    if (std::strcmp(ibv_get_device_name(list[i]), name) == 0) {
      context = ibv_open_device(list[i]);
      break;
    }
  }
  ibv_free_device_list(list);
  return context;
}

/// 255 in a rdma_conn_param means "the most", so a limit is at most 254.
std::uint8_t depth_limit(int attribute) {
  return static_cast<std::uint8_t>(std::clamp(attribute, 0, 254));
}

}  // namespace

Result<VerbsDevice*> VerbsDeviceTable::open(const verbs::Interface& interface) {
  for (const auto& device : devices_) {
    if (device->name == interface.name) return device.get();
  }
  auto device = std::make_unique<VerbsDevice>();
  device->name = interface.name;
  device->mtu = interface.mtu;
  device->context = open_by_name(interface.name);
  if (device->context == nullptr) {
    return Error{errno != 0 ? errno : ENODEV, "the device of this interface does not open"};
  }
  ibv_device_attr attributes{};
  if (const int code = ibv_query_device(device->context, &attributes); code != 0) {
    ibv_close_device(device->context);
    return Error{code > 0 ? code : EIO, "the device does not tell its limits"};
  }
  device->ird_max = depth_limit(attributes.max_qp_rd_atom);
  device->ord_max = depth_limit(attributes.max_qp_init_rd_atom);
  devices_.push_back(std::move(device));
  return devices_.back().get();
}

Result<VerbsDevice*> VerbsDeviceTable::acquire(const verbs::Interface& interface) {
  std::lock_guard lock(mutex_);
  auto device = open(interface);
  if (!device) return device;
  if ((*device)->pd == nullptr) {
    (*device)->pd = ibv_alloc_pd((*device)->context);
    if ((*device)->pd == nullptr) return Error{errno, "no protection domain"};
  }
  ++(*device)->users;
  return device;
}

void VerbsDeviceTable::release(VerbsDevice* device) {
  if (device == nullptr) return;
  std::lock_guard lock(mutex_);
  if (--device->users > 0) return;
  // A program that left memory registered on the default PD keeps it: the next id uses it again.
  if (ibv_dealloc_pd(device->pd) == 0) device->pd = nullptr;
}

std::vector<ibv_context*> VerbsDeviceTable::open_all(
    std::span<const verbs::Interface* const> interfaces) {
  std::lock_guard lock(mutex_);
  std::vector<ibv_context*> contexts;
  for (const verbs::Interface* interface : interfaces) {
    if (auto device = open(*interface)) contexts.push_back((*device)->context);
  }
  return contexts;
}

}  // namespace weft::front::cm
