/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fuzz target is one function that takes any bytes and must come back. It has
 * libFuzzer's name, so that the same file serves both drivers:
 *
 *	fuzz_main.c (here)     mutates the corpus for some seconds; part of the tests
 *	clang -fsanitize=fuzzer  for longer hunts
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
