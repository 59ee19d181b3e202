// Standard output and standard error, which may be full, closed, or a pipe that nobody reads.
#pragma once

#include <string_view>

namespace weft::tools {

/// Opens /dev/null in place of each of descriptors 0 to 2 that is closed: else the next socket has
/// its number, and gets what is printed. It is opened the wrong way round and closed by exec, so
/// that reading, writing and the programs we become still meet a closed one. False: it cannot be.
bool fill_standard_descriptors();

/// Writes `text` to standard output, at once. Returns 0, or the errno.
int put_output(std::string_view text);

/// The same; where it fails, says that `what` cannot be written, and why, and returns false.
bool write_output(std::string_view what, std::string_view text);

/// "weft: TEXT" on standard error. Where that cannot be written there is nobody left to tell.
void complain(std::string_view text);

}  // namespace weft::tools
