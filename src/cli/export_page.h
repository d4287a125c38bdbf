/* SPDX-License-Identifier: Apache-2.0 */
/* The format "html": the page as one file. It is the server's, so it is added here. */
#pragma once

#include "export/export.h"

extern const struct export_format export_page;
