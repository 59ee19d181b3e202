/* Extended sockets: what a sockets program may ask of libweft-sockets.so (`weft run --sockets`).
 *
 * Without that library setsockopt answers ENOPROTOOPT, and the socket is what it was.
 */
#pragma once

/* The level of weft's own socket options. */
#define SOL_IWARP 0x49575250

/* How the socket will carry its stream; an int, to be set before listen or connect. */
#define IWARP_MODE 1

/* Its values. */
#define IWARP_MODE_OFF 0      /* TCP, whatever the rules of `weft run` say */
#define IWARP_MODE_ON 1       /* iWARP; connecting to a peer without it falls back to TCP */
#define IWARP_MODE_REQUIRED 2 /* iWARP, or an error */
