/* SPDX-License-Identifier: Apache-2.0 */
/* The namer's loop. */
#pragma once

/* Comes back when the collector has closed the control socket. */
void namer_serve(int control_fd);
