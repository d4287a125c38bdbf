/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of demangled C++ names, found without parsing all of C++. */
#pragma once

#include <stdbool.h>

/*
 * Where the qualified name begins, after a return type:
 * "void std::sort<int>(int)" -> "std::sort<int>(int)". Points into function. O(length).
 */
const char *cxxname_plain(const char *function);

/* Has it a list of parameters? Names of Rust have none. O(length). */
bool cxxname_has_parameters(const char *function);
