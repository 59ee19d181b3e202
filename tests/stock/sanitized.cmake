# The stock programs on libraries with AddressSanitizer and UBSan (preset dev) or ThreadSanitizer
# (preset tsan): each program at least once, both personas, both engines. sanitizer.py says how.
weft_stock(devices CASES devices devinfo devinfo_verbose)
weft_stock(rping CASES large both_ends)
weft_stock(cm CASES ucmatose ucmatose_persona_ib rdma_client cmtime rdma_xclient xrc_is_refused)
weft_stock(perftest CASES plain inline.write_bw inline.read_lat inline.send_lat events.read_lat
           events.send_bw shared_receive_queue.bw atomic.fetch_and_add atomic.cmp_and_swap_lat
           atomic_inline.cmp_and_swap)
weft_stock(perftest persona CASES by_modify_qp by_modify_qp_inline.bw
           by_modify_qp_atomic.fetch_and_add by_modify_qp_shared_receive_queue)
# Not srq.short, rc.short, nor qperf's sizes.one_octet: there the program sends inline from a buffer
# that it has posted for receiving, a race of its own with its peer, which ThreadSanitizer sees.
weft_stock(pingpong CASES rc.gid rc.events rc.large srq.gid srq.events placed inline)
# Its server makes a child for each client. A test takes a second, so these are few.
weft_stock(qperf CASES sizes.a_page one_number inline persona_ib_by_cm)
# unmapped: faults on registered memory, where the sanitizer has a handler of SIGSEGV of its own.
weft_stock(bad_input CASES unmapped full_cq crowd_of_strangers silent_client)
weft_stock(sockets_api CASES board fetch board_without_iwarp)
# rstream.small sends 16 octets out of one, riostream looks at memory while it is written, and the
# others leave what they allocated: those with the sanitizer that has nothing to say of it.
if(WEFT_SANITIZE MATCHES "thread")
  set(streams rstream socat a_server_that_forks asyncio_200_clients memcached a_peer_that_is_killed)
else()
  set(streams rstream.defaults rstream.blocking rstream.polling rstream.verify riostream)
endif()
weft_stock(sockets CASES ${streams} redis)
# Not processes and limits: the sanitizers need descriptors and memory for themselves, and take the
# threads of a forked child for its parent's. ThreadSanitizer has what threads meet in.
set(surface surface.octets surface.ready surface.signals hostile_readers)
if(NOT WEFT_SANITIZE MATCHES "thread")
  list(APPEND surface surface.calls surface.ends surface.options hostile_clients hostile_server
       a_client_that_sends_more_than_its_credits)
endif()
weft_stock(surface CASES ${surface} TIMEOUT 600)
weft_stock(fio CASES rdma.write_iwarp rdma.read_ib rdma.send_iwarp)
weft_stock(fabric)
weft_stock(mpi CASES ring.iwarp_2 allreduce.ib_2 window.iwarp_2)
# The server clears its memory and then tells the client of it, by which the client's Writes come
# later: an order that goes through the peer, where ThreadSanitizer cannot see it.
if(NOT WEFT_SANITIZE MATCHES "thread")
  set(one_sided transport.put_bw_zcopy transport.get_zcopy transport.fetch_add)
endif()
weft_stock(ucx CASES info transport.am_lat_short transport.am_lat_bcopy upper_half ${one_sided})
weft_stock(rdma_core iwarp CASES tests.iwarp)
weft_stock(rdma_core ib CASES tests.ib)

# Which reports are let pass.
add_test(NAME stock_sanitizer
         COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/sanitizer_test.py)
set_tests_properties(stock_sanitizer PROPERTIES LABELS "stock" TIMEOUT 60)

# That a report fails a test: errors made on purpose, and what is said of them.
weft_stock_program(planted.c)
# weft_planted(short "heap-buffer-overflow")   the ctest stock_planted_short, which passes if its
#   one case fails with a report of these words.
function(weft_planted error words)
  weft_stock(planted ${error} CASES planted.${error})
  set_tests_properties(stock_planted_${error} PROPERTIES PASS_REGULAR_EXPRESSION
    "FAILED planted.${error} .*reports of a sanitizer.*${words}.*\n0 passed, 1 failed")
endfunction()
weft_planted(fault "SEGV on unknown address")
if(WEFT_SANITIZE MATCHES "thread")
  weft_planted(race "data race.*libibverbs")
else()
  weft_planted(short "heap-buffer-overflow.*libibverbs")
  weft_planted(unaligned "misaligned address")
  weft_planted(leak "Direct leak.*rdma_getaddrinfo")
endif()

add_dependencies(tsan_tests weft ibverbs rdmacm weft-sockets example_board example_fetch
                 stock_planted stock_unmap stock_full_cq stock_surface stock_hostile stock_victim)
if(TARGET stock_mpi)
  add_dependencies(tsan_tests stock_mpi)
endif()
