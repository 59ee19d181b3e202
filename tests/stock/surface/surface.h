/* What a sockets program sees, told line by line: the families of surface.py.

   Each case makes calls and prints their results. surface.py runs it twice, on plain TCP and in
   IWARP_MODE, and wants the same lines; so nothing is printed that differs from run to run: no
   ports, no times, no sizes of the kernel's choice. */
#pragma once

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <netinet/in.h>

enum { PATIENCE_S = 30 };

struct test_case {
  const char* name;
  void (*run)(void);
};
/* Each family's cases, the last without a name. */
extern const struct test_case calls_cases[], octets_cases[], ends_cases[], ready_cases[],
    processes_cases[], shared_cases[], options_cases[], signals_cases[], limits_cases[];

/* Prints "WHAT: RESULT", and the name of errno behind a result below 0. errno stays. */
long say(const char* what, long result);
#define SAY(call) say(#call, (long)(call))
/* The same for words. */
void tell(const char* what, const char* text);
#define TELL(text) tell(#text, text)
/* Ends the process with a line on stderr if the test itself cannot go on. */
void need(int holds, const char* what);

/* Both ends of a connection, and the listener, in this process. */
struct pair {
  int listener, client, server;
};
int listen_on(int family);               /* a loopback port of the kernel's choice */
struct sockaddr_storage name_of(int fd); /* getsockname */
socklen_t octets_of(const struct sockaddr_storage* address);
int connect_to(const struct sockaddr_storage* address);
struct pair open_pair(int family);
struct pair open_ipv4_pair(void);
void close_pair(struct pair* pair);

/* Waits until `fd` has one of the events; gives what it has, 0 after PATIENCE_S. By poll. */
short wait_for(int fd, short events);
/* Sends and receives exactly so many octets of the pattern that belongs to `start`; how many were
   right before an end, an error (-1) or a wrong octet. */
long send_pattern(int fd, uint64_t start, long octets);
long receive_pattern(int fd, uint64_t start, long octets);
unsigned char pattern_at(uint64_t place);

/* Another process that runs `work(argument)`, forked before this one has any socket. */
struct peer {
  pid_t pid;
  int words; /* what it writes comes out here; what is written here it reads */
};
struct peer start_peer(void (*work)(int words));
int peer_port(const struct peer* peer); /* the first word that it sent: an int */
void send_word(int words, int word);
int read_word(int words);        /* -1: the other side is gone */
int end_peer(struct peer* peer); /* waits; its status as of waitpid */
struct sockaddr_storage loopback(int port);
