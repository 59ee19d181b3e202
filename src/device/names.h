// Names of the entries' values, for messages and for people.
#pragma once

#include "device/entries.h"

namespace weft::device {

/// Static strings; "unknown" for a value outside the enum (it may come from another process).
const char* name(SendOpcode);
const char* name(CompletionStatus);
const char* name(CompletionOpcode);

}  // namespace weft::device
