// weft devices: lists the RDMA devices of this machine.
#pragma once

namespace weft::tools {

/// Prints every device that the verbs API shows, as text or as JSON. Returns the exit status:
/// 0, or 1 if there is no device or the list cannot be had.
int list_devices(bool json);

}  // namespace weft::tools
