/* Signals: which calls they interrupt, and which go on. */
#define _GNU_SOURCE
#include "surface.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
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
    pid_t ended = 0;
    for (int ms = 0; ms < PATIENCE_S * 1000 && ended == 0; ++ms) {
      ended = waitpid(child, &status, WNOHANG);
      if (ended == 0) usleep(1000);
    }
    if (ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 7) ++well;
    if (ended == 0) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      break;
    }
  }
  SAY(well);
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
    {"ended_by_a_handler", ended_by_a_handler},
    {"ignored", ignored},
    {NULL, NULL},
};
