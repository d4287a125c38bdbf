/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Meeting the collector: TIDEMARK_SESSION names its socket; the session's
 * memory comes back as a descriptor, is mapped, and everything is closed again.
 */
#pragma once

#include "wire/pool.h"

#include <stdbool.h>

/* Fills *ret_map. False: no session asked for, or refused, or unreachable: stay passive. */
bool rendezvous(uint32_t forked, struct wire_map *ret_map);
