// The table for people and the JSON for programs.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "bench/ends.h"

namespace weft::bench {

/// What a number means nothing without: machine, kernel, compiler, commit, congestion control, ...
nlohmann::json describe_setup(const Options& options);

void print_setup(const nlohmann::json& setup);
/// A title and column names; before the first row of a work.
void print_heading(Work work, const std::string& crc);
void print_row(const Result& result);

nlohmann::json to_json(const Result& result);
Result result_from_json(const nlohmann::json& row);

}  // namespace weft::bench
