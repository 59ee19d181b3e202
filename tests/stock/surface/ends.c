/* How streams end: closing in mid transfer, halves, a peer that is killed. */
#define _GNU_SOURCE
#include "surface.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/wait.h>

enum { MUCH = 3 * 1024 * 1024 };

static char octets[4096];

/* Peers: a server that tells its port, accepts one connection, and does what its name says. */
static int accept_one(int words) {
  const int listener = listen_on(AF_INET);
  const struct sockaddr_storage name = name_of(listener);
  send_word(words, ntohs(((const struct sockaddr_in*)&name)->sin_port));
  const int fd = accept(listener, NULL, NULL);
  need(fd >= 0, "accept");
  close(listener);
  return fd;
}
static void sends_and_closes(int words) {
  const int fd = accept_one(words);
  send_word(words, (int)send_pattern(fd, 0, MUCH));
  close(fd);
  read_word(words);
}
static void sends_and_exits(int words) {
  const int fd = accept_one(words);
  send_word(words, (int)send_pattern(fd, 0, MUCH));
}
static void sends_and_exits_at_once(int words) {
  const int fd = accept_one(words);
  send_word(words, (int)send_pattern(fd, 0, MUCH));
  _exit(0);
}
static void has_a_child_send_and_exits(int words) {
  const int fd = accept_one(words);
  const pid_t child = fork();
  if (child == 0) exit(send_pattern(fd, 0, MUCH) == MUCH ? 0 : 1);
  close(fd);
  int status = -1;
  need(waitpid(child, &status, 0) == child, "waitpid");
  send_word(words, status);
}
static void receives_all(int words) {
  const int fd = accept_one(words);
  const long got = receive_pattern(fd, 0, MUCH);
  send_word(words, (int)got);
  send_word(words, (int)recv(fd, octets, 1, 0));
  close(fd);
}
static void stays(int words) {
  const int fd = accept_one(words);
  send_word(words, 1);
  read_word(words);
  close(fd);
}
static void sends_for_ever(int words) {
  const int fd = accept_one(words);
  send_word(words, 1);
  while (send(fd, octets, sizeof octets, MSG_NOSIGNAL) > 0) {
  }
}

static int connect_to_peer(const struct peer* peer) {
  const struct sockaddr_storage name = loopback(peer_port(peer));
  return connect_to(&name);
}

static void what_the_peer_sent_arrives(void (*work)(int)) {
  struct peer peer = start_peer(work);
  const int fd = connect_to_peer(&peer);
  usleep(100 * 1000); /* it fills what there is room for, and waits */
  SAY(receive_pattern(fd, 0, MUCH));
  SAY(recv(fd, octets, 1, 0));
  SAY(recv(fd, octets, 1, 0));
  SAY(read_word(peer.words));
  close(fd);
  SAY(end_peer(&peer));
}
static void the_server_closes_with_octets_on_the_way(void) {
  what_the_peer_sent_arrives(sends_and_closes);
}
static void the_server_exits_with_octets_on_the_way(void) {
  what_the_peer_sent_arrives(sends_and_exits);
}
static void the_server_ends_at_once_with_octets_on_the_way(void) {
  what_the_peer_sent_arrives(sends_and_exits_at_once);
}
static void the_server_exits_after_its_child(void) {
  what_the_peer_sent_arrives(has_a_child_send_and_exits);
}

static void the_client_closes_with_octets_on_the_way(void) {
  struct peer peer = start_peer(receives_all);
  const int fd = connect_to_peer(&peer);
  SAY(send_pattern(fd, 0, MUCH));
  SAY(close(fd));
  SAY(read_word(peer.words));
  SAY(read_word(peer.words));
  SAY(end_peer(&peer));
}

static void the_client_ends_its_half_with_octets_on_the_way(void) {
  struct peer peer = start_peer(receives_all);
  const int fd = connect_to_peer(&peer);
  SAY(send_pattern(fd, 0, MUCH));
  SAY(shutdown(fd, SHUT_WR));
  SAY(send(fd, octets, 1, MSG_NOSIGNAL));
  SAY(read_word(peer.words));
  SAY(read_word(peer.words));
  SAY(recv(fd, octets, 1, 0));
  SAY(close(fd));
  SAY(end_peer(&peer));
}

/* After a peer has gone: reading ends, writing fails, at the latest after a while. */
static const char* last_error_of_writing(int fd) {
  for (int i = 0; i < 1000; ++i) {
    if (send(fd, octets, sizeof octets, MSG_NOSIGNAL) < 0) return strerrorname_np(errno);
    usleep(1000);
  }
  return "none";
}

/* Not as one arrives (adr/0005; 5, 25 and 105 ms behind the beginning): who ends with octets unread
   resets the stream, which is shown as an error. */
static void kill_between_nudges(pid_t peer) {
  usleep(60000);
  kill(peer, SIGKILL);
}

static void a_peer_is_killed_while_we_read(void) {
  struct peer peer = start_peer(stays);
  const int fd = connect_to_peer(&peer);
  SAY(read_word(peer.words));
  kill_between_nudges(peer.pid);
  SAY(recv(fd, octets, 1, 0));
  SAY(end_peer(&peer));
  TELL(last_error_of_writing(fd));
  SAY(close(fd));
}

static void a_peer_is_killed_while_we_poll(void) {
  struct peer peer = start_peer(stays);
  const int fd = connect_to_peer(&peer);
  SAY(read_word(peer.words));
  kill_between_nudges(peer.pid);
  SAY(wait_for(fd, POLLIN | POLLRDHUP));
  SAY(recv(fd, octets, 1, 0));
  SAY(end_peer(&peer));
  SAY(close(fd));
}

static void* kill_soon(void* pid) {
  usleep(200 * 1000);
  kill(*(pid_t*)pid, SIGKILL);
  return NULL;
}

/* It has read nothing of what it was sent: TCP resets. */
static void a_peer_is_killed_while_we_write(void) {
  struct peer peer = start_peer(stays);
  const int fd = connect_to_peer(&peer);
  SAY(read_word(peer.words));
  pthread_t killer;
  pthread_create(&killer, NULL, kill_soon, &peer.pid);
  ssize_t sent = 1;
  while (sent > 0) sent = send(fd, octets, sizeof octets, MSG_NOSIGNAL);
  SAY(sent);
  pthread_join(killer, NULL);
  SAY(send(fd, octets, 1, MSG_NOSIGNAL));
  SAY(end_peer(&peer));
  SAY(close(fd));
}

/* What it has sent before is a beginning of what it meant to send. */
static void a_peer_is_killed_while_it_writes(void) {
  struct peer peer = start_peer(sends_for_ever);
  const int fd = connect_to_peer(&peer);
  SAY(read_word(peer.words));
  usleep(100 * 1000);
  kill(peer.pid, SIGKILL);
  SAY(end_peer(&peer));
  long got = 0;
  ssize_t part = 1;
  while ((part = recv(fd, octets, sizeof octets, 0)) > 0) got += part;
  SAY(part);
  SAY(got > 0);
  SAY(recv(fd, octets, 1, 0));
  SAY(close(fd));
}

static void reading_is_shut(void) {
  struct pair pair = open_ipv4_pair();
  SAY(shutdown(pair.client, SHUT_RD));
  SAY(recv(pair.client, octets, 1, 0));
  SAY(wait_for(pair.client, POLLIN | POLLRDHUP));
  SAY(send(pair.client, "still", 5, 0));
  SAY(receive_pattern(pair.server, 0, 0));
  SAY(recv(pair.server, octets, 5, MSG_WAITALL));
  SAY(shutdown(pair.client, SHUT_WR));
  SAY(recv(pair.server, octets, 5, 0));
  close_pair(&pair);
}

static void writing_is_shut(void) {
  struct pair pair = open_ipv4_pair();
  SAY(shutdown(pair.client, SHUT_WR));
  SAY(shutdown(pair.client, SHUT_WR));
  SAY(send(pair.client, octets, 1, MSG_NOSIGNAL));
  SAY(recv(pair.server, octets, 1, 0));
  SAY(wait_for(pair.server, POLLIN | POLLOUT | POLLRDHUP));
  SAY(send(pair.server, "back", 4, 0));
  SAY(recv(pair.client, octets, 4, MSG_WAITALL));
  SAY(shutdown(pair.server, SHUT_WR));
  SAY(recv(pair.client, octets, 4, 0));
  SAY(wait_for(pair.client, POLLIN | POLLOUT | POLLRDHUP));
  close_pair(&pair);
}

static void both_are_shut(void) {
  struct pair pair = open_ipv4_pair();
  SAY(send(pair.client, "last", 4, 0));
  SAY(shutdown(pair.client, SHUT_RDWR));
  SAY(recv(pair.client, octets, 1, 0));
  SAY(send(pair.client, octets, 1, MSG_NOSIGNAL));
  SAY(recv(pair.server, octets, 4, MSG_WAITALL));
  SAY(recv(pair.server, octets, 4, 0));
  SAY(shutdown(pair.server, SHUT_RDWR));
  SAY(wait_for(pair.server, POLLIN | POLLOUT | POLLRDHUP));
  close_pair(&pair);
}

static volatile sig_atomic_t pipes;
static void count_pipe(int number) {
  (void)number;
  ++pipes;
}

static void sigpipe(void) {
  signal(SIGPIPE, count_pipe);
  struct pair pair = open_ipv4_pair();
  SAY(shutdown(pair.client, SHUT_WR));
  SAY(send(pair.client, octets, 1, 0));
  SAY(pipes);
  SAY(write(pair.client, octets, 1));
  SAY(pipes);
  SAY(send(pair.client, octets, 1, MSG_NOSIGNAL));
  SAY(pipes);
  int ends[2];
  need(pipe(ends) == 0 && write(ends[1], octets, 4) == 4, "pipe");
  SAY(splice(ends[0], NULL, pair.client, NULL, 4, 0));
  SAY(pipes);
  close(ends[0]), close(ends[1]);
  close(pair.server);
  close_pair(&pair);
}

static void writing_to_a_peer_that_closed(void) {
  struct pair pair = open_ipv4_pair();
  SAY(close(pair.server));
  SAY(wait_for(pair.client, POLLIN));
  SAY(recv(pair.client, octets, 1, 0));
  TELL(last_error_of_writing(pair.client));
  SAY(send(pair.client, octets, 1, MSG_NOSIGNAL));
  SAY(recv(pair.client, octets, 1, 0));
  close(pair.client), close(pair.listener);
}

/* close() on what has unread octets: TCP resets. */
static void closed_with_unread_octets(void) {
  struct pair pair = open_ipv4_pair();
  SAY(send(pair.client, "unread", 6, 0));
  SAY(wait_for(pair.server, POLLIN));
  SAY(close(pair.server));
  SAY(wait_for(pair.client, POLLIN) != 0);
  SAY(recv(pair.client, octets, 1, 0));
  close(pair.client), close(pair.listener);
}

static void closed_at_once(void) {
  struct pair pair = open_ipv4_pair();
  const struct linger none = {1, 0};
  SAY(setsockopt(pair.server, SOL_SOCKET, SO_LINGER, &none, sizeof none));
  SAY(close(pair.server));
  SAY(wait_for(pair.client, POLLIN) != 0);
  SAY(recv(pair.client, octets, 1, 0));
  SAY(recv(pair.client, octets, 1, 0));
  close(pair.client), close(pair.listener);
}

static void* shut_soon(void* fd) {
  usleep(100 * 1000);
  shutdown(*(int*)fd, SHUT_RDWR);
  return NULL;
}

static void a_reader_is_woken_by_shutdown(void) {
  struct pair pair = open_ipv4_pair();
  pthread_t other;
  pthread_create(&other, NULL, shut_soon, &pair.client);
  SAY(recv(pair.client, octets, 1, 0));
  pthread_join(other, NULL);
  close_pair(&pair);
}

static void who_waits_in_accept_is_woken_by_shutdown(void) {
  int listener = listen_on(AF_INET);
  const struct sockaddr_storage name = name_of(listener);
  pthread_t other;
  pthread_create(&other, NULL, shut_soon, &listener);
  SAY(accept(listener, NULL, NULL));
  pthread_join(other, NULL);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  SAY(connect(fd, (const struct sockaddr*)&name, sizeof(struct sockaddr_in)));
  close(fd), close(listener);
}

/* Connections that nobody accepted are ended with their listener. */
static void a_listener_closes_with_connections_waiting(void) {
  const int listener = listen_on(AF_INET);
  const struct sockaddr_storage name = name_of(listener);
  const int fd = connect_to(&name);
  SAY(wait_for(listener, POLLIN));
  SAY(close(listener));
  SAY(wait_for(fd, POLLIN) != 0);
  char octet;
  SAY(recv(fd, &octet, 1, 0) <= 0);
  close(fd);
}

static void tell_state(int fd) {
  struct tcp_info info;
  socklen_t size = sizeof info;
  SAY(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size));
  SAY(info.tcpi_state);
  struct sockaddr_in name;
  size = sizeof name;
  SAY(getpeername(fd, (struct sockaddr*)&name, &size));
}

/* Who has said nothing himself has a peer still, however that ended. */
static void how_far_it_has_ended(void) {
  char octet = 0;
  struct pair pair = open_ipv4_pair();
  tell_state(pair.client);
  SAY(send(pair.client, "x", 1, 0));
  SAY(shutdown(pair.client, SHUT_WR));
  SAY(wait_for(pair.server, POLLRDHUP) & POLLRDHUP);
  tell_state(pair.server);
  SAY(recv(pair.server, &octet, 1, 0));
  SAY(recv(pair.server, &octet, 1, 0));
  tell_state(pair.server);
  usleep(200000); /* TCP's word that the end has come may be late */
  tell_state(pair.client);
  SAY(close(pair.client));
  SAY(shutdown(pair.server, SHUT_WR));
  SAY(wait_for(pair.server, POLLHUP) & POLLHUP);
  tell_state(pair.server);
  SAY(shutdown(pair.server, SHUT_RDWR));
  close(pair.server), close(pair.listener);
  pair = open_ipv4_pair();
  SAY(send(pair.client, "x", 1, 0));
  SAY(close(pair.client));
  SAY(wait_for(pair.server, POLLRDHUP) & POLLRDHUP);
  usleep(300000); /* longer than a connection stays that has ended */
  tell_state(pair.server);
  SAY(recv(pair.server, &octet, 1, 0));
  SAY(recv(pair.server, &octet, 1, 0));
  tell_state(pair.server);
  close(pair.server), close(pair.listener);
}

const struct test_case ends_cases[] = {
    {"the_server_closes_with_octets_on_the_way", the_server_closes_with_octets_on_the_way},
    {"the_server_exits_with_octets_on_the_way", the_server_exits_with_octets_on_the_way},
    {"the_server_ends_at_once_with_octets_on_the_way",
     the_server_ends_at_once_with_octets_on_the_way},
    {"the_server_exits_after_its_child", the_server_exits_after_its_child},
    {"the_client_closes_with_octets_on_the_way", the_client_closes_with_octets_on_the_way},
    {"the_client_ends_its_half_with_octets_on_the_way",
     the_client_ends_its_half_with_octets_on_the_way},
    {"a_peer_is_killed_while_we_read", a_peer_is_killed_while_we_read},
    {"a_peer_is_killed_while_we_poll", a_peer_is_killed_while_we_poll},
    {"a_peer_is_killed_while_we_write", a_peer_is_killed_while_we_write},
    {"a_peer_is_killed_while_it_writes", a_peer_is_killed_while_it_writes},
    {"reading_is_shut", reading_is_shut},
    {"writing_is_shut", writing_is_shut},
    {"both_are_shut", both_are_shut},
    {"sigpipe", sigpipe},
    {"writing_to_a_peer_that_closed", writing_to_a_peer_that_closed},
    {"how_far_it_has_ended", how_far_it_has_ended},
    {"closed_with_unread_octets", closed_with_unread_octets},
    {"closed_at_once", closed_at_once},
    {"a_reader_is_woken_by_shutdown", a_reader_is_woken_by_shutdown},
    {"who_waits_in_accept_is_woken_by_shutdown", who_waits_in_accept_is_woken_by_shutdown},
    {"a_listener_closes_with_connections_waiting", a_listener_closes_with_connections_waiting},
    {NULL, NULL},
};
