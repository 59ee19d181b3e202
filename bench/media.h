// The media that are not one connection: made when the first leg needs them.
#pragma once

#include <memory>
#include <string>

#include "bench/control.h"
#include "bench/medium.h"

namespace weft::bench {

/// Each makes one end, as make_tcp and make_rdma do.
std::unique_ptr<Medium> make_connecting(MediumKind kind, Medium::Role role,
                                        const std::string& address, Control& control);
std::unique_ptr<Medium> make_idle(Medium::Role role, const std::string& address, Control& control);
/// `connections` of them are open from here on.
std::unique_ptr<Medium> make_requests_tcp(Medium::Role role, const std::string& address,
                                          Control& control, std::size_t connections);
std::unique_ptr<Medium> make_requests_rdma(Medium::Role role, const std::string& address,
                                           Control& control, std::size_t connections);
std::unique_ptr<Medium> make_beside_tcp(Medium::Role role, const std::string& address,
                                        Control& control);
std::unique_ptr<Medium> make_beside_rdma(Medium::Role role, const std::string& address,
                                         Control& control);

}  // namespace weft::bench
