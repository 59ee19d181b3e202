// The calls of <weft/sockets.h>, found at run time: their library is preloaded, or it is not there.
#pragma once

#include <weft/sockets.h>

namespace weft::measure {

struct ExtendedCalls {
  decltype(&::iwarp_register) register_memory;
  decltype(&::iwarp_export) export_key;
  decltype(&::iwarp_import) import_key;
  decltype(&::iwarp_post_write) post_write;
  decltype(&::iwarp_post_read) post_read;
  decltype(&::iwarp_post_send) post_send;
  decltype(&::iwarp_post_recv) post_receive;
  decltype(&::iwarp_poll) poll;
  decltype(&::iwarp_wait) wait;
  decltype(&::iwarp_completion_fd) completion_fd;
};

/// Throws Failure, with what to do, if this process is without the library.
const ExtendedCalls& extended_calls();

}  // namespace weft::measure
