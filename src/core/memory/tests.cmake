# Tests of core/memory; paths are relative to src/core.
weft_test(core_memory_table
  SOURCES memory/memory_table_test.cc memory/memory_windows_test.cc
  DEPENDS core)
