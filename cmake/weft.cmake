# The few CMake functions that every folder uses: weft_library, weft_test, weft_prelude,
# weft_begin_with_prelude, weft_fuzz, weft_bench.

option(WEFT_WERROR "warnings are errors" OFF)
option(WEFT_FUZZ "build the libFuzzer targets (needs clang)" OFF)
option(WEFT_FREESTANDING "build only the freestanding gate" OFF)
option(WEFT_LTO "the drop-in libraries are optimised as a whole" OFF)
option(WEFT_PROFILE "and by a profile, which is made while they are built (needs WEFT_LTO)" OFF)
set(WEFT_TRAIN "" CACHE PATH "the drop-in libraries count for such a profile, into this folder")
set(WEFT_SANITIZE "" CACHE STRING "value for -fsanitize=")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

find_program(CCACHE ccache)
if(CCACHE)
  # Without the first it keeps nothing that was compiled behind a precompiled header; without the
  # second, what one build folder compiled is of no use to another one (scripts/train).
  set(ccache ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_NOHASHDIR=1
      ${CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${ccache})
  set(CMAKE_C_COMPILER_LAUNCHER ${ccache})
endif()

add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wno-missing-field-initializers
                    -fno-omit-frame-pointer)
if(WEFT_WERROR)
  add_compile_options(-Werror)
endif()
if(WEFT_SANITIZE)
  add_compile_options(-fsanitize=${WEFT_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${WEFT_SANITIZE})
  if(WEFT_SANITIZE MATCHES "undefined")
    # It looks whether memory is readable by writing it to a pipe, whose descriptors take numbers
    # that a program under test has just closed and counts on.
    add_compile_options(-fno-sanitize=vptr)
  endif()
endif()
if(WEFT_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
  add_compile_definitions(WEFT_FUZZ_BUILD=1)
endif()

# The core is many small files that call each other for every message. Objects hold code of both
# kinds, so that the tests, which link them too, link as fast as ever.
if(WEFT_LTO AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(weft_lto_compile -flto=auto -ffat-lto-objects)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    # What is cleared and copied for each message is a hundred octets or so. By itself g++ takes
    # string instructions for that, which need longer to begin than moves to end.
    list(APPEND weft_lto_compile -mmemset-strategy=unrolled_loop:256:noalign,libcall:-1:noalign
        -mmemcpy-strategy=unrolled_loop:256:noalign,libcall:-1:noalign)
  endif()
  set(weft_lto_link -flto=auto)
  string(APPEND CMAKE_EXE_LINKER_FLAGS " -fno-lto")
  include(profile)
endif()

# weft_sanitizer_runtime(VARIABLE)   the sanitizer's shared runtime of this compiler, which programs
#   that are not instrumented need (`weft run`); empty if there is none.
function(weft_sanitizer_runtime variable)
  set(${variable} "" PARENT_SCOPE)
  if(WEFT_SANITIZE MATCHES "address")
    set(kind asan)
  elseif(WEFT_SANITIZE MATCHES "thread")
    set(kind tsan)
  else()
    return()
  endif()
  set(name lib${kind}.so)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    set(name libclang_rt.${kind}-${CMAKE_SYSTEM_PROCESSOR}.so)
  endif()
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=${name}
                  OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE)
  # A compiler that has no such file answers with the name alone.
  if(IS_ABSOLUTE "${path}")
    file(REAL_PATH ${path} path)
    set(${variable} ${path} PARENT_SCOPE)
  endif()
endfunction()
weft_sanitizer_runtime(WEFT_SANITIZER_RUNTIME)

if(NOT WEFT_FREESTANDING)
  find_package(GTest REQUIRED)
  find_package(benchmark REQUIRED)
  find_package(Threads REQUIRED)

  # What ./test builds in preset tsan: the tests of the folders that have threads.
  add_custom_target(tsan_tests)
endif()

# weft_optimise(TARGET)    a part of the drop-in libraries: as a whole, and by a profile
function(weft_optimise target)
  target_compile_options(${target} PRIVATE ${weft_lto_compile})
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "SHARED_LIBRARY")
    target_link_options(${target} PRIVATE ${weft_lto_link})
  endif()
  if(TARGET weft_profile)
    add_dependencies(${target} weft_profile)
    get_target_property(sources ${target} SOURCES)
    set_source_files_properties(${sources} PROPERTIES OBJECT_DEPENDS ${WEFT_PROFILE_MADE})
    # The cache does not know what an object owes to a profile.
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER "" C_COMPILER_LAUNCHER "")
  endif()
endfunction()

# Headers that many sources begin with are compiled once for all of them (a precompiled header),
# which saves a third of their time in the compiler. A source still includes what it uses: only
# presets with sanitizers have preludes.
if(WEFT_SANITIZE AND NOT WEFT_FUZZ AND NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
  set(WEFT_PRELUDES ON)
endif()

# weft_prelude(engine TESTS HEADERS <gtest/gtest.h> <engine/testing/side.h> DEPENDS engine_testing)
#   What the TESTS, the LIBRARIES or the PROGRAMS that are named behind it, in this folder and
#   below, begin with. DEPENDS is linked into each of those tests; USES are the headers' libraries.
function(weft_prelude name kind)
  cmake_parse_arguments(arg "" "" "HEADERS;DEPENDS;USES" ${ARGN})
  list(TRANSFORM arg_DEPENDS PREPEND weft_)
  if(kind STREQUAL "TESTS")
    set(WEFT_PRELUDE_DEPENDS ${arg_DEPENDS} PARENT_SCOPE)
  endif()
  if(NOT WEFT_PRELUDES)
    return()
  endif()
  set(target weft_prelude_${name})
  set(source ${CMAKE_SOURCE_DIR}/tests/support/prelude_main.cc)
  # Of the kind that it is for, so that its headers are compiled with the options of those.
  if(kind STREQUAL "LIBRARIES")
    add_library(${target} STATIC EXCLUDE_FROM_ALL ${source})
  else()
    add_executable(${target} EXCLUDE_FROM_ALL ${source})
  endif()
  if(kind STREQUAL "TESTS")
    target_compile_options(${target} PRIVATE ${WEFT_TEST_OPTIONS})
    target_link_libraries(${target} PRIVATE ${arg_DEPENDS} GTest::gmock GTest::gtest_main)
  endif()
  target_link_libraries(${target} PRIVATE ${arg_USES})
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR})
  target_precompile_headers(${target} PRIVATE ${arg_HEADERS})
  set(WEFT_PRELUDE_OF_${kind} ${target} PARENT_SCOPE)
endfunction()

# weft_begin_with_prelude(TARGET LIBRARIES)   the prelude of that kind, if there is one
function(weft_begin_with_prelude target kind)
  if(WEFT_PRELUDE_OF_${kind})
    target_precompile_headers(${target} REUSE_FROM ${WEFT_PRELUDE_OF_${kind}})
    target_compile_options(${target} PRIVATE
      $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)  # for ccache
  endif()
endfunction()

# weft_library(core SOURCES a.cc b.cc DEPENDS wire base)
#   The static library weft_core. DEPENDS are folders of src/, exactly those its arrow allows.
function(weft_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS;LIBRARIES" ${ARGN})
  add_library(weft_${name} STATIC ${arg_SOURCES})
  weft_optimise(weft_${name})
  weft_begin_with_prelude(weft_${name} LIBRARIES)
  target_include_directories(weft_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  list(TRANSFORM arg_DEPENDS PREPEND weft_)
  target_link_libraries(weft_${name} PUBLIC ${arg_DEPENDS} ${arg_LIBRARIES})
endfunction()

# weft_for_sanitizers(TARGET)   a test that ./test runs with a sanitizer only; without, it is built
#   if it is named.
function(weft_for_sanitizers target)
  if(NOT WEFT_SANITIZE)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endfunction()

# With sanitizers, what is under test is compiled as ever; of the tests themselves, whose macros are
# most of the compiler's work, 60 % of it is saved. A null pointer ends them anyway.
if(WEFT_SANITIZE)
  set(WEFT_TEST_OPTIONS -O0 -fno-sanitize=null,alignment)
endif()

# weft_test(core_qp SOURCES qp_test.cc DEPENDS core)    the executable core_qp_test, one ctest entry
#   Labels: unit and those of LABELS. Tests of transport, device and engine are labelled tsan too.
#   Preset release builds, for ./test, those that have another label.
function(weft_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;DEPENDS;LIBRARIES;LABELS" ${ARGN})
  if(WEFT_FUZZ OR NOT arg_SOURCES)
    return()
  endif()
  add_executable(${name}_test ${arg_SOURCES})
  if(NOT arg_LABELS OR arg_LABELS STREQUAL "tsan")
    weft_for_sanitizers(${name}_test)
  endif()
  set(tests ${arg_SOURCES})
  list(FILTER tests INCLUDE REGEX "_test[.]cc$")
  list(REMOVE_ITEM arg_SOURCES ${tests})
  set_source_files_properties(${tests} PROPERTIES COMPILE_OPTIONS "${WEFT_TEST_OPTIONS}")
  weft_begin_with_prelude(${name}_test TESTS)
  if(arg_SOURCES)
    set_source_files_properties(${arg_SOURCES} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  endif()
  target_include_directories(${name}_test PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR})
  list(TRANSFORM arg_DEPENDS PREPEND weft_)
  target_link_libraries(${name}_test PRIVATE ${WEFT_PRELUDE_DEPENDS} ${arg_DEPENDS}
                        ${arg_LIBRARIES} GTest::gmock GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name}_test)
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(CMAKE_CURRENT_SOURCE_DIR MATCHES "/src/(transport|device|engine)(/|$)")
    list(APPEND arg_LABELS tsan)
  endif()
  if("tsan" IN_LIST arg_LABELS)
    add_dependencies(tsan_tests ${name}_test)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "unit;${arg_LABELS}")
endfunction()

# weft_fuzz(wire_startup SOURCES startup_fuzz.cc DEPENDS wire CORPUS corpus/startup)
#   Preset fuzz: the libFuzzer binary wire_startup_fuzz. Elsewhere: a ctest that replays the
#   committed corpus through the same code with a plain main().
function(weft_fuzz name)
  cmake_parse_arguments(arg "" "CORPUS" "SOURCES;DEPENDS" ${ARGN})
  list(TRANSFORM arg_DEPENDS PREPEND weft_)
  add_executable(${name}_fuzz ${arg_SOURCES})
  target_include_directories(${name}_fuzz PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name}_fuzz PRIVATE ${arg_DEPENDS})
  if(WEFT_FUZZ)
    target_link_options(${name}_fuzz PRIVATE -fsanitize=fuzzer)
  else()
    target_sources(${name}_fuzz PRIVATE ${CMAKE_SOURCE_DIR}/tests/support/replay_main.cc)
  endif()
  if(NOT WEFT_FUZZ)
    weft_for_sanitizers(${name}_fuzz)
    add_test(NAME ${name}_corpus COMMAND ${name}_fuzz ${CMAKE_CURRENT_SOURCE_DIR}/${arg_CORPUS})
    set_tests_properties(${name}_corpus PROPERTIES LABELS "fuzz" TIMEOUT 120)
  endif()
endfunction()

# weft_bench(base_crc32c SOURCES crc32c_bench.cc DEPENDS base)
#   The executable base_crc32c_bench, and a ctest (label bench) that runs each case for a moment:
#   it shows that the bench works, not how fast anything is.
function(weft_bench name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS;LIBRARIES" ${ARGN})
  if(WEFT_SANITIZE)
    return()
  endif()
  list(TRANSFORM arg_DEPENDS PREPEND weft_)
  add_executable(${name}_bench ${arg_SOURCES})
  target_include_directories(${name}_bench PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name}_bench PRIVATE ${arg_DEPENDS} ${arg_LIBRARIES}
                        benchmark::benchmark_main)
  add_test(NAME ${name}_bench COMMAND ${name}_bench --benchmark_min_time=0.001)
  set_tests_properties(${name}_bench PROPERTIES LABELS "bench" TIMEOUT 120)
endfunction()
