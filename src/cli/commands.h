/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands. Each takes its own argument vector (argv[0] is the command's
 * name, or the tool's when it was left out) and returns the exit status: 0, 1
 * for a failure, 2 for a mistake in the command line; cmd_run the program's.
 */
#pragma once

int cmd_run(int argc, char **argv);
int cmd_attach(int argc, char **argv);
int cmd_detach(int argc, char **argv);
int cmd_collect(int argc, char **argv);
int cmd_list(int argc, char **argv);
int cmd_ctl(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_symbolize(int argc, char **argv);
int cmd_info(int argc, char **argv);
/* 0 sound, 1 damaged, 2 cannot be read. */
int cmd_verify(int argc, char **argv);
int cmd_repair(int argc, char **argv);
int cmd_trim(int argc, char **argv);
int cmd_anonymize(int argc, char **argv);
int cmd_merge(int argc, char **argv);
int cmd_sql(int argc, char **argv);
/* 0 within the budgets, 1 not, 2 not checked. */
int cmd_check(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_convert(int argc, char **argv);
