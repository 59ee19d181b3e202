// Completion events for the thread that finds them.
#pragma once

#include <infiniband/verbs.h>

/// From now on `taker(cookie)` is asked about each event of the channel, by the thread that found
/// it: true means that this thread takes it by ibv_get_cq_event itself, soon, and the channel's
/// descriptor does not show it. It is asked with locks of this library held, and calls nothing of
/// it. Null: nobody is asked any more. The descriptor shows again what was taken so and not yet
/// got. False: not a channel of weft's, whose descriptor shows all. For channels that nobody waits
/// at in ibv_get_cq_event: who does is not woken for an event that is taken.
///
/// In libibverbs.so.1 as weft_hand_events@WEFT_PRIVATE_1, for the sockets code, which does without
/// it on other verbs libraries.
extern "C" bool weft_hand_events(ibv_comp_channel* channel, bool (*taker)(void* cookie),
                                 void* cookie);
