/* An ordinary sockets program, which a peer misbehaves against; for surface.py.

   usage: stock_victim serve|connect PORT [read|write|wait]
   serve: accepts for ever and tells how each connection ended; connect: makes one. It reads (or
   writes, or waits and reads then) until that ends, and prints whether octets came and the errno.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void live(int fd, const char* does) {
  static char octets[4096];
  const int writes = strcmp(does, "write") == 0;
  if (strcmp(does, "wait") == 0) {
    struct pollfd one = {fd, 0, 0}; /* only its end wakes it */
    poll(&one, 1, -1);
  }
  long sum = 0;
  ssize_t part = 0;
  do {
    part =
        writes ? send(fd, octets, sizeof octets, MSG_NOSIGNAL) : recv(fd, octets, sizeof octets, 0);
    if (part > 0) sum += part;
  } while (part > 0);
  printf("%s %s\n", sum == 0 ? "nothing" : "octets", part == 0 ? "END" : strerrorname_np(errno));
  fflush(stdout);
  close(fd);
}

int main(int count, char** words) {
  if (count < 3) return 2;
  const char* const does = count > 3 ? words[3] : "read";
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  address.sin_port = htons((uint16_t)strtol(words[2], NULL, 10));
  if (strcmp(words[1], "connect") == 0) {
    if (connect(fd, (struct sockaddr*)&address, sizeof address) == 0) {
      live(fd, does);
    } else {
      printf("not connected %s\n", strerrorname_np(errno));
    }
    return 0;
  }
  if (bind(fd, (struct sockaddr*)&address, sizeof address) != 0 || listen(fd, 20) != 0) return 1;
  for (;;) {
    const int connection = accept(fd, NULL, NULL);
    if (connection < 0) return 1;
    live(connection, does);
  }
}
