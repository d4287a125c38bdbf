/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names for the screen: what is between the angle brackets of templates and
 * generics goes, the brackets stay to say so.
 *
 *   std::vector<int, std::allocator<int> >::size() -> std::vector<…>::size()
 *   <alloc::vec::Vec<T,A> as Drop>::drop           -> <alloc::vec::Vec<…> as Drop>::drop
 *   demo::sort::<u8>                               -> demo::sort<…>
 *
 * An angle bracket that opens nothing (operator<, operator->, lambda's ->) is
 * kept, and so is the outermost pair where a name begins with it: Rust writes
 * the type and the trait of a method there.
 */
#include "symbols/symbols.h"

#include <ctype.h>
#include <string.h>

#define ARGUMENTS "<…>"

/* What libstdc++'s string is called in full. */
static const struct {
	const char *full, *plain;
} known[] = {
	{"std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >",
	 "std::string"},
	{"std::basic_string<char, std::char_traits<char>, std::allocator<char> >", "std::string"},
	{"std::basic_string_view<char, std::char_traits<char> >", "std::string_view"},
	{"std::basic_ostream<char, std::char_traits<char> >", "std::ostream"},
	{"std::basic_istream<char, std::char_traits<char> >", "std::istream"},
};

struct state {
	const char *name, *at;
	char *out;
	size_t used, room; /* room without the terminator */
	unsigned depth;    /* of brackets that are left out */
};

/* What does not fit is left out whole: no half a character. */
static void put(struct state *state, const char *text, size_t bytes)
{
	if (bytes > state->room - state->used) {
		state->room = state->used;
		return;
	}
	memcpy(state->out + state->used, text, bytes);
	state->used += bytes;
}

static bool is_name_char(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* The signs of "operator<<", "operator->" and the like at `at`; 0 if it is none. */
static size_t operator_bytes(const struct state *state)
{
	static const char word[] = "operator";
	size_t before = sizeof word - 1, done = (size_t)(state->at - state->name);
	if (done < before || memcmp(state->at - before, word, before) != 0 ||
	    (done > before && is_name_char(state->at[-(ptrdiff_t)before - 1])))
		return 0;
	static const char *const signs[] = {"<=>", "<<=", ">>=", "->*", "<<", ">>",
					    "<=",  ">=",  "->",  "()",  "<",  ">"};
	for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
		if (!strncmp(state->at, signs[i], strlen(signs[i])))
			return strlen(signs[i]);
	return 0;
}

static size_t known_bytes(struct state *state)
{
	if (state->at > state->name && (is_name_char(state->at[-1]) || state->at[-1] == ':'))
		return 0;
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
		size_t bytes = strlen(known[i].full);
		/* As a class whose constructor follows it keeps its own name: ~basic_string(). */
		if (!strncmp(state->at, known[i].full, bytes) && state->at[bytes] != ':') {
			put(state, known[i].plain, strlen(known[i].plain));
			return bytes;
		}
	}
	return 0;
}

/* Opens a list of arguments? At the begin, after a blank, a bracket or a comma it is Rust's. */
static bool opens_arguments(const struct state *state)
{
	if (state->at == state->name)
		return false;
	char before = state->at[-1];
	if (before == ' ')
		/* "operator< <int>": after an operator's sign. */
		return state->at - state->name > 2 && strchr("<>=", state->at[-2]) != NULL;
	return is_name_char(before) || before == ')' || before == ']' || before == ':' ||
	       before == '}' || before == '\'' || strchr("<>=*&|^%+-/!~", before);
}

static void open_bracket(struct state *state)
{
	if (!opens_arguments(state)) {
		put(state, "<", 1);
		return;
	}
	/* Rust's sort::<u8> */
	if (state->used >= 2 && !memcmp(state->out + state->used - 2, "::", 2))
		state->used -= 2;
	put(state, ARGUMENTS, sizeof ARGUMENTS - 1);
	state->depth = 1;
}

static void step(struct state *state)
{
	size_t bytes = operator_bytes(state);
	if (!bytes && state->at[0] == '-' && state->at[1] == '>')
		bytes = 2;
	if (bytes) {
		put(state, state->at, state->depth ? 0 : bytes);
		state->at += bytes;
		return;
	}
	if (state->depth) {
		state->depth += state->at[0] == '<';
		state->depth -= state->at[0] == '>';
		state->at++;
		return;
	}
	bytes = known_bytes(state);
	if (bytes) {
		state->at += bytes;
		return;
	}
	if (state->at[0] == '<')
		open_bracket(state);
	else
		put(state, state->at, 1);
	state->at++;
}

void symbols_shorten(const char *name, char *out, size_t out_bytes)
{
	struct state state = {.name = name, .at = name, .out = out, .room = out_bytes - 1};
	while (state.at[0] && state.used < state.room)
		step(&state);
	out[state.used] = '\0';
}
