// Process 1 of an interop guest: runs commands that come over a virtio-serial port.
//
// usage: agent PORT
//
// Frames, in both directions: a line of words, then as many octets as its number says.
//   host -> guest   run ID LENGTH        a shell script of LENGTH octets, in a session of its own
//                   signal ID NUMBER     to the whole session of that command, if it still runs
//                   file LENGTH PATH     the contents of PATH, which becomes executable
//   guest -> host   ready 0 0            once, at the start
//                   out ID LENGTH        output of a command, standard error included
//                   end ID STATUS        as wait() gave it; no output of that command follows
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kCommandsMax = 32, kLineMax = 512, kChunk = 4096 };

struct Command {
  int id, out, status, ended;
  pid_t pid;
};
static struct Command commands[kCommandsMax];
static int port;

static void die(const char* what) {
  perror(what);
  exit(1);  // the kernel stops, and the host sees its port closed
}

static void write_all(int to, const void* octets, size_t length) {
  const char* at = octets;
  while (length > 0) {
    const ssize_t n = write(to, at, length);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) die("write");
    at += n;
    length -= (size_t)n;
  }
}

static void read_all(void* octets, size_t length) {
  char* at = octets;
  while (length > 0) {
    const ssize_t n = read(port, at, length);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) die("read");
    at += n;
    length -= (size_t)n;
  }
}

static void say(const char* what, int id, long number, const void* octets) {
  char line[kLineMax];
  const int n = snprintf(line, sizeof line, "%s %d %ld\n", what, id, number);
  write_all(port, line, (size_t)n);
  if (octets != NULL) write_all(port, octets, (size_t)number);
}

static char* read_text(long length) {
  if (length < 0) die("length");
  char* text = malloc((size_t)length + 1);
  if (text == NULL) die("malloc");
  read_all(text, (size_t)length);
  text[length] = '\0';
  return text;
}

static void start(int id, char* script) {
  int ends[2];
  struct Command* free_one = NULL;
  for (int i = 0; i < kCommandsMax; ++i) {
    if (commands[i].id == 0) free_one = &commands[i];
  }
  if (free_one == NULL || pipe2(ends, O_CLOEXEC) != 0) die("start");
  const pid_t pid = fork();
  if (pid < 0) die("fork");
  if (pid == 0) {
    setsid();
    const int null = open("/dev/null", O_RDONLY);
    if (dup2(null, 0) < 0 || dup2(ends[1], 1) < 0 || dup2(ends[1], 2) < 0) _exit(126);
    execl("/bin/sh", "sh", "-c", script, (char*)NULL);
    _exit(127);
  }
  close(ends[1]);
  *free_one = (struct Command){.id = id, .out = ends[0], .pid = pid};
}

static void serve_host(void) {
  char line[kLineMax];
  size_t length = 0;
  do {
    if (length + 1 == sizeof line) die("line");
    read_all(line + length, 1);
  } while (line[length++] != '\n');
  line[length - 1] = '\0';

  char path[kLineMax];
  int id;
  long number;
  if (sscanf(line, "run %d %ld", &id, &number) == 2) {
    char* script = read_text(number);
    start(id, script);
    free(script);
  } else if (sscanf(line, "signal %d %ld", &id, &number) == 2) {
    for (int i = 0; i < kCommandsMax; ++i) {
      if (commands[i].id == id && !commands[i].ended) kill(-commands[i].pid, (int)number);
    }
  } else if (sscanf(line, "file %ld %511s", &number, path) == 2) {
    char* text = read_text(number);
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0755);
    if (file < 0) die(path);
    write_all(file, text, (size_t)number);
    close(file);
    free(text);
  } else {
    die(line);
  }
}

static void reap(void) {
  int status;
  pid_t pid;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
    for (int i = 0; i < kCommandsMax; ++i) {
      if (commands[i].id != 0 && commands[i].pid == pid) {
        commands[i].status = status;
        commands[i].ended = 1;
      }
    }
  }
}

// Hands on what there is. A command has ended when its shell has, and what that left in the pipe
// is read; a grandchild that keeps the pipe open does not hold the end back.
static void forward(struct Command* command) {
  char octets[kChunk];
  struct pollfd wait = {.fd = command->out, .events = POLLIN};
  int ended = command->ended;  // before the reads: what it wrote lies in the pipe by now
  while (poll(&wait, 1, 0) > 0) {
    const ssize_t n = read(command->out, octets, sizeof octets);
    if (n <= 0) {  // closed, though the shell may live on
      if (!ended) usleep(1000);
      break;
    }
    say("out", command->id, n, octets);
    if (!ended) break;
  }
  if (!ended) return;
  say("end", command->id, command->status, NULL);
  close(command->out);
  command->id = 0;
}

static void child_ended(int number) {
  (void)number;
}

int main(int argc, char** argv) {
  if (argc != 2 || (port = open(argv[1], O_RDWR | O_CLOEXEC)) < 0) die("port");
  struct sigaction action = {.sa_handler = child_ended};
  sigaction(SIGCHLD, &action, NULL);
  say("ready", 0, 0, NULL);
  for (;;) {
    struct pollfd wait[1 + kCommandsMax] = {{.fd = port, .events = POLLIN}};
    for (int i = 0; i < kCommandsMax; ++i) {
      wait[1 + i].fd = commands[i].id != 0 ? commands[i].out : -1;
      wait[1 + i].events = POLLIN;
    }
    // The time-out stands in for a SIGCHLD that came between reap() and here.
    if (poll(wait, 1 + kCommandsMax, 50) < 0 && errno != EINTR) die("poll");
    reap();
    for (int i = 0; i < kCommandsMax; ++i) {
      if (commands[i].id != 0 && (commands[i].ended || wait[1 + i].revents != 0)) {
        forward(&commands[i]);
      }
    }
    if (wait[0].revents != 0) serve_host();
  }
}
