# The ctests that read the tree instead of running the stack: conventions, headers, requirements.

# Debian's where there is one: it has the modules that scripts/packages brings, and is no script
# that looks for another, which takes a tenth of a second for each of the programs of a test.
set(Python3_ROOT_DIR /usr)
find_package(Python3 3.11 REQUIRED COMPONENTS Interpreter)

# weft_check(tidy scripts/tidy --flag)   one ctest, label house
function(weft_check name script)
  add_test(NAME ${name}
           COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/${script} ${ARGN}
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS "house" TIMEOUT 900)
endfunction()

weft_check(freestanding scripts/freestanding)
if(NOT WEFT_FREESTANDING)
  weft_check(tidy scripts/tidy)
  weft_check(tidy_self_test scripts/tidy --self-test)
  weft_check(headers scripts/headers --compiler ${CMAKE_CXX_COMPILER})
  weft_check(requirements scripts/requirements)
  weft_check(requirements_self_test scripts/requirements --self-test)
  weft_check(freestanding_self_test scripts/freestanding --self-test)
endif()
