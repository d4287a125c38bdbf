/* SPDX-License-Identifier: Apache-2.0 */
/* Files of rules from unknown hands, and frames with any names held against them. */
#include <string.h>

#include "base/memory.h"
#include "fuzz/fuzz.h"
#include "symbols/kinds.h"

enum { NAME_MAX_BYTES = 256 };

/* The last lines are also taken for names. */
static void name_from(const uint8_t *data, size_t size, size_t skip, char out[NAME_MAX_BYTES])
{
	size_t bytes = size > skip ? size - skip : 0;
	bytes = bytes < NAME_MAX_BYTES - 1 ? bytes : NAME_MAX_BYTES - 1;
	memcpy(out, data + size - bytes, bytes);
	out[bytes] = '\0';
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kinds *kinds = NULL;
	char function[NAME_MAX_BYTES], file[NAME_MAX_BYTES];
	if (kinds_new(&kinds, NULL))
		return 0;
	int code = kinds_read(kinds, "fuzz", (const char *)data, size, NULL);
	(void)code;
	name_from(data, size, 0, function);
	name_from(data, size, 7, file);
	for (int jit = 0; jit < 2; jit++)
		kinds_of(kinds,
			 &(struct kinds_frame){
				 .function = function, .file = file, .module = file, .jit = jit});
	kinds_of(kinds, &(struct kinds_frame){.function = function, .module = file});
	kinds_free(kinds);
	return 0;
}
