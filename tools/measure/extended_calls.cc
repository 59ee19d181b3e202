// By name, so that the program runs without the library too.
#include "measure/extended_calls.h"

#include <dlfcn.h>

#include "measure/basics.h"

namespace weft::measure {
namespace {

template <typename Call>
void find(const char* name, Call& call) {
  call = reinterpret_cast<Call>(::dlsym(RTLD_DEFAULT, name));
  if (call == nullptr) {
    fail(
        "--over sockets needs weft's sockets library, and {} is not here: run both sides as weft "
        "run --sockets -- weft ...",
        name);
  }
}

ExtendedCalls find_all() {
  ExtendedCalls calls{};
  find("iwarp_register", calls.register_memory);
  find("iwarp_export", calls.export_key);
  find("iwarp_import", calls.import_key);
  find("iwarp_post_write", calls.post_write);
  find("iwarp_post_read", calls.post_read);
  find("iwarp_post_send", calls.post_send);
  find("iwarp_post_recv", calls.post_receive);
  find("iwarp_poll", calls.poll);
  find("iwarp_wait", calls.wait);
  find("iwarp_completion_fd", calls.completion_fd);
  return calls;
}

}  // namespace

const ExtendedCalls& extended_calls() {
  static const ExtendedCalls calls = find_all();
  return calls;
}

}  // namespace weft::measure
