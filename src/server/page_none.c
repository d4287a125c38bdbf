/* SPDX-License-Identifier: Apache-2.0 */
/* In place of the page's files when it is left out of the build. */
#include "server/page.h"

const struct page_file page_files[] = {{0}};
const size_t page_file_count = 0;
