// SPDX-License-Identifier: Apache-2.0
// A Go program whose C side allocates: 1,000 blocks, every second one is freed.
package main

/*
#include <stdlib.h>
static void *c_take(size_t bytes) { return malloc(bytes); }
static void c_give(void *block) { free(block); }
*/
import "C"

func main() {
	for i := 0; i < 1000; i++ {
		block := C.c_take(C.size_t(100 + i))
		if i%2 == 0 {
			C.c_give(block)
		}
	}
}
