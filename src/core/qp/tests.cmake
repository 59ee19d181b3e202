# Paths are relative to src/core.
weft_test(core_qp
  SOURCES
    qp/atomic_test.cc
    qp/attributes_test.cc
    qp/bind_test.cc
    qp/condition_test.cc
    qp/cq_state_test.cc
    qp/fence_test.cc
    qp/flush_test.cc
    qp/immediate_test.cc
    qp/landed_test.cc
    qp/landing_test.cc
    qp/lone_write_test.cc
    qp/nudge_test.cc
    qp/paired_test.cc
    qp/probe_test.cc
    qp/qp_state_test.cc
    qp/read_test.cc
    qp/receive_holdback_test.cc
    qp/run_test.cc
    qp/send_test.cc
    qp/short_test.cc
    qp/srq_state_test.cc
    qp/teardown_test.cc
    qp/terminate_test.cc
    qp/write_test.cc
  DEPENDS core)
if(TARGET core_qp_test)
  target_compile_definitions(core_qp_test PRIVATE
    WEFT_QP_STATE_TABLE="${CMAKE_CURRENT_LIST_DIR}/qp_state_table.txt"
    WEFT_CQ_STATE_TABLE="${CMAKE_CURRENT_LIST_DIR}/cq_state_table.txt"
    WEFT_SRQ_STATE_TABLE="${CMAKE_CURRENT_LIST_DIR}/srq_state_table.txt")
endif()
weft_fuzz(core_qp SOURCES qp/qp_fuzz.cc DEPENDS core_testing CORPUS qp/corpus/qp)
