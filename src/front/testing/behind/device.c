/* The devices of the second verbs library, and what of it is more than a record. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front/testing/behind/record.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT bool verbs_allow_disassociate_destroy;
/* Its own object, whatever a reference by the public name leads to. */
extern bool own_allow
    __attribute__((alias("verbs_allow_disassociate_destroy"), visibility("hidden")));

static struct ibv_device devices[2] = {
    {.node_type = IBV_NODE_CA,
     .transport_type = IBV_TRANSPORT_IB,
     .name = "behind_0",
     .dev_name = "uverbs0"},
    /* The name of one of weft's. */
    {.node_type = IBV_NODE_CA,
     .transport_type = IBV_TRANSPORT_IB,
     .name = "weft_lo",
     .dev_name = "uverbs1"},
};
static struct verbs_context verbs;
static struct ibv_context* const context = &verbs.context;
static struct ibv_pd pd = {&verbs.context, 1};
static struct ibv_mr mr = {&verbs.context, &pd, NULL, 0, 2, 3, 4};
static struct ibv_mw mw = {&verbs.context, &pd, 5, 6, IBV_MW_TYPE_1};
static struct ibv_comp_channel channel = {&verbs.context, -1, 0};
static struct ibv_cq cq = {.context = &verbs.context};
static struct ibv_qp qp = {.context = &verbs.context, .pd = &pd, .qp_num = 77};
static struct ibv_srq srq = {.context = &verbs.context};
static struct ibv_ah ah = {&verbs.context, &pd, 8};
static struct ibv_dm dm = {.context = &verbs.context};
static struct ibv_wq wq = {.context = &verbs.context};

static struct Record record;
static pthread_mutex_t lists_lock = PTHREAD_MUTEX_INITIALIZER;

/* What the inlined calls reach, by the context. */
#define OPERATION(type, name, parameters, ...)               \
  static type name parameters {                              \
    const long arguments[kArguments] = {__VA_ARGS__};        \
    return (type)record_call("operation " #name, arguments); \
  }
OPERATION(int, post_send, (struct ibv_qp * q, struct ibv_send_wr* wr, struct ibv_send_wr** bad),
          (long)q, (long)wr, (long)bad)
OPERATION(int, poll_cq, (struct ibv_cq * c, int count, struct ibv_wc* wc), (long)c, count, (long)wc)
OPERATION(struct ibv_mw*, alloc_mw, (struct ibv_pd * p, enum ibv_mw_type type), (long)p, (long)type)
OPERATION(int, query_device_ex,
          (struct ibv_context * c, const struct ibv_query_device_ex_input* input,
           struct ibv_device_attr_ex* attr, size_t octets),
          (long)c, (long)input, (long)attr, (long)octets)

EXPORT struct Record* weft_test_record(void) {
  return &record;
}

static void make(void) {
  verbs.sz = sizeof verbs;
  verbs.query_device_ex = query_device_ex;
  context->device = &devices[0];
  context->abi_compat = __VERBS_ABI_IS_EXTENDED;
  context->num_comp_vectors = 1;
  context->ops.post_send = post_send;
  context->ops.poll_cq = poll_cq;
  context->ops.alloc_mw = alloc_mw;
  void* const objects[] = {context, &pd, &mr, &mw, &channel, &cq, &qp, &srq, &ah, &dm, &wq};
  memcpy(&record.context, objects, sizeof objects);
  record.devices[0] = &devices[0];
  record.devices[1] = &devices[1];
}

/* The object that a verb makes when the test wants nothing else. */
static long object_of(const char* symbol) {
  static const struct {
    const char* symbol;
    void* object;
  } kObjects[] = {
      {"ibv_open_device", &verbs.context},
      {"ibv_import_device", &verbs.context},
      {"ibv_alloc_pd", &pd},
      {"ibv_reg_mr", &mr},
      {"ibv_reg_mr_iova2", &mr},
      {"ibv_create_comp_channel", &channel},
      {"ibv_create_cq", &cq},
      {"ibv_create_qp", &qp},
      {"ibv_create_srq", &srq},
      {"ibv_create_ah", &ah},
  };
  for (size_t i = 0; i < sizeof kObjects / sizeof kObjects[0]; ++i) {
    if (strcmp(kObjects[i].symbol, symbol) == 0) return (long)kObjects[i].object;
  }
  return 0;
}

static long default_answer(const char* symbol, const long* arguments) {
  struct ibv_device* device = (struct ibv_device*)arguments[0];
  if (strcmp(symbol, "ibv_get_device_name") == 0) return (long)device->name;
  if (strcmp(symbol, "ibv_get_device_guid") == 0) return 1 + (device - devices);
  return object_of(symbol);
}

long record_call(const char* symbol, const long* arguments) {
  record.symbol = symbol;
  memcpy(record.arguments, arguments, sizeof record.arguments);
  ++record.calls;
  if (strcmp(symbol, "ibv_fork_init") == 0) ++record.fork_init_calls;
  if (strcmp(symbol, "verbs_register_driver_34") == 0 && record.driver_count < 8) {
    record.drivers[record.driver_count++] = (const void*)arguments[0];
  }
  const long answer = record.answer != 0 ? record.answer : default_answer(symbol, arguments);
  if (record.error != 0) errno = record.error;
  return answer;
}

/* As rdma-core does it: the provider lies beside the library and registers when it is loaded. */
static void load_provider(void) {
  Dl_info self;
  char path[4096];
  if (dladdr(&record, &self) == 0) return;
  const char* slash = strrchr(self.dli_fname, '/');
  if (slash == NULL) return;
  snprintf(path, sizeof path, "%.*s/libbehind-rdmav34.so", (int)(slash - self.dli_fname),
           self.dli_fname);
  if (dlopen(path, RTLD_NOW) == NULL) fprintf(stderr, "behind: %s\n", dlerror());
}

static struct ibv_device** get_device_list(int* count) {
  static bool loaded;
  if (!loaded) {
    loaded = true;
    make();
    load_provider();
    own_allow = true;
  }
  const long arguments[kArguments] = {(long)count};
  if (record_call("ibv_get_device_list", arguments) != 0) { /* told to fail */
    *count = 0;
    return NULL;
  }
  struct ibv_device** list = calloc(3, sizeof *list);
  if (list == NULL) return NULL;
  list[0] = &devices[0];
  list[1] = &devices[1];
  ++record.lists;
  *count = 2;
  return list;
}

EXPORT struct ibv_device** ibv_get_device_list(int* count) {
  pthread_mutex_lock(&lists_lock);
  struct ibv_device** list = get_device_list(count);
  pthread_mutex_unlock(&lists_lock);
  return list;
}

EXPORT void ibv_free_device_list(struct ibv_device** list) {
  const long arguments[kArguments] = {(long)list};
  record_call("ibv_free_device_list", arguments);
  if (list == NULL || list[0] != &devices[0] || list[1] != &devices[1] || list[2] != NULL) abort();
  pthread_mutex_lock(&lists_lock);
  --record.lists;
  pthread_mutex_unlock(&lists_lock);
  free(list);
}

void __verbs_log(void* owner, unsigned level, const char* format, ...);
EXPORT void __verbs_log(void* owner, unsigned level, const char* format, ...) {
  const long arguments[kArguments] = {(long)owner, (long)level, (long)format};
  record_call("__verbs_log", arguments);
  va_list values;
  va_start(values, format);
  vsnprintf(record.log, sizeof record.log, format, values);
  va_end(values);
}
