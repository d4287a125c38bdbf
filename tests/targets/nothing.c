/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates nothing: the recording of it is empty. */
int main(void)
{
	return 0;
}
