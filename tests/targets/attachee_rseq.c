/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program to be attached to whose only thread spends most of its time inside a
 * restartable sequence (rseq), so that it must be asked again and again. The kernel forgets the
 * sequence if the thread is made to run elsewhere meanwhile: seen when its word is empty though the
 * thread is still inside. Says "ready", ends after a byte of input.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/rseq.h>
#include <unistd.h>

enum { STEPS = 200 * 1000, STEPS_OUTSIDE = 20 * 1000 };

static long bad, rounds;

static struct rseq *own(void)
{
	return (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
}

/* How often the word was empty inside. An abort comes out by the same door with nothing. */
static long inside(void)
{
	long empty = 0, left = STEPS;
	__asm__ volatile(".pushsection __rseq_cs, \"aw\"\n"
			 "	.balign 32\n"
			 "7:	.long 0, 0\n"
			 "	.quad 1f, 2f - 1f, 4f\n"
			 "	.popsection\n"
			 "	lea 7b(%%rip), %%rax\n"
			 "	mov %%rax, %[word]\n"
			 "1:	cmpq $0, %[word]\n"
			 "	jne 3f\n"
			 "	inc %[empty]\n"
			 "3:	dec %[left]\n"
			 "	jnz 1b\n"
			 "2:	jmp 5f\n"
			 "	.long %c[signature]\n"
			 "4:	nop\n"
			 "5:	movq $0, %[word]\n"
			 : [word] "+m"(own()->rseq_cs), [empty] "+r"(empty), [left] "+r"(left)
			 : [signature] "i"(RSEQ_SIG)
			 : "rax", "memory", "cc");
	return empty;
}

static void outside(void)
{
	for (volatile int i = 0; i < STEPS_OUTSIDE; i++)
		;
	free(malloc(100));
}

int main(void)
{
	char byte;
	int flags = fcntl(0, F_GETFL);
	fcntl(0, F_SETFL, flags | O_NONBLOCK);
	dprintf(1, __rseq_size ? "ready\n" : "no rseq\n");
	while (read(0, &byte, 1) < 0) {
		for (int i = 0; i < 5; i++) {
			bad += inside() != 0;
			outside();
			rounds++;
		}
	}
	dprintf(1, "bad=%ld rounds=%ld\n", bad, rounds);
	return bad != 0;
}
