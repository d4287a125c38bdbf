/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A number that a hostile program or file cannot know, so that it cannot choose
 * keys that make a table slow. No figure may depend on it.
 */
#pragma once

#include <stdint.h>

uint64_t seed_make(const void *somewhere);
