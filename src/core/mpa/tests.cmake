# Tests and fuzzers of core/mpa; paths are relative to src/core.
weft_test(core_transmit_batch SOURCES transmit_batch_test.cc DEPENDS core)
weft_test(core_framer SOURCES mpa/framer_test.cc DEPENDS core)
weft_test(core_deframer SOURCES mpa/deframer_test.cc DEPENDS core)
weft_test(core_startup SOURCES mpa/startup_test.cc mpa/startup_enhanced_test.cc DEPENDS core)

weft_fuzz(core_startup SOURCES mpa/startup_fuzz.cc DEPENDS core CORPUS mpa/corpus/startup)
weft_fuzz(core_deframer SOURCES mpa/deframer_fuzz.cc DEPENDS core CORPUS mpa/corpus/deframer)
