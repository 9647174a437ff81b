# SPDX-License-Identifier: GPL-2.0-only
# ljperf. The two commands to know: `make demo` and `make check` (see README.md).
#
# VARIANT=asan|clang|clang-asan builds beside the normal build, in build-VARIANT/.
# CROSS=aarch64-linux-gnu- builds for another machine, in build-aarch64/. SYSROOT: where that machine's headers and libraries
# are (tests/aarch64/root makes such a folder); without it they are Debian's multiarch packages.

PREFIX  ?= /usr/local
VARIANT ?=
CROSS   ?=
SYSROOT ?=
MACHINE := $(or $(firstword $(subst -, ,$(CROSS))),$(shell uname -m))
KERNEL_ARCH := $(if $(filter aarch64,$(MACHINE)),arm64,x86)
B       := build$(if $(CROSS),-$(MACHINE))$(if $(VARIANT),-$(VARIANT))

ifneq ($(findstring clang,$(VARIANT)),)
CC := clang
else ifeq ($(origin CC),default)
CC := $(CROSS)gcc
endif
PKG_CONFIG := pkg-config
ifneq ($(CROSS),)
AR         := $(CROSS)ar
PKG_CONFIG := $(CROSS)pkg-config
endif
ifneq ($(SYSROOT),)
CC         += --sysroot=$(SYSROOT)
PKG_CONFIG := PKG_CONFIG_SYSROOT_DIR=$(SYSROOT) \
              PKG_CONFIG_LIBDIR=$(SYSROOT)/usr/lib/$(MACHINE)-linux-gnu/pkgconfig:$(SYSROOT)/usr/share/pkgconfig pkg-config
endif

# By counts of instructions -O3 is 2 to 5 % cheaper than -O2, and compiles in the same time.
OPT      := -O3 -g
ifneq ($(findstring asan,$(VARIANT)),)
# (-O0 compiles in a third of the time of -O1; what runs for long, in a variant whose name has a "1" or "fuzz", has that.)
OPT      := $(if $(filter %1 %fuzz,$(VARIANT)),-O1,-O0) -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
LDFLAGS  += -fsanitize=address,undefined
endif
WARN     := -Wall -Wextra -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes $(if $(CI),-Werror)
LIBPERF  := deps/libperf$(if $(CROSS),-$(MACHINE))
BUILD_LIBPERF := PKG_CONFIG='$(PKG_CONFIG)' $(if $(CROSS),CROSS_CC='$(CC)' CROSS_AR='$(AR)' KERNEL_ARCH=$(KERNEL_ARCH)) \
                 src/build/libperf $(LIBPERF)
LIBS_PKG := libtraceevent libelf libdw capstone libbpf libzstd liblzma zlib libprotobuf-c yajl libarchive
# Inflates debug sections, which distributions compress, in less than half of zlib's time.
ifeq ($(shell $(PKG_CONFIG) --exists libdeflate && echo yes),yes)
LIBS_PKG += libdeflate
CPPFLAGS += -DHAVE_LIBDEFLATE
endif
# Filters the system calls of the process that reads what strangers own.
ifeq ($(shell $(PKG_CONFIG) --exists libseccomp && echo yes),yes)
LIBS_PKG += libseccomp
CPPFLAGS += -DHAVE_SECCOMP
endif
# $(call once,NAME,COMMAND): what the command prints. It runs when that is first needed, for `make demo` installs pkg-config, and
# not again: a command each object took as long as a tenth of the compiler.
once = $(or $(once_$(1)),$(eval once_$(1) := $$(shell $(2)))$(once_$(1)))
CPPFLAGS += -D_GNU_SOURCE -I. -Isrc -I$(B)/generated $(call once,cflags,$(PKG_CONFIG) --cflags $(LIBS_PKG) 2>/dev/null) \
            $(call once,perf_cflags,$(BUILD_LIBPERF) --cflags)
CFLAGS   ?= $(OPT)
ALL_CFLAGS = -std=gnu11 $(WARN) $(CFLAGS) -pthread
# Three are loaded when they are needed (unwind/disassembler.c, src/output/tar.c,
# src/output/curses_library.c).
LDLIBS   += $(call once,perf_libs,$(BUILD_LIBPERF) --libs) \
            $(call once,libs,$(PKG_CONFIG) --libs $(filter-out capstone libarchive,$(LIBS_PKG)) 2>/dev/null) \
            -l:libiberty.a -ldl -lm -pthread

lib_srcs  = $(wildcard $(addsuffix /*.c,$(1)))
objs      = $(patsubst %.c,$(B)/%.o,$(1))

# One static library a room, in link order: users first.
ROOMS         := src jitdump unwind perfdata base
SRCS_src      := $(filter-out src/cmd/main.c %.bpf.c,$(call lib_srcs,src/cmd src/live src/record src/output src/census src/alloc src/replay src/stacks src/session src/symbols src/dso))
SRCS_jitdump  := $(call lib_srcs,jitdump)
SRCS_unwind   := $(call lib_srcs,unwind unwind/native unwind/lua unwind/luajit unwind/v8 unwind/runtimes)
SRCS_perfdata := $(call lib_srcs,perfdata)
SRCS_base     := $(call lib_srcs,src/base)
OBJS_src      := $(B)/src/live/vmstack_object.o $(B)/src/output/flamegraph_script.o $(B)/src/output/html_page.o $(B)/generated/pprof.pb-c.o $(B)/generated/otlp.pb-c.o
LIBS          := $(foreach r,$(ROOMS),$(B)/lib$(r).a)
ALL_SRCS      := $(foreach r,$(ROOMS),$(SRCS_$(r))) src/cmd/main.c

TESTS   := $(patsubst tests/unit/%.c,$(B)/tests/%,$(wildcard tests/unit/test_*.c))
HELPERS := $(filter-out $(wildcard tests/unit/test_*.c),$(wildcard tests/unit/*.c))
# Programs that single-step code of their own know one machine's registers; others compare what this machine's own files have.
ifneq ($(MACHINE),x86_64)
TESTS   := $(filter-out $(addprefix $(B)/tests/,test_code_steps test_unwind_steps test_insn_x86_64 test_cfi_oracle),$(TESTS))
HELPERS := $(filter-out tests/unit/stepper.c,$(HELPERS))
endif
FUZZERS := $(patsubst tests/fuzz/%.c,$(B)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
BENCHES := $(patsubst bench/%.c,$(B)/bench/%,$(wildcard bench/bench_*.c))

# What alloc-trace loads into a program, and the program that alloc-replay runs. Both are below another allocator, so they are
# no part of ljperf, and have no sanitizers: a compiler that knows malloc would change or remove its calls.
ALONE        := $(B)/ljperf-alloc.so $(B)/ljperf-replay
NO_BUILTIN   := $(addprefix -fno-builtin-,malloc calloc realloc free aligned_alloc posix_memalign)
ALONE_CFLAGS  = -std=gnu11 $(WARN) $(filter-out -fsanitize% -fno-sanitize% -fprofile% -fcoverage%,$(CFLAGS)) $(NO_BUILTIN) -pthread
ALONE_LDFLAGS = $(filter-out -fsanitize% -fprofile%,$(LDFLAGS))

all: $(B)/ljperf $(ALONE)

$(B)/ljperf: $(B)/src/cmd/main.o $(LIBS) | $(ALONE)
	$(CC) $(LDFLAGS) -o $@ $< $(LIBS) $(LDLIBS)

define room
$(B)/lib$(1).a: $(call objs,$(SRCS_$(1))) $(OBJS_$(1))
	@rm -f $$@
	$(AR) rcs $$@ $$^
endef
$(foreach r,$(ROOMS),$(eval $(call room,$(r))))

PRELOAD_SRCS := $(call lib_srcs,src/alloc/preload)
$(B)/ljperf-alloc.so: $(PRELOAD_SRCS) $(wildcard src/alloc/preload/*.h) src/alloc/trace_format.h
	@mkdir -p $(@D)
	$(CC) -D_GNU_SOURCE -Isrc $(ALONE_CFLAGS) -fPIC -fvisibility=hidden $(ALONE_LDFLAGS) -shared -Wl,-z,now -o $@ $(PRELOAD_SRCS) -ldl

$(B)/ljperf-replay: src/alloc/replayer/replayer.c src/alloc/replay_format.h
	@mkdir -p $(@D)
	$(CC) -D_GNU_SOURCE -Isrc $(ALONE_CFLAGS) $(ALONE_LDFLAGS) -o $@ $< -ldl

$(B)/%.o: %.c | $(LIBPERF)/.built
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# The eBPF copier: compiled by clang whatever CC is, and embedded; twice (src/live/vmstack.bpf.c says why).
BPF_CLANG ?= clang
BPF_FLAGS := -target bpf -mcpu=v3 -O2 -g -ffreestanding $(WARN) -I. -Isrc \
             -D__TARGET_ARCH_$(KERNEL_ARCH) -idirafter $(SYSROOT)/usr/include/$(MACHINE)-linux-gnu
BPF_OBJECTS := $(addprefix $(B)/src/live/,vmstack_task.bpf.o vmstack_plain.bpf.o)
$(B)/src/live/vmstack_task.bpf.o: BPF_FLAGS += -DVMSTACK_BTF
$(BPF_OBJECTS): src/live/vmstack.bpf.c
	@mkdir -p $(@D)
	$(BPF_CLANG) $(BPF_FLAGS) -MMD -MP -c -o $@ $<
	-@llvm-strip -g $@ 2>/dev/null

$(B)/src/live/vmstack_object.o: src/live/vmstack_object.S $(BPF_OBJECTS)
	$(CC) -Wa,-I$(B)/src/live -c -o $@ $<

# Messages that protobuf-c packs.
PROTOC_C ?= protoc-c
$(B)/generated/%.pb-c.c: src/output/%.proto
	@mkdir -p $(@D)
	$(PROTOC_C) --proto_path=$(<D) --c_out=$(@D) $<
$(B)/generated/%.pb-c.h: $(B)/generated/%.pb-c.c ;
$(B)/generated/%.o: $(B)/generated/%.c
	$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<
$(B)/src/output/pprof.o: | $(B)/generated/pprof.pb-c.h
$(B)/src/output/otlp.o: | $(B)/generated/otlp.pb-c.h
.PRECIOUS: $(B)/generated/%.pb-c.c

# The release is in the file VERSION. What `ljperf --version` prints changes with each commit, so only main.c includes it:
# all tests would be linked again if a library did. Packages give LJPERF_VERSION.
$(B)/generated/release.h: VERSION
	@mkdir -p $(@D)
	@echo '#define LJPERF_RELEASE "$(shell cat VERSION)"' >$@
$(B)/generated/version.h: FORCE
	@mkdir -p $(@D)
	@line='#define LJPERF_VERSION "$(or $(LJPERF_VERSION),$(shell src/build/version))"'; \
	    [ "$$line" = "$$(cat $@ 2>/dev/null)" ] || echo "$$line" >$@
$(B)/src/cmd/main.o: | $(B)/generated/version.h
$(B)/src/output/otlp.o $(B)/src/record/header.o: | $(B)/generated/release.h

$(B)/src/output/html_page.o: src/output/html.css src/output/html.js
$(B)/src/output/flamegraph_script.o: src/output/flamegraph.js
$(B)/src/output/%.o: src/output/%.S
	@mkdir -p $(@D)
	$(CC) -c -o $@ $<

$(LIBPERF)/.built:
	$(BUILD_LIBPERF) --build

libs: $(LIBS)

deps:
	src/build/install-deps

deps-check:
	src/build/install-deps --check

# ---- tests ---------------------------------------------------------------------------------
$(B)/tests/%: $(B)/tests/unit/%.o $(call objs,$(HELPERS)) $(LIBS)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $< $(call objs,$(HELPERS)) $(LIBS) -lcmocka $(LDLIBS)

# Programs that truth tests run beside ljperf.
TRUTHS  := $(B)/truth/luajit_images $(B)/truth/toy/ljperf $(B)/truth/toy/program $(if $(filter x86_64,$(MACHINE)),$(B)/truth/luajit_steps)
$(B)/truth/%: $(B)/tests/truth/%.o $(B)/tests/truth/luajit_tree.o $(LIBS)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $< $(B)/tests/truth/luajit_tree.o $(LIBS) $(LDLIBS)

# ljperf with a third runtime, whose row stands in a table of its own (tests/toy), and its program.
$(B)/truth/toy/ljperf: $(B)/src/cmd/main.o $(B)/tests/toy/table.o $(B)/tests/toy/runtime.o $(LIBS)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
$(B)/truth/toy/program: tests/toy/program.c tests/toy/toy.h
	@mkdir -p $(@D)
	$(CC) $(WARN) -I. -O2 -g0 -fno-omit-frame-pointer -rdynamic -o $@ $<
	$(CROSS)strip $@

# (The fuzz targets are compiled, too: else nobody sees that they no longer fit. With sanitizers, only what tests run so.)
tests: $(TESTS) $(B)/storm/fuzz_lua $(B)/storm/fuzz_heap
ifeq ($(findstring asan,$(VARIANT)),)
tests: $(TRUTHS) $(B)/storm/fuzz_cfi_libdw $(B)/storm/fuzz_lines_libdw $(patsubst $(B)/fuzz/%,$(B)/tests/fuzz/%.o,$(FUZZERS))
endif

check: deps-check
	+tests/run

# Debian's kernels in emulated machines: some minutes.
check-kernels: deps all
	+tests/kernels/run

# Recordings of an AArch64 machine; the program built for it, in an emulated one, and its unit tests; native code, LuaJITs and
# Node at a thousand random instructions: some 50 minutes.
check-aarch64: deps all
	src/build/install-deps --aarch64
	tests/truth/test_aarch64
	tests/aarch64/run
	tests/aarch64/unit
	tests/aarch64/package
	tests/truth/test_aarch64_native 1000
	tests/truth/test_aarch64_luajit 1000
	tests/aarch64/v8_stops 250

# Two million instructions of libraries and of x264, taken to have no CFI, each unwound: some minutes.
check-steps: deps $(B)/tests/test_code_steps
	tests/steps/run $(B)/tests/test_code_steps

# Hours of an unattended recording beside processes that are born and die: make soak MINUTES=n. With
# SOAK_MACHINE=1 a processor goes offline now and then, too, and the clock steps.
MINUTES ?= 60
soak: deps all
	tests/soak $(MINUTES) $(B)/ljperf

asan:
	$(MAKE) VARIANT=clang-asan all tests

# ---- fuzzing (clang's libFuzzer) and benchmarks --------------------------------------------
FUZZ_SECONDS ?= 60
FUZZING_ENGINE ?= -fsanitize=fuzzer
$(B)/fuzz/%: $(B)/tests/fuzz/%.o $(LIBS)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) $(FUZZING_ENGINE) -o $@ $< $(LIBS) $(LDLIBS)

fuzzers: $(FUZZERS)

# Random inputs without a fuzzer's instrumentation: many more of them (tests/fuzz/storm.c).
$(B)/storm/%: $(B)/tests/fuzz/%.o $(B)/tests/fuzz/storm.o $(LIBS)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

storms: $(B)/storm/fuzz_cfi_libdw $(B)/storm/fuzz_lines_libdw $(B)/storm/fuzz_unwind $(B)/storm/fuzz_v8 $(B)/storm/fuzz_luajit $(B)/storm/fuzz_lua $(B)/storm/fuzz_lua_discover $(B)/storm/fuzz_heap

# Ten million walks over damaged images of plain Lua (64 an input), with sanitizers.
storm-lua:
	$(MAKE) VARIANT=clang-asan1 build-clang-asan1/storm/fuzz_lua
	build-clang-asan1/storm/fuzz_lua 36000 1 156250

# (A build of its own: its objects are instrumented for the fuzzer.)
fuzz:
	$(MAKE) VARIANT=clang-asan-fuzz CFLAGS="$(OPT) -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=undefined" \
	    LDFLAGS=-fsanitize=address,undefined fuzzers
	tests/fuzz/run build-clang-asan-fuzz/fuzz $(FUZZ_SECONDS)

# Which lines of the parsers the inputs of all fuzz targets reach.
fuzz-coverage:
	$(MAKE) VARIANT=clang-coverage CFLAGS="-O1 -g -fprofile-instr-generate -fcoverage-mapping" \
	    LDFLAGS=-fprofile-instr-generate fuzzers
	tests/fuzz/coverage build-clang-coverage/fuzz

$(B)/bench/%: $(B)/bench/%.o $(LIBS)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $< $(LIBS) $(LDLIBS)

$(B)/bench/bench_lua: LDFLAGS += -Wl,--wrap=lua_find_states,--wrap=lua_emit,--wrap=lua_names_call,--wrap=unwind_batch
$(B)/bench/bench_luajit: LDFLAGS += -Wl,--wrap=luajit_walker,--wrap=luajit_names_frame,--wrap=unwind_batch

bench: deps all $(BENCHES)
	bench/run

bench-record: deps all
	bench/record
	bench/record_always

demo: deps all
	src/build/demo $(B)/ljperf

# ---- the rest ------------------------------------------------------------------------------
C_FILES = $(shell git ls-files '*.c' '*.h')
format:
	clang-format -i $(C_FILES)
format-check:
	clang-format --dry-run -Werror $(C_FILES)
tidy: | $(LIBPERF)/.built $(addprefix $(B)/generated/,pprof.pb-c.h otlp.pb-c.h release.h version.h)
	printf '%s\n' $(ALL_SRCS) | xargs -P 2 -I{} clang-tidy --quiet {} -- -std=gnu11 $(CPPFLAGS)

# Where bash-completion, zsh and fish look for completions below $(PREFIX)/share. (Debian's zsh: zsh/vendor-completions.)
BASH_COMPLETIONS := bash-completion/completions
ZSH_COMPLETIONS  := zsh/site-functions
FISH_COMPLETIONS := fish/vendor_completions.d

# The program writes them from its tables of options. EMULATOR runs it where it is another machine's.
EMULATOR ?= $(if $(CROSS),qemu-$(MACHINE) $(if $(SYSROOT),-L $(SYSROOT)))
$(B)/completions/%: $(B)/ljperf
	@mkdir -p $(@D)
	$(EMULATOR) $(B)/ljperf completion $* >$@.$$$$ && mv $@.$$$$ $@

# perf finds perf-lj as `perf lj`, and perf-lj.1 as its manual.
PAGES   := $(wildcard docs/man/*.1)
FOLDERS := bin lib/ljperf $(addprefix share/,man/man1 $(BASH_COMPLETIONS) $(ZSH_COMPLETIONS) $(FISH_COMPLETIONS) ljperf/lua/jit)
install: PLACE = $(DESTDIR)$(PREFIX)
install: all $(addprefix $(B)/completions/,bash zsh fish)
	install -d $(addprefix $(PLACE)/,$(FOLDERS))
	install -m 755 $(B)/ljperf $(PLACE)/bin/ljperf
	ln -sf ljperf $(PLACE)/bin/perf-lj
	install -m 644 $(B)/ljperf-alloc.so $(PLACE)/lib/ljperf
	install -m 755 $(B)/ljperf-replay $(PLACE)/lib/ljperf
	install -m 644 $(PAGES) $(PLACE)/share/man/man1
	ln -sf ljperf.1 $(PLACE)/share/man/man1/perf-lj.1
	install -m 644 $(B)/completions/bash $(PLACE)/share/$(BASH_COMPLETIONS)/ljperf
	ln -sf ljperf $(PLACE)/share/$(BASH_COMPLETIONS)/perf-lj
	install -m 644 $(B)/completions/zsh $(PLACE)/share/$(ZSH_COMPLETIONS)/_ljperf
	install -m 644 $(B)/completions/fish $(PLACE)/share/$(FISH_COMPLETIONS)/ljperf.fish
	install -m 644 jitdump/agent/ljdump.lua $(PLACE)/share/ljperf/lua/jit/ljdump.lua

# What `install` made (tests/truth/test_packages). Folders go if they are empty: below DESTDIR all of them, in a running
# system only ours, because bin/ and man1/ are the system's.
INSTALLED := bin/ljperf bin/perf-lj $(addprefix lib/,ljperf/ljperf-alloc.so ljperf/ljperf-replay) $(patsubst docs/man/%,share/man/man1/%,$(PAGES)) share/man/man1/perf-lj.1 \
    $(addprefix share/,$(addprefix $(BASH_COMPLETIONS)/,ljperf perf-lj) $(ZSH_COMPLETIONS)/_ljperf \
    $(FISH_COMPLETIONS)/ljperf.fish ljperf/lua/jit/ljdump.lua)
uninstall:
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/,$(INSTALLED))
	$(if $(DESTDIR),,@rmdir --ignore-fail-on-non-empty $(PREFIX)/lib/ljperf 2>/dev/null || true)
	@cd $(DESTDIR)$(if $(DESTDIR),/,$(PREFIX)/share) && rmdir -p --ignore-fail-on-non-empty \
	    $(if $(DESTDIR),$(addprefix $(PREFIX:/%=%)/,$(FOLDERS)),ljperf/lua/jit) 2>/dev/null || true

clean:
	rm -rf build build-*

-include $(shell find $(B) -name '*.d' 2>/dev/null)

.PHONY: FORCE all libs deps deps-check check check-aarch64 check-kernels check-steps soak tests asan fuzz fuzz-coverage fuzzers storms storm-lua bench bench-record demo format format-check tidy install uninstall clean
.SECONDARY:
