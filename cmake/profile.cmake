# The drop-in libraries optimised by a profile: which of their branches are taken, which calls are
# made often (docs/adr/0035-the-libraries-are-optimised-by-a-profile.md).
#
# The target weft_profile makes it, once: scripts/train builds libraries that count (WEFT_TRAIN) in
# a folder of its own, and has them do what they are for. It is not made again for what is changed
# afterwards: a function whose branches are others then does without, the rest goes by what was
# counted. To make it anew, remove the folder profile of the build.

# Objects are known by their place in the build, whichever build it is. Threads count together.
file(REAL_PATH ${CMAKE_BINARY_DIR} weft_profile_build)
set(weft_profile_flags -fprofile-prefix-path=${weft_profile_build} -fprofile-update=prefer-atomic)
if(WEFT_TRAIN)
  # What is counted is settled before anything is optimised as a whole, which takes as long again.
  list(REMOVE_ITEM weft_lto_compile -flto=auto -ffat-lto-objects)
  list(APPEND weft_lto_compile -fprofile-generate=${WEFT_TRAIN} ${weft_profile_flags})
  set(weft_lto_link -fprofile-generate=${WEFT_TRAIN})
elseif(WEFT_PROFILE AND NOT CMAKE_CROSSCOMPILING)
  set(weft_profile ${weft_profile_build}/profile)
  set(WEFT_PROFILE_MADE ${weft_profile}/made)
  add_custom_command(OUTPUT ${WEFT_PROFILE_MADE}
                     COMMAND ${CMAKE_SOURCE_DIR}/scripts/train ${weft_profile}
                             -DCMAKE_C_COMPILER=${CMAKE_C_COMPILER}
                             -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}
                             "-DCMAKE_C_FLAGS=${CMAKE_C_FLAGS}"
                             "-DCMAKE_CXX_FLAGS=${CMAKE_CXX_FLAGS}"
                     COMMENT "Making the profile for the drop-in libraries"
                     VERBATIM)
  add_custom_target(weft_profile DEPENDS ${WEFT_PROFILE_MADE})
  add_test(NAME profile COMMAND ${CMAKE_SOURCE_DIR}/scripts/train --check ${weft_profile})
  set_tests_properties(profile PROPERTIES LABELS "release" TIMEOUT 10)
  # A function that was never run is optimised as ever, and not for size.
  set(weft_profile_use -fprofile-use=${weft_profile}/counts ${weft_profile_flags}
      -fprofile-partial-training -Wno-missing-profile -Wno-coverage-mismatch)
  list(APPEND weft_lto_compile ${weft_profile_use})
  list(APPEND weft_lto_link ${weft_profile_use})
endif()
