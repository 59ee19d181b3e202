# The drop-in libraries optimised by a profile: which of their branches are taken, which calls are
# made often (docs/adr/0035-the-libraries-are-optimised-by-a-profile.md).
#
# The target weft_profile makes it, once: scripts/train builds libraries that count (WEFT_TRAIN) in
# a folder of its own, and has them do what they are for. What is changed afterwards is optimised
# without it, function by function; to make it anew, remove ${CMAKE_BINARY_DIR}/profile.

# Objects are known by their place in the build, whichever build it is. Threads count together.
set(weft_profile_flags -fprofile-prefix-path=${CMAKE_BINARY_DIR} -fprofile-update=prefer-atomic)
if(WEFT_TRAIN)
  list(APPEND weft_lto_compile -fprofile-generate=${WEFT_TRAIN} ${weft_profile_flags})
  list(APPEND weft_lto_link -fprofile-generate=${WEFT_TRAIN} ${weft_profile_flags})
elseif(WEFT_PROFILE)
  set(weft_profile ${CMAKE_BINARY_DIR}/profile)
  set(WEFT_PROFILE_MADE ${weft_profile}/made)
  add_custom_command(OUTPUT ${WEFT_PROFILE_MADE}
                     COMMAND ${CMAKE_SOURCE_DIR}/scripts/train ${weft_profile}
                     COMMENT "Making the profile for the drop-in libraries"
                     VERBATIM)
  add_custom_target(weft_profile DEPENDS ${WEFT_PROFILE_MADE})
  add_test(NAME profile COMMAND grep -qx made ${WEFT_PROFILE_MADE})
  set_tests_properties(profile PROPERTIES LABELS "release" TIMEOUT 10)
  # What was never run is optimised as ever, and not for size.
  list(APPEND weft_lto_compile -fprofile-use=${weft_profile}/counts ${weft_profile_flags}
       -fprofile-partial-training -Wno-missing-profile -Wno-coverage-mismatch)
  list(APPEND weft_lto_link -fprofile-use=${weft_profile}/counts ${weft_profile_flags}
       -fprofile-partial-training -Wno-missing-profile -Wno-coverage-mismatch)
endif()
