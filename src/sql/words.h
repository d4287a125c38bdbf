/* SPDX-License-Identifier: Apache-2.0 */
/* Words for the numbers of a trace, as the tables show them. */
#pragma once

#include <stdint.h>

/* NULL beyond the known ones. */
const char *words_op(unsigned op);
const char *words_api(unsigned api);
const char *words_map_op(unsigned op);
