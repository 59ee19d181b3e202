/* libfabric's RMA over its tcp provider, which none of Debian's programs measures.
 *
 * usage: fabric_rma PORT          the target: keeps progressing until it is left
 *        fabric_rma PORT ADDRESS write|read|read-lat OCTETS COUNT
 *                                 prints GB/s, or the median in us
 */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kBufferOctets = 8 << 20, kWindow = 128, kEventMs = 10000, kSpaceOctets = 64 };

struct Target {
  uint64_t address, key;
};

static struct fid_eq* events;
static struct fid_domain* domain;
static struct fid_cq* completions;
static struct fid_ep* endpoint;
static struct fid_mr* region;
static char* buffer;

static void check(long status, const char* what) {
  if (status >= 0) return;
  fprintf(stderr, "fabric_rma: %s: %s\n", what, fi_strerror((int)-status));
  exit(1);
}

static double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static struct fi_info* find(const char* address, const char* port, uint64_t flags) {
  struct fi_info *hints = fi_allocinfo(), *found = NULL;
  hints->caps = FI_MSG | FI_RMA;
  hints->ep_attr->type = FI_EP_MSG;
  hints->fabric_attr->prov_name = strdup("tcp");
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  check(fi_getinfo(FI_VERSION(1, 15), address, port, flags, hints, &found), "fi_getinfo");
  fi_freeinfo(hints);
  return found;
}

static void open_endpoint(struct fid_fabric* fabric, struct fi_info* info) {
  struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_CONTEXT, .size = 2 * kWindow};
  check(fi_domain(fabric, info, &domain, NULL), "fi_domain");
  check(fi_cq_open(domain, &cq, &completions, NULL), "fi_cq_open");
  check(fi_endpoint(domain, info, &endpoint, NULL), "fi_endpoint");
  check(fi_ep_bind(endpoint, &events->fid, 0), "fi_ep_bind");
  check(fi_ep_bind(endpoint, &completions->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
  check(fi_enable(endpoint), "fi_enable");
  buffer = aligned_alloc(4096, kBufferOctets);
  if (!buffer) check(-FI_ENOMEM, "buffer");
  memset(buffer, 1, kBufferOctets);
  check(fi_mr_reg(domain, buffer, kBufferOctets,
                  FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1, 0, &region, NULL),
        "fi_mr_reg");
}

static struct fi_info* await(uint32_t wanted, void* data, size_t octets) {
  char space[sizeof(struct fi_eq_cm_entry) + kSpaceOctets];
  struct fi_eq_cm_entry* entry = (void*)space;
  uint32_t event = 0;
  const ssize_t got = fi_eq_sread(events, &event, space, sizeof space, kEventMs, 0);
  check(got, "fi_eq_sread");
  if (event != wanted) check(-FI_EOTHER, "another event");
  if (data) memcpy(data, entry->data, octets);
  return entry->info;
}

static void serve(struct fid_fabric* fabric, struct fi_info* info) {
  struct fid_pep* listener;
  check(fi_passive_ep(fabric, info, &listener, NULL), "fi_passive_ep");
  check(fi_pep_bind(listener, &events->fid, 0), "fi_pep_bind");
  check(fi_listen(listener), "fi_listen");
  struct fi_info* asked = await(FI_CONNREQ, NULL, 0);
  open_endpoint(fabric, asked);
  const int by_offset = !(asked->domain_attr->mr_mode & FI_MR_VIRT_ADDR);
  const struct Target target = {by_offset ? 0 : (uintptr_t)buffer, fi_mr_key(region)};
  check(fi_accept(endpoint, &target, sizeof target), "fi_accept");
  await(FI_CONNECTED, NULL, 0);
  while (1) {
    struct fi_cq_entry done;
    struct fi_eq_cm_entry entry;
    uint32_t event;
    if (fi_cq_read(completions, &done, 1) < -FI_EAGAIN) return;
    if (fi_eq_read(events, &event, &entry, sizeof entry, 0) > 0) return; /* the client left */
  }
}

static long reap(void) {
  struct fi_cq_entry done[16];
  const ssize_t got = fi_cq_read(completions, done, 16);
  if (got == -FI_EAGAIN) return 0;
  check(got, "fi_cq_read");
  return got;
}

/* Returns how many others completed meanwhile. */
static long post(int reads, size_t octets, struct Target target) {
  long freed = 0;
  ssize_t status;
  do {
    status = reads ? fi_read(endpoint, buffer, octets, fi_mr_desc(region), 0, target.address,
                             target.key, NULL)
                   : fi_write(endpoint, buffer, octets, fi_mr_desc(region), 0, target.address,
                              target.key, NULL);
    if (status == -FI_EAGAIN) freed += reap();
  } while (status == -FI_EAGAIN);
  check(status, reads ? "fi_read" : "fi_write");
  return freed;
}

static double stream(int reads, size_t octets, long count, struct Target target, long window) {
  const double begin = now_us();
  long in_flight = 0;
  for (long posted = 0; posted < count; ++posted) {
    while (in_flight >= window) in_flight -= reap();
    in_flight += 1 - post(reads, octets, target);
  }
  while (in_flight > 0) in_flight -= reap();
  /* A Read comes back behind the Writes before it: then all has arrived. */
  post(1, 8, target);
  while (reap() == 0) {
  }
  return (double)octets * (double)count / (now_us() - begin) * 1e-3;
}

static int by_size(const void* one, const void* other) {
  const double a = *(const double*)one, b = *(const double*)other;
  return (a > b) - (a < b);
}

static double latency(size_t octets, long count, struct Target target) {
  double* took = malloc((size_t)count * sizeof *took);
  if (!took) check(-FI_ENOMEM, "trips");
  for (long trip = 0; trip < count; ++trip) {
    const double begin = now_us();
    post(1, octets, target);
    while (reap() == 0) {
    }
    took[trip] = now_us() - begin;
  }
  qsort(took, (size_t)count, sizeof *took, by_size);
  const double median = took[count / 2];
  free(took);
  return median;
}

static void lead(struct fid_fabric* fabric, struct fi_info* info, char** words) {
  const size_t octets = strtoul(words[1], NULL, 10);
  const long count = strtol(words[2], NULL, 10);
  if (octets == 0 || octets > kBufferOctets || count < 1) check(-FI_EINVAL, "OCTETS COUNT");
  struct Target target;
  open_endpoint(fabric, info);
  check(fi_connect(endpoint, info->dest_addr, NULL, 0), "fi_connect");
  await(FI_CONNECTED, &target, sizeof target);
  const long queue = (long)info->tx_attr->size;
  const long window = queue < kWindow ? queue : kWindow;
  const int reads = words[0][0] == 'r';
  if (strcmp(words[0], "read-lat") == 0) {
    latency(octets, count / 10 + 1, target);
    printf("%.3f us\n", latency(octets, count, target));
  } else {
    stream(reads, octets, count / 10 + 1, target, window);
    printf("%.3f GB/s\n", stream(reads, octets, count, target, window));
  }
}

int main(int argc, char** argv) {
  if (argc != 2 && argc != 6) {
    fprintf(stderr, "usage: fabric_rma PORT [ADDRESS write|read|read-lat OCTETS COUNT]\n");
    return 2;
  }
  const int serves = argc == 2;
  struct fid_fabric* fabric;
  struct fi_eq_attr eq = {.wait_obj = FI_WAIT_UNSPEC};
  struct fi_info* info = find(serves ? "127.0.0.1" : argv[2], argv[1], serves ? FI_SOURCE : 0);
  check(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
  check(fi_eq_open(fabric, &eq, &events, NULL), "fi_eq_open");
  if (serves) {
    serve(fabric, info);
  } else {
    lead(fabric, info, argv + 3);
  }
  return 0;
}
