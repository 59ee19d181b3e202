/* Signals: which calls they interrupt, and which go on. */
#define _GNU_SOURCE
#include "surface.h"

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/wait.h>

static char octets[65536];
static volatile sig_atomic_t alarms;

static void count_alarm(int number) {
  (void)number;
  ++alarms;
}

static void on_alarm(int flags) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = count_alarm;
  action.sa_flags = flags;
  need(sigaction(SIGALRM, &action, NULL) == 0, "sigaction");
}

/* One SIGALRM soon. */
static void alarm_soon(void) {
  const struct itimerval soon = {{0, 0}, {0, 100000}};
  alarms = 0;
  need(setitimer(ITIMER_REAL, &soon, NULL) == 0, "setitimer");
}

static void fill(int fd) {
  fcntl(fd, F_SETFL, O_NONBLOCK);
  for (int quiet = 0; quiet < 10; ++quiet) {
    while (send(fd, octets, sizeof octets, 0) > 0) quiet = 0;
    usleep(50000);
  }
  fcntl(fd, F_SETFL, 0);
}

static void interrupted(void) {
  struct pair pair = open_ipv4_pair();
  on_alarm(0);
  alarm_soon();
  SAY(recv(pair.client, octets, 1, 0));
  alarm_soon();
  SAY(read(pair.client, octets, 1));
  alarm_soon();
  SAY(accept(pair.listener, NULL, NULL));
  alarm_soon();
  struct pollfd one = {pair.client, POLLIN, 0};
  SAY(poll(&one, 1, -1));
  alarm_soon();
  fd_set in;
  FD_ZERO(&in);
  FD_SET(pair.client, &in);
  SAY(select(pair.client + 1, &in, NULL, NULL, NULL));
  const int epoll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN};
  SAY(epoll_ctl(epoll, EPOLL_CTL_ADD, pair.client, &event));
  alarm_soon();
  SAY(epoll_wait(epoll, &event, 1, -1));
  fill(pair.client);
  alarm_soon();
  SAY(send(pair.client, octets, 1, 0));
  SAY(alarms);
  close(epoll);
  close_pair(&pair);
}

/* A signal that only the wait lets through, and that came before it. */
static void epoll_with_a_mask(void) {
  struct pair pair = open_ipv4_pair();
  const int epoll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN};
  SAY(epoll_ctl(epoll, EPOLL_CTL_ADD, pair.client, &event));
  sigset_t alarm_only, none;
  sigemptyset(&none);
  sigemptyset(&alarm_only);
  sigaddset(&alarm_only, SIGALRM);
  on_alarm(SA_RESTART);
  alarms = 0;
  SAY(pthread_sigmask(SIG_BLOCK, &alarm_only, NULL));
  SAY(raise(SIGALRM));
  SAY(epoll_wait(epoll, &event, 1, 20));
  SAY(alarms);
  SAY(epoll_pwait(epoll, &event, 1, -1, &none));
  SAY(alarms);
  SAY(send(pair.server, "x", 1, 0));
  SAY(epoll_pwait(epoll, &event, 1, -1, &none));
  SAY(pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL));
  SAY(alarms);
  close(epoll);
  close_pair(&pair);
}

static void* send_later(void* fd) {
  usleep(400 * 1000);
  need(send(*(int*)fd, "x", 1, 0) == 1, "send");
  return NULL;
}

/* With SA_RESTART reading and accepting go on; poll and select do not. */
static void restarted(void) {
  struct pair pair = open_ipv4_pair();
  on_alarm(SA_RESTART);
  pthread_t other;
  sigset_t alarm_only;
  sigemptyset(&alarm_only), sigaddset(&alarm_only, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &alarm_only, NULL);
  pthread_create(&other, NULL, send_later, &pair.server);
  pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL);
  alarm_soon();
  SAY(recv(pair.client, octets, 1, 0));
  SAY(alarms);
  pthread_join(other, NULL);
  alarm_soon();
  struct pollfd one = {pair.client, POLLIN, 0};
  SAY(poll(&one, 1, -1));
  alarm_soon();
  fd_set in;
  FD_ZERO(&in);
  FD_SET(pair.client, &in);
  SAY(select(pair.client + 1, &in, NULL, NULL, NULL));
  /* A limit of time makes even these end. */
  const struct timeval limit = {5, 0};
  SAY(setsockopt(pair.client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
  alarm_soon();
  SAY(recv(pair.client, octets, 1, 0));
  close_pair(&pair);
}

/* ppoll and pselect let a blocked signal in only while they wait. */
static void let_in_while_waiting(void) {
  struct pair pair = open_ipv4_pair();
  on_alarm(0);
  sigset_t alarm_only, before;
  sigemptyset(&alarm_only), sigaddset(&alarm_only, SIGALRM);
  sigprocmask(SIG_BLOCK, &alarm_only, &before);
  alarm_soon();
  usleep(300 * 1000);
  SAY(alarms);
  struct pollfd one = {pair.client, POLLIN, 0};
  SAY(ppoll(&one, 1, NULL, &before));
  SAY(alarms);
  alarm_soon();
  usleep(300 * 1000);
  fd_set in;
  FD_ZERO(&in);
  FD_SET(pair.client, &in);
  SAY(pselect(pair.client + 1, &in, NULL, NULL, NULL, &before));
  SAY(alarms);
  close_pair(&pair);
}

/* A partial write is told by its count. */
static void a_long_write_is_interrupted(void) {
  struct pair pair = open_ipv4_pair();
  on_alarm(0);
  char* much = calloc(1, 64 << 20);
  alarm_soon();
  const ssize_t sent = send(pair.client, much, 64 << 20, 0);
  SAY(sent > 0 && sent < 64 << 20);
  long got = 0;
  close(dup(pair.client));
  shutdown(pair.client, SHUT_WR);
  ssize_t part;
  while ((part = recv(pair.server, octets, sizeof octets, 0)) > 0) got += part;
  SAY(got == sent);
  free(much);
  close_pair(&pair);
}

/* In the midst of the first copy, before anything waits: what is sent has a page that cannot be
   read until SIGSEGV says so. The kernel itself ends its copy there. */
static char* unread_page;
static long page_octets;
static void open_page(int number) {
  (void)number;
  raise(SIGALRM);
  mprotect(unread_page, page_octets, PROT_READ);
}
static void a_long_write_is_interrupted_early(void) {
  struct pair pair = open_ipv4_pair();
  on_alarm(0);
  page_octets = sysconf(_SC_PAGESIZE);
  char* much = mmap(NULL, 64 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  need(much != MAP_FAILED, "mmap");
  unread_page = much + (256 << 10);
  need(mprotect(unread_page, page_octets, PROT_NONE) == 0, "mprotect");
  signal(SIGSEGV, open_page);
  const ssize_t sent = send(pair.client, much, 64 << 20, 0);
  signal(SIGSEGV, SIG_DFL);
  SAY(sent > 0 && sent < 64 << 20);
  munmap(much, 64 << 20);
  close_pair(&pair);
}

/* Within five seconds; if not, by force. */
static int ends_soon(pid_t child, int* status) {
  for (int ms = 0; ms < 5000; ++ms) {
    if (waitpid(child, status, WNOHANG) == child) return 1;
    usleep(1000);
  }
  kill(child, SIGKILL);
  waitpid(child, status, 0);
  return 0;
}

/* Wherever in a call the signal comes. */
static void leave_at_once(int number) {
  (void)number;
  _exit(7);
}
static void ended_by_a_handler(void) {
  long well = 0;
  for (int i = 0; i < 40; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      struct pair pair = open_ipv4_pair();
      signal(SIGALRM, leave_at_once);
      const struct itimerval soon = {{0, 0}, {0, 3000 + 100 * i}};
      need(setitimer(ITIMER_REAL, &soon, NULL) == 0, "setitimer");
      for (;;) {
        send(pair.client, octets, 100, MSG_DONTWAIT);
        recv(pair.server, octets, sizeof octets, MSG_DONTWAIT);
      }
    }
    int status = -1;
    if (!ends_soon(child, &status)) break;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 7) ++well;
  }
  SAY(well);
}

/* A handler's last words are sent, whatever it interrupted. One process makes them, another one
   counts what came. */
enum { LAST_WORDS = 10000, ROUNDS = 40 };
static int last_socket;
static void write_and_leave(int number) {
  (void)number;
  _exit(write(last_socket, octets, LAST_WORDS) == LAST_WORDS ? 7 : 8);
}
static void count_last_words(int words) {
  const int listener = listen_on(AF_INET);
  const struct sockaddr_storage name = name_of(listener);
  send_word(words, ntohs(((const struct sockaddr_in*)&name)->sin_port));
  for (int i = 0; i < ROUNDS; ++i) {
    const int fd = accept(listener, NULL, NULL);
    send_word(words, (int)receive_pattern(fd, 0, LAST_WORDS + 1));
    close(fd);
  }
  close(listener);
}
/* Of sizes of which a thread keeps nothing of its own: each call takes the arena's lock. */
static void allocate_for_ever(void) {
  static void* blocks[64];
  for (unsigned i = 0;; ++i) {
    free(blocks[i * 7 % 64]);
    blocks[i * 7 % 64] = malloc(2000 + i * 2654435761u % 60000);
  }
}
static void last_words(void (*meanwhile)(void)) {
  struct peer peer = start_peer(count_last_words);
  const struct sockaddr_storage name = loopback(peer_port(&peer));
  for (int i = 0; i < LAST_WORDS; ++i) octets[i] = (char)pattern_at((uint64_t)i);
  long well = 0;
  for (int i = 0; i < ROUNDS; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      last_socket = connect_to(&name);
      signal(SIGALRM, write_and_leave);
      const struct itimerval soon = {{0, 0}, {0, 1000 + 50 * i}};
      need(setitimer(ITIMER_REAL, &soon, NULL) == 0, "setitimer");
      meanwhile();
    }
    int status = -1;
    const int ended = ends_soon(child, &status);
    const int came = ended ? read_word(peer.words) : -1;
    if (!ended || !WIFEXITED(status) || WEXITSTATUS(status) != 7 || came != LAST_WORDS) {
      fprintf(stderr, "round %d: ended %d, status %x, %d octets came\n", i, ended, status, came);
      break;
    }
    ++well;
  }
  SAY(well);
  if (well != ROUNDS) kill(peer.pid, SIGKILL);
  end_peer(&peer);
}
static void last_words_in_malloc(void) {
  last_words(allocate_for_ever);
}
static void last_words_in_the_only_arena(void) {
  mallopt(M_ARENA_MAX, 1); /* before there are threads; the children have it */
  last_words(allocate_for_ever);
}

static void ignored(void) {
  struct pair pair = open_ipv4_pair();
  signal(SIGALRM, SIG_IGN);
  const struct timeval limit = {0, 300000};
  SAY(setsockopt(pair.client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
  alarm_soon();
  SAY(recv(pair.client, octets, 1, 0));
  close_pair(&pair);
}

const struct test_case signals_cases[] = {
    {"interrupted", interrupted},
    {"epoll_with_a_mask", epoll_with_a_mask},
    {"restarted", restarted},
    {"let_in_while_waiting", let_in_while_waiting},
    {"a_long_write_is_interrupted", a_long_write_is_interrupted},
    {"a_long_write_is_interrupted_early", a_long_write_is_interrupted_early},
    {"ended_by_a_handler", ended_by_a_handler},
    {"last_words_in_malloc", last_words_in_malloc},
    {"last_words_in_the_only_arena", last_words_in_the_only_arena},
    {"ignored", ignored},
    {NULL, NULL},
};
