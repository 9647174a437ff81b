/* SPDX-License-Identifier: GPL-2.0-only */
/* Load and connect the eBPF copier. See copier.h. */
#include "live/copier.h"

#include "base/vec.h"
#include "live/bpf_load.h"
#include "perfdata/vmevent.h"
#include "record/record.h"
#include "unwind/v8/layout.h"
#include "unwind/v8/machine.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

extern const char vmstack_task_object[], vmstack_task_object_end[];
extern const char vmstack_plain_object[], vmstack_plain_object_end[];

enum { FIRST_PID_NAMESPACE = 0xeffffffc }; /* the kernel's PROC_PID_INIT_INO */

/* The kinds of tracing events: each needs a program of its own kind. */
enum tracing { TRACING_POINT, TRACING_PROBE, TRACING_KINDS };

struct copier {
    struct bpf_loaded loaded;
    struct bpf_loaded tracing[TRACING_KINDS]; /* loaded when first needed; they share its maps */
    VEC(uint64_t) traced;                     /* ids of the tracepoints that have a program */
    int processes, lua_processes, v8_threads, outputs, counters;
    unsigned nr_cpus;
    uint32_t lua_version; /* of the builds of plain Lua set last */
    uint32_t stack;       /* bytes of the native stack that a sample has */
    unsigned tables;      /* COPIER_...: whose maps are needed */
    char program[64];     /* name of the loaded program, for the user */
    char limit[400];      /* empty: none */
    VEC(int) fds;         /* the copier's own events, and links to others' events */
    VEC(uint64_t) ids;
};

/* ---- loading ----------------------------------------------------------------------------- */

/* Set sizes of maps. `tables`: COPIER_...; maps for others have their least size. */
static int size_maps(struct bpf_object *object, unsigned nr_cpus, unsigned tables)
{
    const bool off_cpu = tables & COPIER_OFF_CPU, alloc = tables & COPIER_ALLOC;
    const struct {
        const char *name;
        unsigned entries;
    } sizes[] = {{"scratches", nr_cpus},
                 {"lua_scratches", nr_cpus},
                 {"outputs", nr_cpus},
                 {"off_cpu_outputs", nr_cpus},
                 {"off_cpu_waits", off_cpu ? OFF_CPU_THREADS : 1},
                 {"off_cpu_threads", off_cpu ? OFF_CPU_THREADS : 1},
                 {"off_cpu_dues", off_cpu ? OFF_CPU_DUES : 1},
                 {"alloc_outputs", nr_cpus},
                 {"alloc_codes", alloc ? ALLOC_PROCESSES : 1},
                 {"alloc_pendings", alloc ? ALLOC_PENDINGS : 1},
                 {"alloc_blocks", alloc ? ALLOC_BLOCKS : 1},
                 {"alloc_areas", alloc ? ALLOC_AREAS : 1},
                 {"alloc_collecting", alloc ? ALLOC_COLLECTING : 1},
                 {"alloc_v8s", alloc ? ALLOC_PROCESSES : 1},
                 {"alloc_young", alloc ? ALLOC_V8_YOUNG : 1},
                 {"alloc_old", alloc ? ALLOC_V8_OLD : 1},
                 {"alloc_unwritten", alloc ? ALLOC_UNWRITTEN : 1}};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        struct bpf_map *map = bpf_object__find_map_by_name(object, sizes[i].name);
        int failed = map ? bpf_map__set_max_entries(map, sizes[i].entries) : 0;
        if (failed)
            return failed;
    }
    return 0;
}

bool copier_namespace(struct stat *ret)
{
    struct stat ns;
    if (stat("/proc/self/ns/pid", &ns) < 0 || ns.st_ino == FIRST_PID_NAMESPACE)
        return false;
    if (ret)
        *ret = ns;
    return true;
}

/* Set values and sizes of the maps. Process ids are those of this program's pid namespace. */
static int configure(void *copier, struct bpf_object *object, struct error *err)
{
    const struct copier *c = copier;
    const unsigned nr_cpus = c->nr_cpus;
    struct vmstack_config config = {
        .nr_cpus = nr_cpus, .stack = c->stack, .page = (uint32_t)sysconf(_SC_PAGESIZE)};
    struct stat ns;
    struct bpf_map *map = bpf_object__find_map_by_name(object, ".rodata");
    if (copier_namespace(&ns)) {
        config.pidns_dev = ns.st_dev;
        config.pidns_ino = ns.st_ino;
    }
    int failed = map ? bpf_map__set_initial_value(map, &config, sizeof(config)) : -ENOENT;
    failed = failed ? failed : size_maps(object, nr_cpus, c->tables);
    return failed ? error_system(err, -failed, "eBPF: the copier's maps cannot be sized") : 0;
}

static int load(struct copier *c, const struct bpf_image *image, struct error *err)
{
    if (bpf_load(image, configure, c, &c->loaded, err) < 0)
        return -1;
    struct bpf_object *object = c->loaded.object;
    c->processes = bpf_object__find_map_fd_by_name(object, "processes");
    c->lua_processes = bpf_object__find_map_fd_by_name(object, "lua_processes");
    c->v8_threads = bpf_object__find_map_fd_by_name(object, "v8_threads");
    c->outputs = bpf_object__find_map_fd_by_name(object, "outputs");
    c->counters = bpf_object__find_map_fd_by_name(object, "counters");
    snprintf(c->program, sizeof(c->program), "%s, %u instructions verified", image->name,
             c->loaded.instructions);
    return 0;
}

/* Let a further program use the maps of the first one. */
static int share(void *copier, struct bpf_object *object, struct error *err)
{
    struct copier *c = copier;
    struct bpf_map *map;
    if (configure(c, object, err) < 0)
        return -1;
    bpf_object__for_each_map(map, object)
    {
        const struct bpf_map *of =
            bpf_map__is_internal(map)
                ? NULL
                : bpf_object__find_map_by_name(c->loaded.object, bpf_map__name(map));
        int failed = of ? bpf_map__reuse_fd(map, bpf_map__fd(of)) : 0;
        if (failed)
            return error_system(err, -failed, "eBPF: the copier's maps cannot be shared");
    }
    return 0;
}

/* Which of the two programs, as the objects embed them (vmstack_object.S). */
static struct bpf_image image_of(bool task)
{
    const char *begin = task ? vmstack_task_object : vmstack_plain_object;
    const char *end = task ? vmstack_task_object_end : vmstack_plain_object_end;
    return (struct bpf_image){.name = task ? "vmstack_task" : "vmstack_plain",
                              .bytes = begin,
                              .size = (size_t)(end - begin)};
}

/* Note why the program that reads the kernel's structures is not used. */
static void limit(struct copier *c, const char *why)
{
    snprintf(c->limit, sizeof(c->limit),
             "samples that were taken in the kernel have no vmstack, because %s", why);
}

static int load_best(struct copier *c, struct error *err)
{
    const struct bpf_image task = image_of(true), plain = image_of(false);
    if (access("/sys/kernel/btf/vmlinux", R_OK) != 0) {
        limit(c, "the kernel has no BTF (/sys/kernel/btf/vmlinux; CONFIG_DEBUG_INFO_BTF=y)");
    } else if (!bpf_may_read_kernel()) {
        limit(c, "the kernel is locked down (confidentiality: /sys/kernel/security/lockdown)");
    } else {
        if (load(c, &task, err) == 0)
            return 0;
        if (err->sys_errno == EPERM || err->sys_errno == ENOMEM || err->sys_errno == ENOSYS)
            return -1; /* the other program would be refused, too */
        limit(c, err->text);
    }
    return load(c, &plain, err);
}

int copier_create(uint32_t stack, unsigned tables, struct copier **ret, struct error *err)
{
    struct copier *c = calloc(1, sizeof(*c));
    struct error why = {0};
    if (!c)
        return error_no_memory(err);
    int nr_cpus = libbpf_num_possible_cpus();
    c->nr_cpus = nr_cpus > 0 ? (unsigned)nr_cpus : 1;
    c->stack = stack;
    c->tables = tables;
    if (load_best(c, &why) < 0) {
        if (err)
            *err = why;
        copier_free(c);
        return -1;
    }
    *ret = c;
    return 0;
}

void copier_free(struct copier *c)
{
    if (!c)
        return;
    vec_foreach (fd, &c->fds)
        close(*fd);
    vec_free(&c->fds);
    vec_free(&c->ids);
    for (int i = 0; i < TRACING_KINDS; i++)
        bpf_object__close(c->tracing[i].object);
    bpf_object__close(c->loaded.object);
    vec_free(&c->traced);
    free(c);
}

const char *copier_limit(const struct copier *c)
{
    return c->limit[0] ? c->limit : NULL;
}

const char *copier_program(const struct copier *c)
{
    return c->program;
}

/* ---- events ------------------------------------------------------------------------------ */

struct perf_event_attr copier_attr(bool use_clockid, int clockid)
{
    return (struct perf_event_attr){
        .size = sizeof(struct perf_event_attr),
        .type = PERF_TYPE_SOFTWARE,
        .config = PERF_COUNT_SW_BPF_OUTPUT,
        .sample_period = 1,
        .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID |
                       PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_RAW,
        .sample_id_all = 1,
        .use_clockid = use_clockid,
        .clockid = clockid,
    };
}

struct perf_event_attr copier_sample_attr(const struct perf_event_attr *first)
{
    const uint64_t stacks = first->sample_type & (PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER |
                                                  PERF_SAMPLE_STACK_USER);
    struct perf_event_attr attr = {
        .size = sizeof(attr),
        .type = PERF_TYPE_SOFTWARE,
        .config = PERF_COUNT_SW_BPF_OUTPUT,
        .sample_period = 1,
        .sample_type =
            CAPTURE_IDS | PERF_SAMPLE_IP | PERF_SAMPLE_ADDR | PERF_SAMPLE_PERIOD | stacks,
        .read_format = first->read_format,
        .sample_id_all = 1,
        .exclude_callchain_user = 1,
        .use_clockid = first->use_clockid,
        .clockid = first->clockid,
        .watermark = first->watermark,
        .sample_regs_user = first->sample_regs_user,
        .sample_stack_user = first->sample_stack_user,
    };
    attr.wakeup_events = first->wakeup_events; /* also wakeup_watermark */
    return attr;
}

int copier_open_output(const struct perf_event_attr *attr, int cpu, int ring_fd, const char *what,
                       uint64_t *ret_id, struct error *err)
{
    struct perf_event_attr a = *attr;
    int fd = (int)syscall(SYS_perf_event_open, &a, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0)
        return bpf_refused(errno, what, err);
    if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring_fd) < 0)
        error_system(err, errno, "eBPF: cpu %d: %s cannot write into the samples' ring", cpu, what);
    else if (ioctl(fd, PERF_EVENT_IOC_ID, ret_id) < 0)
        error_system(err, errno, "eBPF: cpu %d: the id of %s cannot be read", cpu, what);
    else
        return fd;
    close(fd);
    return -1;
}

int copier_open_cpu(struct copier *c, int cpu, int ring_fd, const struct perf_event_attr *attr,
                    struct error *err)
{
    uint64_t id;
    if (cpu < 0 || (unsigned)cpu >= c->nr_cpus)
        return error_set(err, ERROR_UNSUPPORTED, "eBPF: cpu %d is outside of the %u known cpus",
                         cpu, c->nr_cpus);
    int fd = copier_open_output(attr, cpu, ring_fd, "the copier's event", &id, err);
    if (fd < 0)
        return -1;
    if (!vec_push(&c->fds, fd)) {
        close(fd);
        return error_no_memory(err);
    }
    if (!vec_push(&c->ids, id))
        return error_no_memory(err);
    return copier_use_output(c, cpu, fd, err);
}

int copier_use_output(struct copier *c, int cpu, int fd, struct error *err)
{
    uint32_t key = (uint32_t)cpu;
    int failed = bpf_map_update_elem(c->outputs, &key, &fd, BPF_ANY);
    return failed
               ? error_system(err, -failed, "eBPF: cpu %d: the copier's output cannot be set", cpu)
               : 0;
}

const uint64_t *copier_ids(const struct copier *c, size_t *nr)
{
    *nr = c->ids.nr;
    return c->ids.at;
}

static int load_more(struct copier *c, const struct bpf_image *which, struct bpf_loaded *ret,
                     struct error *err)
{
    struct bpf_image image = image_of(true);
    image.name = which->name;
    image.more = which->more;
    image.attach_type = which->attach_type;
    if (c->limit[0])
        return error_set(err, ERROR_UNSUPPORTED, "eBPF: %s", c->limit);
    return bpf_load(&image, share, c, ret, err);
}

int copier_load(struct copier *c, const char *program, const char *const *more,
                struct bpf_loaded *ret, struct error *err)
{
    const struct bpf_image image = {.name = program, .more = more};
    return load_more(c, &image, ret, err);
}

int copier_load_as(struct copier *c, const char *program, int attach_type, struct bpf_loaded *ret,
                   struct error *err)
{
    const struct bpf_image image = {.name = program, .attach_type = attach_type};
    return load_more(c, &image, ret, err);
}

int copier_map(const struct copier *c, const char *name)
{
    return bpf_object__find_map_fd_by_name(c->loaded.object, name);
}

/* Load the program for a kind of tracing events. */
static int load_tracing(struct copier *c, enum tracing kind, struct error *err)
{
    static const char *const names[] = {
        [TRACING_POINT] = "vmstack_trace", [TRACING_PROBE] = "vmstack_probe"};
    return c->tracing[kind].object ? 0 : copier_load(c, names[kind], NULL, &c->tracing[kind], err);
}

/* Run a program at each hit of a tracepoint or probe. It is set on an event that is never enabled
 * and that nobody inherits: when a thread ends, its inherited event takes the program away from
 * all. */
static int attach_tracing(struct copier *c, const struct perf_event_attr *attr, struct error *err)
{
    struct perf_event_attr holder = {.size = sizeof(holder),
                                     .type = attr->type,
                                     .config = attr->config,
                                     .sample_period = 1,
                                     .disabled = 1};
    vec_foreach (id, &c->traced)
        if (*id == attr->config)
            return 0;
    int fd = (int)syscall(SYS_perf_event_open, &holder, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0)
        return bpf_refused(errno, "opening a tracepoint for the copier", err);
    if (!vec_push(&c->fds, fd)) {
        close(fd);
        return error_no_memory(err);
    }
    int why = EINVAL; /* the program is of the other kind */
    for (int i = 0; why == EINVAL && i < TRACING_KINDS; i++) {
        if (load_tracing(c, (enum tracing)i, err) < 0)
            return -1;
        why = ioctl(fd, PERF_EVENT_IOC_SET_BPF, c->tracing[i].program) < 0 ? errno : 0;
    }
    if (why)
        return bpf_refused(why, "attaching the copier to a tracepoint", err);
    return vec_push(&c->traced, attr->config) ? 0 : error_no_memory(err);
}

int copier_attach(struct copier *c, int sampling_fd, const struct perf_event_attr *attr,
                  struct error *err)
{
    if (attr->type == PERF_TYPE_TRACEPOINT)
        return attach_tracing(c, attr, err);
    if (ioctl(sampling_fd, PERF_EVENT_IOC_SET_BPF, c->loaded.program) < 0)
        return bpf_refused(errno, "attaching the copier to a sampling event", err);
    return 0;
}

int copier_link(struct copier *c, int sampling_fd, struct error *err)
{
    int link = bpf_link_create(c->loaded.program, sampling_fd, BPF_PERF_EVENT, NULL);
    if (link < 0)
        return bpf_refused(-link, "linking the copier to a sampling event (Linux 5.15)", err);
    if (vec_push(&c->fds, link))
        return 0;
    close(link);
    return error_no_memory(err);
}

/* ---- which VMs --------------------------------------------------------------------------- */

/* Convert an offset for the program; 0 where it is not known, which the program takes for
 * absent. */
static uint16_t offset(int32_t value)
{
    return value > 0 && value <= UINT16_MAX ? (uint16_t)value : 0;
}

static int32_t highest(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static uint16_t at_most(int32_t value, int32_t most)
{
    return offset(value < most ? value : most);
}

static struct vmstack_vm describe(const struct lua_scan_vm *from)
{
    const struct luajit_layout *l = from->vm.layout;
    struct vmstack_vm vm = {.g = from->vm.g, .main_L = from->main_L, .blob = from->vm.blob};
    /* On AArch64 the register has g itself. */
    vm.dispatch = l->machine == LUAJIT_ON_AARCH64 ? 0 : offset(l->g2disp);
    vm.blob_end = vm.blob + l->blob_size;
    vm.flags = l->gc64 ? VMSTACK_GC64 : 0;
    if (l->cur_L > 0)
        vm.flags |= VMSTACK_CUR_L;
    if (l->trace > 0 && l->sizetrace > 0 && l->parent > 0 && l->J > 0)
        vm.flags |= VMSTACK_JIT;
    vm.cur_L = offset(l->cur_L);
    vm.jit_base = offset(l->jit_base);
    vm.vmstate = offset(l->vmstate);
    vm.trace = offset(l->trace);
    vm.sizetrace = offset(l->sizetrace);
    vm.exit = offset(l->parent);
    int32_t last = highest(highest(l->cur_L, l->jit_base), highest(l->vmstate, l->ctype_state));
    vm.global_size = at_most(highest(last, l->jit_L) + 8, VMSTACK_GLOBAL);
    vm.jit = offset(l->J);
    vm.jit_size = at_most(l->sizetrace + 4 - l->J, VMSTACK_GLOBAL);
    vm.L_glref = offset(l->L_glref);
    vm.L_base = offset(l->L_base);
    vm.L_top = offset(l->L_top);
    vm.L_maxstack = offset(l->L_maxstack);
    vm.L_stack = offset(l->L_stack);
    vm.L_cframe = offset(l->L_cframe);
    vm.L_size = at_most(l->L_used, VMSTACK_STATE);
    vm.frame_L = offset(l->frame_L);
    vm.frame_prev = offset(l->frame_prev);
    vm.frame_size = offset(l->frame_size);
    vm.function_size = at_most(l->func_c + 8, VMSTACK_STATE);
    vm.gct = offset(l->gct);
    vm.trace_size = at_most(l->trace_size, VMSTACK_TRACE);
    vm.trace_ir = offset(l->trace_ir);
    vm.trace_nk = offset(l->trace_nk);
    vm.trace_snap = offset(l->trace_snap);
    vm.trace_snapmap = offset(l->trace_snapmap);
    vm.trace_mcode = offset(l->trace_mcode);
    vm.trace_szmcode = offset(l->trace_szmcode);
    vm.trace_spadjust = offset(l->trace_spadjust);
    vm.func_ffid = offset(l->func_ffid);
    vm.func_pc = offset(l->func_pc);
    vm.proto_size = at_most(l->proto_size, VMSTACK_STATE);
    vm.proto_chunkname = offset(l->proto_chunkname);
    vm.proto_sizebc = offset(l->proto_sizebc);
    vm.proto_numline = offset(l->proto_numline);
    vm.proto_lineinfo = offset(l->proto_lineinfo);
    vm.frame_pc = offset(l->frame_pc);
    vm.str_size = at_most(l->str_size, VMSTACK_STATE);
    vm.str_len = offset(l->str_len);
    vm.stubs = offset(l->exitstubgroup);
    return vm;
}

/* Add, after the known VMs, one entry for each LuaJIT that may run other VMs. */
static void add_unknown(struct vmstack_process *p, const struct luajit_blob *blobs, size_t nr)
{
    for (size_t i = 0; i < nr && p->nr < VMSTACK_VMS; i++) {
        const struct lua_scan_vm any = {
            .vm = {.blob = blobs[i].address, .layout = blobs[i].layout}};
        struct vmstack_vm vm = describe(&any);
        if (blobs[i].layout->g2disp > 0 && vm.flags & VMSTACK_CUR_L)
            p->vms[p->nr++] = vm;
    }
}

int copier_set(struct copier *c, pid_t pid, const struct copier_vms *of, size_t *ret_over,
               struct error *err)
{
    struct vmstack_process *p = calloc(1, sizeof(*p));
    uint32_t key = (uint32_t)pid;
    if (!p)
        return error_no_memory(err);
    size_t nr_unknown = of->nr_blobs < VMSTACK_VMS / 2 ? of->nr_blobs : VMSTACK_VMS / 2;
    size_t room = VMSTACK_VMS - nr_unknown; /* in a process of many VMs, most are unknown */
    p->nr = p->known = (uint32_t)(of->nr < room ? of->nr : room);
    if (ret_over)
        *ret_over = of->nr - p->known;
    for (uint32_t i = 0; i < p->known; i++)
        p->vms[i] = describe(&of->vms[i]);
    add_unknown(p, of->blobs, of->nr_blobs);
    int failed = bpf_map_update_elem(c->processes, &key, p, BPF_ANY);
    free(p);
    if (failed == -E2BIG)
        return error_set(
            err, ERROR_UNSUPPORTED,
            "eBPF: more than %d processes have Lua; samples of the others have no vmstacks",
            VMSTACK_PROCESSES);
    return failed ? error_system(err, -failed, "eBPF: the VMs of process %d cannot be stored", pid)
                  : 0;
}

/* ---- plain Lua --------------------------------------------------------------------------- */

/* Set where execute's frame has the slot with L. The place is relative to the CFA, which a register
 * tells. */
static void set_slot(struct vmstack_lua *b, const struct lua_layout *l)
{
    if (!l->nr_state || l->state[0].kind != LUA_IN_SLOT)
        return;
    int64_t slot = (int64_t)l->cfa_offset + l->state[0].offset;
    if (slot < -VMSTACK_LUA_FRAME || slot > VMSTACK_LUA_FRAME)
        return;
    b->slot = (int32_t)slot;
    if (l->cfa_by == LUA_BY_SP)
        b->flags |= VMSTACK_LUA_BY_SP;
    else if (l->cfa_by == LUA_BY_FP)
        b->flags |= VMSTACK_LUA_BY_BP;
}

static uint16_t field(uint16_t value)
{
    return value == LUA_NO_FIELD ? 0 : value;
}

static struct vmstack_lua describe_lua(const struct copier_lua *from)
{
    const struct lua_layout *l = from->layout;
    const struct lua_fields *f = &l->fields;
    struct vmstack_lua b = {
        .main_thread = f->global.main_thread,
        .state_size = at_most(f->state.size, VMSTACK_STATE_OF_LUA),
        .global = f->state.global,
        .top = f->state.top,
        .ci = f->state.ci,
        .stack = f->state.stack,
        .base_ci = field(f->state.base_ci),
        .call_size = at_most(f->ci.size, VMSTACK_STATE),
        .call_func = f->ci.func,
        .call_top = f->ci.top,
        .call_previous = field(f->ci.previous),
        .closure_size = VMSTACK_LUA_CLOSURE,
        .proto = f->closure.function,
        .is_c = field(f->closure.is_c),
        .source = f->proto.source,
        .lineinfo = f->proto.lineinfo,
        .size_lineinfo = f->proto.size_lineinfo,
        .abslineinfo = field(f->proto.abslineinfo),
        .size_abslineinfo = field(f->proto.size_abslineinfo),
        .line_size = f->proto.signed_lines ? 1 : 4,
        .proto_size = at_most(f->proto.size, VMSTACK_STATE),
        .tag_lua = f->closure.tag_lua & 0x3f,
        .tag_c = f->closure.tag_c & 0x3f,
    };
    b.flags = (f->global.main_is_embedded ? VMSTACK_LUA_EMBEDDED : 0u) |
              (f->ci.is_array ? VMSTACK_LUA_ARRAY_OF_CALLS : 0u);
    for (unsigned i = 0; i < l->nr_parts && i < VMSTACK_LUA_PARTS; i++) {
        b.parts[i].start = l->parts[i].start + from->bias;
        b.parts[i].size = l->parts[i].end - l->parts[i].start;
    }
    set_slot(&b, l);
    return b;
}

/* Note the addresses from the first part of all builds to the last. */
static void set_bounds(struct vmstack_lua_builds *p)
{
    uint64_t low = UINT64_MAX, high = 0;
    for (uint32_t i = 0; i < p->nr; i++) {
        for (unsigned k = 0; k < VMSTACK_LUA_PARTS && p->builds[i].parts[k].size; k++) {
            uint64_t start = p->builds[i].parts[k].start, end = start + p->builds[i].parts[k].size;
            low = start < low ? start : low;
            high = end > high ? end : high;
        }
    }
    p->low = low;
    p->size = high > low ? high - low : 0;
}

static int store_lua(struct copier *c, pid_t pid, const struct vmstack_lua_process *p,
                     struct error *err)
{
    uint32_t key = (uint32_t)pid;
    int failed = bpf_map_update_elem(c->lua_processes, &key, p, BPF_ANY);
    if (failed == -E2BIG)
        return error_set(
            err, ERROR_UNSUPPORTED,
            "eBPF: more than %d processes have plain Lua; samples of the others have no vmstacks",
            VMSTACK_LUA_PROCESSES);
    return failed ? error_system(err, -failed, "eBPF: the plain Lua of process %d cannot be stored",
                                 pid)
                  : 0;
}

int copier_set_lua(struct copier *c, pid_t pid, const struct copier_lua *of, size_t nr,
                   struct error *err)
{
    struct vmstack_lua_process p = {.of = {.version = ++c->lua_version}};
    for (size_t i = 0; i < nr && i < VMSTACK_LUA_BUILDS; i++)
        p.of.builds[p.of.nr++] = describe_lua(&of[i]);
    set_bounds(&p.of);
    return store_lua(c, pid, &p, err);
}

int copier_fork_lua(struct copier *c, pid_t parent, pid_t pid, struct error *err)
{
    struct vmstack_lua_process p;
    uint32_t key = (uint32_t)parent;
    return bpf_map_lookup_elem(c->lua_processes, &key, &p) ? 0 : store_lua(c, pid, &p, err);
}

void copier_set_v8(struct copier *c, pid_t pid, pid_t tid, const struct v8_layout *layout,
                   uint64_t root)
{
    const struct v8_layout *l = layout;
    const uint32_t key = (uint32_t)tid;
    const struct vmstack_v8 v8 = {
        .running = root - l->machine->root_bias + (uint64_t)(int64_t)l->running_microtask,
        .pid = (uint32_t)pid,
        .fn_context = offset(l->fn_context),
        .reaction_next = offset(l->reaction_next),
        .fulfill_job = offset(l->type_fulfill_job),
        .reject_job = offset(l->type_reject_job),
        .thenable_job = offset(l->type_thenable_job),
        .async_function = offset(l->type_async_function),
        .async_generator = offset(l->type_async_generator),
        .promise = offset(l->type_promise),
        .capability = offset(l->type_capability),
        .reaction = offset(l->type_reaction),
    };
    if (l->running_microtask == V8_UNKNOWN || !l->verified || !v8.reaction_next || !v8.fn_context ||
        !v8.fulfill_job || !v8.promise || !v8.reaction)
        return;
    (void)bpf_map_update_elem(c->v8_threads, &key, &v8, BPF_ANY); /* else chains are read later */
}

void copier_drop(struct copier *c, pid_t pid)
{
    uint32_t key = (uint32_t)pid;
    (void)bpf_map_delete_elem(c->lua_processes, &key);
    (void)bpf_map_delete_elem(c->processes, &key); /* the process may never have been there */
}

/* ---- another process ----------------------------------------------------------------------- */

void copier_renew(struct copier *c)
{
    enum { MORE = 1 << 20 }; /* than one process sets */
    c->lua_version += MORE;
}

void copier_maps(const struct copier *c, int ret[COPIER_MAPS])
{
    ret[0] = c->processes;
    ret[1] = c->lua_processes;
    ret[2] = c->counters;
    ret[3] = c->v8_threads;
}

struct vmstack_counters copier_counters(const struct copier *c)
{
    struct vmstack_counters sum = {0};
    uint32_t zero = 0;
    struct vmstack_counters *all = calloc(c->nr_cpus, sizeof(*all));
    if (all && bpf_map_lookup_elem(c->counters, &zero, all) == 0)
        for (unsigned cpu = 0; cpu < c->nr_cpus; cpu++)
            for (unsigned i = 0; i < VMSTACK_NR_COUNTERS; i++)
                sum.value[i] += all[cpu].value[i];
    free(all);
    return sum;
}
