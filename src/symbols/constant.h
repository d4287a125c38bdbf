/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a function returns that does nothing but return a text, read from its
 * file without running it: `const char *f(void) { return "..."; }`.
 */
#pragma once

#include "base/error.h"
#include "base/text.h"

#include <stdint.h>

/*
 * Appends the text that `symbol` of the ELF file returns. build_id_bytes 0: any
 * file of that name will do. -ENOENT: no such file or no such function.
 * -ESTALE: another build is there now. -ENOEXEC: no ELF file of this kind.
 * -EOPNOTSUPP: the function does more than return a constant. -ENOMEM. err says
 * more. Only x86-64.
 */
TM_MUST_CHECK int constant_string(const char *path, const uint8_t *build_id,
				  uint32_t build_id_bytes, const char *symbol, struct text *text,
				  struct tm_error *err);
