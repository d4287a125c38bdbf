# SPDX-License-Identifier: Apache-2.0
# A thin front: meson and ninja build, the scripts in tools/ do the rest.
# `make help` lists the targets.

BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
# The tool, its agent, and what stands in for heaptrack's libraries.
PRODUCT = tidemark libtidemark.so libheaptrack_preload.so libheaptrack_inject.so

.PHONY: all everything viewer static packages demo test soak test-long bench install dist format clean help

all: $(BUILD)/build.ninja ## build build/tidemark and build/libtidemark.so
	ninja -C $(BUILD) $(PRODUCT)

# With the programs that tests and measurements run.
everything: $(BUILD)/build.ninja
	ninja -C $(BUILD)

viewer: ## build build-viewer/tidemark, which only shows traces: for any POSIX system
	test -f build-viewer/build.ninja || meson setup build-viewer -Dviewer=true
	ninja -C build-viewer tidemark

static: $(BUILD)/build.ninja ## build build-static/bundle: a tool and an agent that run in any x86-64 image
	tools/make-static build-static

packages: ## install the Debian packages of packages.txt that are missing
	tools/install-packages

$(BUILD)/build.ninja: packages.txt
	tools/install-packages
	test -f $@ || meson setup $(BUILD)
	touch -c $@

demo: all ## record a real program and show the report
	tools/demo $(BUILD)

test: $(BUILD)/build.ninja ## every check and test; the last line is the count
	tools/run-tests

soak: everything ## an hour of the stress programs in every mode; writes bench/SOAK.md
	tests/e2e/soak $(BUILD) --seconds 3600 --report bench/SOAK.md

test-long: $(BUILD)/build.ninja ## as test, with the long stress, fuzz and kill runs
	tools/run-tests --long

bench: everything ## measure against the bare program and heaptrack
	bench/run $(BUILD)
	bench/symbols $(BUILD)
	bench/analyse $(BUILD)
	bench/import $(BUILD)
	bench/export $(BUILD)
	bench/attach $(BUILD)
	bench/kills $(BUILD)
	bench/sleep $(BUILD)
	bench/sampling $(BUILD)
	bench/page $(BUILD)
	bench/allocators $(BUILD)
	bench/week $(BUILD)

install: all ## install into PREFIX (default /usr/local), below DESTDIR
	meson configure $(BUILD) -Dprefix="$(abspath $(PREFIX))"
	ninja -C $(BUILD) $(PRODUCT)
	meson install -C $(BUILD) --quiet --no-rebuild $(if $(DESTDIR),--destdir "$(abspath $(DESTDIR))")

dist: ## source archive with checksums and a .deb in dist/
	tools/make-dist

format: ## rewrite all sources in the house format
	tools/format

clean: ## remove what make has made
	rm -rf build build-* dist

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20
