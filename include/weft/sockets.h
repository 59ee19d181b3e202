/* Extended sockets: what a sockets program may ask of libweft-sockets.so.
 *
 * The library is preloaded (`weft run --sockets`) or linked (pkg-config weft-sockets). A socket in
 * IWARP_MODE carries its stream over iWARP; its program may also register memory, read and write
 * the peer's memory without the peer's program, and have octets sent and received while it does
 * something else. The peer may be any program with this library; for the stream, any rsockets
 * program. weft-sockets(7) tells the whole.
 *
 * Threads: every call may be made by any thread at any time, also on the same socket.
 * Errors: calls give -1 (or what they say) and set errno. All that take a socket know
 *   EBADF       not open, or closed meanwhile
 *   ENOTSOCK    no socket
 *   EOPNOTSUPP  the socket is not in IWARP_MODE, fell back to TCP, or is a parent process's
 *   ENOTCONN    it is not connected (yet), or the peer has ended the connection
 *   ECONNRESET  the connection broke
 * No call raises SIGPIPE.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/* The level of weft's own socket options. Without the library setsockopt answers ENOPROTOOPT. */
#define SOL_IWARP 0x49575250

/* How the socket will carry its stream; an int, to be set before listen or connect. */
#define IWARP_MODE 1

/* Its values. */
#define IWARP_MODE_OFF 0      /* TCP, whatever the rules of `weft run` say */
#define IWARP_MODE_ON 1       /* iWARP; connecting to a peer without it falls back to TCP */
#define IWARP_MODE_REQUIRED 2 /* iWARP, or an error */

/* How many operations may be open on the socket at once; an int, 1 to IWARP_OPERATIONS_MAX, to be
 * set before listen or connect. Accepted sockets have their listener's. */
#define IWARP_OPERATIONS 2

/* Limits. */
#define IWARP_OPERATIONS_DEFAULT 128
#define IWARP_OPERATIONS_MAX 4096
#define IWARP_REGIONS_MAX 1024        /* memory registered on one socket at once */
#define IWARP_OCTETS_MAX 0x40000000ul /* of one operation */
#define IWARP_IOV_MAX 16              /* pieces of one operation */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Registered memory: iwarp_register(3) ---- */

/* What memory may serve for, beside being the source of own writes and sends. */
#define IWARP_LOCAL_WRITE 1  /* the target of own reads */
#define IWARP_REMOTE_READ 2  /* the peer may read it */
#define IWARP_REMOTE_WRITE 4 /* the peer may write it; implies IWARP_LOCAL_WRITE */

/* Registers `octets` octets (at least 1) at `memory` on the socket, for it and its peer alone.
 *
 * returns  a number, 0 or more, that names the region on this socket and is not given out again.
 * lifetime The memory must stay mapped until iwarp_deregister or the socket's last close; a peer
 *          that touches memory that was unmapped loses the connection.
 * errors   EINVAL (no memory, unknown rights), ENOBUFS (IWARP_REGIONS_MAX), ENOMEM and what the
 *          device says. */
int iwarp_register(int fd, void* memory, size_t octets, int rights);

/* Ends a registration. When it returns the peer cannot touch the memory any more; a peer that
 * tries loses the connection.
 *
 * errors   EINVAL (no such region), EBUSY (an operation of this program that uses it is not done;
 *          nothing has changed). */
int iwarp_deregister(int fd, int region);

/* A remote key: tells another program of a region. These octets may be sent as they are, over the
 * socket itself or otherwise, between machines of any byte order. Good on the connection whose
 * socket made it, at its other end. */
struct iwarp_key {
  unsigned char octets[32];
};

/* As a text of hexadecimal digits with its final 0. */
#define IWARP_KEY_TEXT_OCTETS 65

/* What a key tells: the peer's memory. `address` and `key` mean something to the peer alone. */
struct iwarp_remote {
  uint64_t address;
  uint64_t octets;
  uint32_t key;
  uint32_t rights; /* of IWARP_REMOTE_READ and IWARP_REMOTE_WRITE */
};

/* The key of a region.
 * errors   EFAULT (no key), EINVAL (no such region), EACCES (registered with no remote right) */
int iwarp_export(int fd, int region, struct iwarp_key* key);

/* Reads a key. Needs no socket.
 * errors   EFAULT (a null pointer), EBADMSG (no key, or damaged), EPROTONOSUPPORT (of a later
 *          version) */
int iwarp_import(const struct iwarp_key* key, struct iwarp_remote* remote);

/* errors of the second: EFAULT (a null pointer), EBADMSG (no such text, or what iwarp_import would
 * say) */
void iwarp_key_to_text(const struct iwarp_key* key, char text[IWARP_KEY_TEXT_OCTETS]);
int iwarp_key_from_text(const char* text, struct iwarp_key* key);

/* ---- Reads and writes of the peer's memory: iwarp_write(3) ----
 *
 * `offset` counts octets from the start of the peer's region. Local memory must lie, each piece by
 * itself, inside one region of this socket. Nothing is copied. Further errors, before anything
 * is sent:
 *   EFAULT    local memory that is not registered, no iovecs
 *   EACCES    the region is not registered for that, or the peer's key does not allow it
 *   ERANGE    beyond the end of the peer's region
 *   EINVAL    a count that is no count, no remote
 *   EMSGSIZE  more than IWARP_OCTETS_MAX, more than IWARP_IOV_MAX pieces
 * What the key allows but the peer has revoked ends the connection: ECONNRESET; the reader whose
 * read was refused sees EACCES.
 */

/* Wait until the operation is done, also if the socket is non-blocking, and whatever its
 * SO_SNDTIMEO: the memory is in use until then. Signal handlers run, and do not end them.
 *
 * iwarp_write: done when the local memory may be used again. The peer has the octets at the latest
 *              when it receives what this socket sends afterwards.
 * iwarp_read:  done when the octets are there.
 * returns      the octets, all of them.
 * errors       EMFILE: there is no descriptor for the thread to wait on. */
ssize_t iwarp_write(int fd, const void* from, size_t octets, const struct iwarp_remote* to,
                    uint64_t offset);
ssize_t iwarp_read(int fd, void* to, size_t octets, const struct iwarp_remote* from,
                   uint64_t offset);
ssize_t iwarp_writev(int fd, const struct iovec* from, int count, const struct iwarp_remote* to,
                     uint64_t offset);
ssize_t iwarp_readv(int fd, const struct iovec* to, int count, const struct iwarp_remote* from,
                    uint64_t offset);

/* ---- Posted operations: iwarp_post_write(3) ----
 *
 * Start an operation and return 0; what became of it, a completion tells, by `context`. The memory
 * is the operation's until then; the iovecs and the remote only during the call. They never wait:
 *   EAGAIN  as many are open as IWARP_OPERATIONS says; an operation is open until iwarp_poll or
 *           iwarp_wait gave its completion
 */
int iwarp_post_write(int fd, const void* from, size_t octets, const struct iwarp_remote* to,
                     uint64_t offset, uint64_t context);
int iwarp_post_read(int fd, void* to, size_t octets, const struct iwarp_remote* from,
                    uint64_t offset, uint64_t context);
int iwarp_post_writev(int fd, const struct iovec* from, int count, const struct iwarp_remote* to,
                      uint64_t offset, uint64_t context);
int iwarp_post_readv(int fd, const struct iovec* to, int count, const struct iwarp_remote* from,
                     uint64_t offset, uint64_t context);

/* Sends octets of registered memory on the stream, without copying them here, behind all that was
 * sent before. Done when the memory may be used again. EPIPE: the socket was shut for writing. */
int iwarp_post_send(int fd, const void* from, size_t octets, uint64_t context);
int iwarp_post_sendv(int fd, const struct iovec* from, int count, uint64_t context);

/* Receives octets of the stream, before any later call that receives. The memory need not be
 * registered. Done when there are some (with MSG_WAITALL: when it is full), or at the end of the
 * stream, then with fewer or no octets. flags: 0 or MSG_WAITALL, else EINVAL. EFAULT: a null
 * pointer. */
int iwarp_post_recv(int fd, void* to, size_t octets, int flags, uint64_t context);

/* ---- Completions: iwarp_poll(3) ---- */

enum iwarp_operation { IWARP_WRITE = 1, IWARP_READ = 2, IWARP_SEND = 3, IWARP_RECEIVE = 4 };

struct iwarp_completion {
  uint64_t context;   /* as it was posted */
  uint64_t octets;    /* moved; after an error, of a receive those that came, else 0 */
  int32_t error;      /* an errno, 0: none */
  uint32_t operation; /* enum iwarp_operation */
};

/* Take up to `count` completions of posted operations, oldest first; of writes and reads they come
 * in the order of posting, likewise of sends and of receives. They go on giving completions after
 * the connection has ended, until all were taken.
 *
 * iwarp_poll: does not wait.
 * iwarp_wait: waits for the first, at most `timeout_ms` (-1: for ever). EINTR: a signal came.
 *             EMFILE, ENFILE: there is no descriptor to wait on.
 * returns     how many; 0: there are none, in time, or nothing is open. EINVAL: count below 1.
 *             EFAULT: no room for completions. */
int iwarp_poll(int fd, struct iwarp_completion* completions, int count);
int iwarp_wait(int fd, struct iwarp_completion* completions, int count, int timeout_ms);

/* A descriptor that is readable while there are completions to take, for poll, select and epoll,
 * and for ever once the socket is closed. From then on posted sends and receives go on without the
 * program's calls. It is close-on-exec and the caller's to close; it must not be read or written.
 * errors   EMFILE, ENFILE */
int iwarp_completion_fd(int fd);

#ifdef __cplusplus
}
#endif
