// The list of devices: one per network interface, and those of the library behind.
#include <endian.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>

#include "front/libibverbs/behind.h"
#include "front/libibverbs/export.h"
#include "front/libibverbs/objects.h"
#include "verbs/device_factory.h"

#undef ibv_get_device_list

extern "C" const char* ibv_get_sysfs_path();

namespace weft::front {
namespace {

/// Never destroyed: a program may look at a device while the process exits.
struct DeviceTable {
  std::mutex lock;
  std::deque<DeviceObject> devices;
};
DeviceTable& table() {
  static auto* const the_table = new DeviceTable;
  return *the_table;
}

void fill(DeviceObject* device, const verbs::Interface& interface) {
  const bool ib = verbs::persona() == verbs::Persona::IB;
  device->_ops._dummy1 = device_mark;
  device->node_type = ib ? IBV_NODE_CA : IBV_NODE_RNIC;
  device->transport_type = ib ? IBV_TRANSPORT_IB : IBV_TRANSPORT_IWARP;
  std::snprintf(device->name, sizeof device->name, "%s", interface.name);
  std::snprintf(device->dev_name, sizeof device->dev_name, "%s", interface.name);
  // Where the kernel would show a device of this name. Programs read attributes there, and fall
  // back when there are none.
  std::snprintf(device->dev_path, sizeof device->dev_path, "%.128s/class/infiniband_verbs/%s",
                ibv_get_sysfs_path(), interface.name);
  std::snprintf(device->ibdev_path, sizeof device->ibdev_path, "%.128s/class/infiniband/%s",
                ibv_get_sysfs_path(), interface.name);
}

}  // namespace

DeviceObject* device_object_for(const verbs::Interface& interface) {
  DeviceTable& known = table();
  std::lock_guard guard(known.lock);
  for (DeviceObject& device : known.devices) {
    if (std::strcmp(device.name, interface.name) == 0) return &device;
  }
  DeviceObject& device = known.devices.emplace_back();
  fill(&device, interface);
  return &device;
}

}  // namespace weft::front

using namespace weft::front;

WEFT_VERB(ibv_device**, get_device_list, (int* num_devices)) {
  auto& runtime = weft::verbs::ProcessRuntime::instance();
  // With settings that no device can have, none could be opened: better no list than a list of
  // devices that all fail, of which a program such as ibv_devices would not even try one.
  if (const auto settings = runtime.check_settings(); !settings) {
    if (num_devices != nullptr) *num_devices = 0;
    return fail_null(settings.error().code);
  }
  const auto interfaces = runtime.interfaces();
  const ForeignDevices foreign = list_foreign_devices();
  const std::size_t count = interfaces.size() + foreign.count;
  auto** list = static_cast<ibv_device**>(std::calloc(count + 1, sizeof(ibv_device*)));
  if (num_devices != nullptr) *num_devices = 0;
  if (list == nullptr) {
    if (foreign.list != nullptr) behind().ibv_free_device_list(foreign.list);
    return fail_null(ENOMEM);
  }
  // Ours first: a program that takes the first device, or the first of a name, gets what it would
  // get on any other machine.
  std::size_t next = 0;
  for (const auto* interface : interfaces) list[next++] = device_object_for(*interface);
  for (std::size_t i = 0; i < foreign.count; ++i) list[next++] = foreign.list[i];
  keep_foreign_list(list, foreign);
  if (num_devices != nullptr) *num_devices = static_cast<int>(count);
  return list;
}

WEFT_VERB(void, free_device_list, (ibv_device * *list)) {
  free_foreign_list(list);
  std::free(list);
}

WEFT_VERB(const char*, get_device_name, (ibv_device * device)) {
  if (is_foreign(device)) return behind().ibv_get_device_name(device);
  return device->name;
}

WEFT_VERB(__be64, get_device_guid, (ibv_device * device)) {
  if (is_foreign(device)) return behind().ibv_get_device_guid(device);
  const auto* interface = to_object(device)->interface();
  return interface != nullptr ? htobe64(interface->guid) : 0;
}

/// The index of the interface, which is as stable as a device's: -1 when it is gone.
WEFT_EXPORT int ibv_get_device_index(ibv_device* device) {
  if (is_foreign(device)) return behind().ibv_get_device_index(device);
  const auto* interface = to_object(device)->interface();
  return interface != nullptr ? static_cast<int>(interface->index) : -1;
}
