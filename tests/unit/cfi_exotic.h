/* SPDX-License-Identifier: Apache-2.0 */
/* First bytes of the functions in cfi_exotic.c; each nop begins a new row. */
#pragma once

extern const char exotic_rbx[], exotic_register[], exotic_val_offset[], exotic_end[];
extern const char exotic_nested[], exotic_plt[], exotic_args[], exotic_huge[], exotic_signal[];
extern const char exotic_ra16[], exotic_far[], exotic_expressions[], exotic_after_expr[];
extern const char exotic_deep[], exotic_before_wide[], exotic_wide[], exotic_narrow[];
extern const char exotic_last[], exotic_rbp_gone[], exotic_loop[], exotic_realigned[];
