/* SPDX-License-Identifier: Apache-2.0 */
/*
 * May this process be entered? Facts are gathered from /proc, then judged: the
 * judgement is a function of the facts alone, so that tests can give it machines
 * we do not have (Yama, other users, shadow stacks).
 */
#pragma once

#include "base/error.h"
#include "inject/proc.h"

enum target_container {
	TARGET_NO_CONTAINER, /* or none that is known */
	TARGET_KUBERNETES,
	TARGET_DOCKER,
	TARGET_PODMAN,
	TARGET_LXC,
};

struct target_facts {
	pid_t pid;
	pid_t own_pid;
	struct proc_status status; /* of a live thread */
	struct proc_status own;    /* of this process */
	char tracer_name[64];
	bool exists;
	bool has_ended;     /* a zombie */
	bool class_known;   /* the program's file could be read */
	bool is_64_bit;     /* and is for x86-64 */
	bool shadow_stack;  /* its threads use one */
	bool own_agent;     /* it was started with the agent preloaded */
	bool same_user;     /* we are who it is, in all respects */
	int can_read_maps;  /* 0, or -errno */
	int yama;           /* ptrace_scope; 0 also where there is none */
	bool is_descendant; /* we have started it */
	enum target_container container;
	bool deny_ptrace;    /* SELinux's boolean of that name */
	bool user_namespace; /* it lives in another one */
};

/* From texts of /proc and /sys. status: does it use a shadow stack? */
bool target_parse_shadow_stack(const char *status);
enum target_container target_parse_container(const char *cgroup);
/* SELinux shows a boolean as what it is and what it will be: "1 1". */
bool target_parse_boolean(const char *text);

/* Never fails: what could not be found out is said in the facts. */
void target_look(pid_t pid, struct target_facts *ret);

/* 0: go in. Else -errno with a sentence that says why not, and what to do instead. */
TM_MUST_CHECK int target_judge(const struct target_facts *facts, struct tm_error *err);

/* Has this process the capability in its effective set? Numbers as in linux/capability.h. */
bool target_capable(const struct proc_status *own, int capability);

/* Why the kernel said EPERM to ptrace although target_judge() had no objection. */
int target_explain_eperm(const struct target_facts *facts, struct tm_error *err);
/* The same, from the facts alone. */
int target_say_forbidden(const struct target_facts *facts, struct tm_error *err);
