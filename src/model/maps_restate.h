/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that mapped memory, said in fewer rows: the mappings at the moments of the
 * peaks and at the end, as steps from one to the next, so that whoever applies them
 * comes to the same peaks, at the same times, and to the same end. Before them a
 * row for each stack and thread says how many calls and bytes there were.
 *
 *   calls   + + - + + - - + - + -  . . .
 *   totals    peak of files  peak of all    end
 *
 * What is lost are the mappings between, and when those that are left were made.
 */
#pragma once

#include "trace/bounds.h"

/* A trace_restate_fn. */
int maps_restate(trace_maps_fn each, const void *each_ctx, trace_map_fn put, void *put_ctx);
