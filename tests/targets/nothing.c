/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates nothing: the recording of it is empty. With an argument it waits for a byte first. */
#include <unistd.h>

int main(int argc, char **argv)
{
	char letter;
	(void)argv;
	return argc > 1 && read(0, &letter, 1) < 0;
}
