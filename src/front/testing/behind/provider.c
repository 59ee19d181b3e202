/* A provider library as rdma-core's are: linked to libibverbs.so.1, loaded by the second verbs
 * library, and finds the symbols of IBVERBS_PRIVATE_34 in whatever has that name. */
#include <stdbool.h>

extern bool verbs_allow_disassociate_destroy;
void verbs_register_driver_34(const void* operations);
int ibv_cmd_create_qp_ex2(void* a, void* b, long c, void* d, void* e, long f, void* g, long h);
void __verbs_log(void* owner, unsigned level, const char* format, ...);

#define EXPORT __attribute__((visibility("default")))

EXPORT const char weft_test_driver[] = "behind";

static __attribute__((constructor)) void registered(void) {
  verbs_register_driver_34(weft_test_driver);
}

/* Eight arguments: two of them go by the stack. */
EXPORT int weft_test_command(void** eight) {
  return ibv_cmd_create_qp_ex2(eight[0], eight[1], (long)eight[2], eight[3], eight[4],
                               (long)eight[5], eight[6], (long)eight[7]);
}

/* A list of arguments of no fixed length, with floating point in it. */
EXPORT void weft_test_log(void* owner) {
  __verbs_log(owner, 3, "%d %s %.2f %ld %c %.1f %d", 1, "two", 3.25, 4L, '5', 6.5, 7);
}

EXPORT bool weft_test_allows(void) {
  return verbs_allow_disassociate_destroy;
}
