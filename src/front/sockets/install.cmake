# What a program needs to be built with <weft/sockets.h>: cmake --install BUILD --component sockets.
#
# The library alone, without weft's verbs libraries: where it finds libibverbs.so.1 and
# librdmacm.so.1 decides what carries the sockets, the system's RNICs or weft (`weft run`).
include(GNUInstallDirs)
install(TARGETS weft-sockets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT sockets NAMELINK_COMPONENT sockets)
install(FILES
        ${CMAKE_SOURCE_DIR}/include/weft/sockets.h
        ${CMAKE_SOURCE_DIR}/include/weft/sockets.hpp
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weft COMPONENT sockets)
file(GLOB pages CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/man/*.[37])
foreach(page ${pages})
  cmake_path(GET page EXTENSION LAST_ONLY section)
  string(SUBSTRING ${section} 1 1 section)
  install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section} COMPONENT sockets)
endforeach()

# Once to be installed, wherever that will be moved, and once for the build folder as it is.
file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
set(pc_prefix "\${pcfiledir}/${up}")
set(pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
set(pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
configure_file(weft-sockets.pc.in ${CMAKE_CURRENT_BINARY_DIR}/weft-sockets.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/weft-sockets.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT sockets)
set(pc_prefix ${CMAKE_BINARY_DIR})
set(pc_libdir ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(pc_includedir ${CMAKE_SOURCE_DIR}/include)
configure_file(weft-sockets.pc.in ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/pkgconfig/weft-sockets.pc @ONLY)
