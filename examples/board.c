/* A notice board in one process's memory, which others read and write by themselves.
 *
 *   board PORT                  keeps the board, for one visitor after the other
 *   board HOST PORT TEXT        writes TEXT on it, and prints what was there before
 *
 * The keeper's program does nothing while visitors read and write: it waits for the stream to end.
 *
 *   cc board.c $(pkg-config --cflags --libs weft-sockets)
 */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weft/sockets.h>

enum { BOARD_OCTETS = 256 };

static void need(int holds, const char* what) {
  if (holds) return;
  perror(what);
  exit(1);
}

/* A TCP socket that will carry its stream over iWARP, or not at all. */
static int iwarp_socket(const struct addrinfo* where) {
  const int fd = socket(where->ai_family, SOCK_STREAM, 0);
  const int mode = IWARP_MODE_REQUIRED, on = 1;
  need(fd >= 0, "socket");
  need(setsockopt(fd, SOL_IWARP, IWARP_MODE, &mode, sizeof mode) == 0, "IWARP_MODE");
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return fd;
}

static struct addrinfo* look_up(const char* host, const char* port) {
  struct addrinfo hints, *found = NULL;
  memset(&hints, 0, sizeof hints);
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = host == NULL ? AI_PASSIVE : 0;
  const int code = getaddrinfo(host, port, &hints, &found);
  if (code != 0) {
    fprintf(stderr, "%s: %s\n", host == NULL ? port : host, gai_strerror(code));
    exit(1);
  }
  return found;
}

static void keep(const char* port) {
  static char board[BOARD_OCTETS] = "nothing yet";
  struct addrinfo* where = look_up(NULL, port);
  const int listener = iwarp_socket(where);
  need(bind(listener, where->ai_addr, where->ai_addrlen) == 0, "bind");
  need(listen(listener, 8) == 0, "listen");
  for (;;) {
    const int fd = accept(listener, NULL, NULL);
    need(fd >= 0, "accept");
    /* Each visitor gets a key of his own, good on his connection alone. */
    const int region =
        iwarp_register(fd, board, sizeof board, IWARP_REMOTE_READ | IWARP_REMOTE_WRITE);
    struct iwarp_key key;
    if (region >= 0 && iwarp_export(fd, region, &key) == 0 &&
        send(fd, &key, sizeof key, MSG_NOSIGNAL) == (ssize_t)sizeof key) {
      char end;
      while (recv(fd, &end, 1, 0) > 0) continue;
      printf("%.*s\n", BOARD_OCTETS, board);
      fflush(stdout);
    }
    close(fd); /* which ends the registration */
  }
}

static void visit(const char* host, const char* port, const char* text) {
  struct addrinfo* where = look_up(host, port);
  const int fd = iwarp_socket(where);
  need(connect(fd, where->ai_addr, where->ai_addrlen) == 0, "connect");
  freeaddrinfo(where);

  char page[BOARD_OCTETS];
  need(iwarp_register(fd, page, sizeof page, IWARP_LOCAL_WRITE) >= 0, "iwarp_register");

  /* The keeper sends its key over the stream. */
  struct iwarp_key key;
  struct iwarp_remote board;
  need(recv(fd, &key, sizeof key, MSG_WAITALL) == (ssize_t)sizeof key, "recv");
  need(iwarp_import(&key, &board) == 0, "iwarp_import");

  need(iwarp_read(fd, page, sizeof page, &board, 0) >= 0, "iwarp_read");
  printf("%.*s\n", BOARD_OCTETS, page);
  snprintf(page, sizeof page, "%s", text);
  need(iwarp_write(fd, page, strlen(page) + 1, &board, 0) >= 0, "iwarp_write");
  close(fd); /* what was written is there before the keeper reads the end of the stream */
}

int main(int count, char** words) {
  if (count == 2) {
    keep(words[1]);
  } else if (count == 4) {
    visit(words[1], words[2], words[3]);
  } else {
    fprintf(stderr, "usage: board PORT | board HOST PORT TEXT\n");
    return 2;
  }
  return 0;
}
