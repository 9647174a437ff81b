/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Time off the cpu. Part of vmstack.bpf.c.
 *
 * - off_cpu_switch: a thread leaves a cpu, and another one gets it. Note the time of the first;
 *   decide whether the wait of the second becomes a sample, and note its kernel stack.
 * - off_cpu_write: the thread is about to return to user code. Let the kernel write the sample,
 * with the user's registers and stack, after the copier's record.
 * - off_cpu_wake: a thread is woken. Note when and, if that is wanted, by
 * whom.
 * - off_cpu_fork: children and new threads of a recorded thread are recorded, too.
 * - off_cpu_exec: the command is recorded from its exec on.
 * - off_cpu_list: lists the threads that wait, when the recording ends.
 *
 * A wait of the mean or longer is a sample, whose weight is the wait. A shorter wait becomes one by
 * chance, in proportion to its length, with the mean as weight. So the sums of weights are right,
 * and there are no more than 1 / mean samples a second of a thread.
 *
 * At its switch-in a thread is not yet the current task, so its user stack cannot be copied. The
 * kernel calls rseq_update later in the thread itself, before it returns to user code, if the
 * thread has registered for restartable sequences (glibc 2.35 and later do). For others there is
 * the end of a system call. Both are used only if the thread has not run user code since the wait:
 * its user registers must be the same.
 */

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1); /* set at load if time off the cpu is recorded, like the next two */
    __type(key, uint32_t);  /* tid, in the first pid namespace */
    __type(value, struct off_cpu_wait);
} off_cpu_waits SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1);
    __type(key, uint32_t); /* likewise */
    __type(value, struct off_cpu_due);
} off_cpu_dues SEC(".maps");

/* The recorded threads. Value: whether it is recorded already. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1);
    __type(key, uint32_t); /* likewise */
    __type(value, uint32_t);
} off_cpu_threads SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
    __uint(max_entries, 1); /* set to the number of cpus at load */
    __uint(key_size, sizeof(uint32_t));
    __uint(value_size, sizeof(uint32_t));
} off_cpu_outputs SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, uint32_t);
    __type(value, struct off_cpu_due);
} off_cpu_scratches SEC(".maps");

/* Of off_cpu_list, which the other programs may interrupt. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, uint32_t);
    __type(value, struct off_cpu_thread);
} off_cpu_listed SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, uint32_t);
    __type(value, struct off_cpu_settings);
} off_cpu_settings SEC(".maps");

int off_cpu_switch(uint64_t *ctx);
int off_cpu_write(void *ctx);
int off_cpu_wake(uint64_t *ctx);
int off_cpu_fork(uint64_t *ctx);
int off_cpu_exec(uint64_t *ctx);
int off_cpu_list(uint64_t *ctx);

/* The state's name before Linux 5.14. */
struct task_struct___before_514 {
    long state;
} RELOCATED;

/* Where the rseq pointer is since Linux 6.19. */
struct task_struct___since_619 {
    struct {
        void *usrptr;
    } rseq;
} RELOCATED;

enum {
    STATE_DEAD = 0x80, /* TASK_DEAD of include/linux/sched.h */
    NOT_THERE = 2,     /* ENOENT */
};

static __always_inline uint32_t off_cpu_state(const struct task_struct *task)
{
    if (bpf_core_field_exists(task->__state))
        return task->__state;
    return (uint32_t)((const struct task_struct___before_514 *)task)->state;
}

/* Whether a cpu runs the task now. */
static __always_inline int off_cpu_runs(const struct task_struct *task)
{
    return bpf_core_field_exists(task->on_cpu) && task->on_cpu;
}

static __always_inline int off_cpu_has_rseq(const struct task_struct *task)
{
    const struct task_struct___since_619 *newer = (const void *)task;
    if (bpf_core_field_exists(task->rseq))
        return task->rseq != 0;
    if (bpf_core_field_exists(newer->rseq.usrptr))
        return newer->rseq.usrptr != 0;
    return 0;
}

static __always_inline int off_cpu_is_recorded(const struct off_cpu_settings *settings,
                                               const struct task_struct *task, uint32_t tid)
{
    if (!task->mm) /* a thread of the kernel */
        return 0;
    if (settings->all)
        return 1;
    const uint32_t *recorded = bpf_map_lookup_elem(&off_cpu_threads, &tid);
    return recorded && *recorded;
}

/* A thread that has left a cpu leaves one again: its return was not seen. Some kernels (of virtual
 * machines) have threads of their own whose switches are not traced, so what comes after one is not
 * seen either. When it returned is not known: at the latest now. */
static __always_inline void off_cpu_missed(const struct off_cpu_settings *settings, uint64_t out,
                                           uint64_t now)
{
    out = out < settings->began ? settings->began : out;
    count(OFF_CPU_MISSED, 1);
    count(OFF_CPU_MISSED_NS, now > out ? now - out : 0);
}

static __always_inline void off_cpu_out(const struct off_cpu_settings *settings,
                                        const struct task_struct *task, uint64_t now)
{
    uint32_t tid = (uint32_t)task->pid;
    uint32_t state = off_cpu_state(task);
    if (state & STATE_DEAD) {
        bpf_map_delete_elem(&off_cpu_waits, &tid);
        bpf_map_delete_elem(&off_cpu_dues, &tid);
        bpf_map_delete_elem(&off_cpu_threads, &tid);
        return;
    }
    struct off_cpu_wait *known = bpf_map_lookup_elem(&off_cpu_waits, &tid);
    if (known) {
        if (known->out && settings->began)
            off_cpu_missed(settings, known->out, now);
        known->out = now;
        known->woken = 0;
        known->state = state;
    } else if (off_cpu_is_recorded(settings, task, tid)) {
        struct off_cpu_wait wait = {.out = now, .state = state};
        if (bpf_map_update_elem(&off_cpu_waits, &tid, &wait, BPF_ANY))
            count(OFF_CPU_OVER, 1);
    }
}

/* When a thread left the cpu that is seen for the first time: it is new, or has waited since before
 * the recording. */
static __always_inline uint64_t off_cpu_unseen(const struct task_struct *task, uint64_t began,
                                               uint32_t *state)
{
    uint64_t start = task->start_time;
    *state = start > began ? OFFCPU_RUNNABLE : OFFCPU_UNKNOWN;
    return start > began ? start : began;
}

/* Returns what a wait of this length weighs; 0: it is not sampled. */
static __always_inline uint64_t off_cpu_draw(uint64_t mean, uint64_t waited)
{
    if (waited >= mean)
        return waited;
    return (uint64_t)bpf_get_prandom_u32() * mean >> 32 < waited ? mean : 0;
}

static __always_inline const user_registers *off_cpu_registers(struct task_struct *task)
{
    if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
        return (const user_registers *)bpf_task_pt_regs(task);
    return registers_at(task);
}

/* A wait that has ended. */
struct off_cpu_ended {
    uint64_t waited, weight; /* ns */
    uint64_t woken;          /* as in off_cpu_wait */
    uint64_t runqueue;       /* as in off_cpu_due */
    uint32_t state;
};

/* Set the part of a wait's weight in which the thread could run, and had no cpu. */
static __always_inline void off_cpu_delay(struct off_cpu_ended *wait, uint64_t now)
{
    uint64_t delay = 0;
    if (wait->state == OFFCPU_RUNNABLE)
        delay = wait->waited;
    else if (wait->woken && wait->woken < now)
        delay = now - wait->woken;
    else if (!wait->woken)
        count(OFF_CPU_NO_WAKE, 1);
    if (delay > wait->waited)
        delay = wait->waited;
    if (wait->weight > wait->waited) /* of fewer than 2^32 ns: it stands for `weight` */
        delay = delay * wait->weight / wait->waited;
    wait->runqueue = delay;
}

/* Set who woke a thread. */
static __always_inline void off_cpu_woken_by(struct off_cpu_due *due, uint32_t tid,
                                             const struct off_cpu_ended *wait)
{
    const struct off_cpu_wait *known = bpf_map_lookup_elem(&off_cpu_waits, &tid);
    if (wait->woken && known) {
        due->waker = known->waker;
        return;
    }
    due->waker.flags = 0;
    due->waker.pid = due->waker.tid = 0;
    due->waker.comm[0] = 0;
}

/* Note the wait of a thread that gets the cpu now, and what its kernel stack is. */
static __always_inline void off_cpu_note(const struct off_cpu_settings *settings,
                                         struct task_struct *task, uint32_t tid,
                                         const struct off_cpu_ended *wait)
{
    uint32_t zero = 0;
    struct off_cpu_due *due = bpf_map_lookup_elem(&off_cpu_scratches, &zero);
    const struct off_cpu_due *before = bpf_map_lookup_elem(&off_cpu_dues, &tid);
    const user_registers *regs = off_cpu_registers(task);
    if (!due || !is_user_mode(saved(&regs->MODE))) /* it never returns to user code */
        return;
    due->weight = wait->weight;
    due->waited = wait->waited;
    due->nr = 1;
    due->runqueue = wait->runqueue;
    off_cpu_woken_by(due, tid, wait);
    due->state = wait->state;
    due->syscall = system_call(regs);
    due->ip = saved(&regs->IP);
    due->sp = saved(&regs->SP);
    if (before && before->ip == due->ip && before->sp == due->sp) {
        due->nr += before->nr;
        due->weight += before->weight;
        due->waited += before->waited;
        due->runqueue += before->runqueue;
    } else if (before) {
        count(OFF_CPU_UNSEEN, 1);
    }
    long size = 0;
    if (settings->kernel)
        size = bpf_get_task_stack(task, due->frames, sizeof(due->frames), 0);
    due->nr_frames = size > 0 ? (uint64_t)size / sizeof(*due->frames) : 0;
    if (bpf_map_update_elem(&off_cpu_dues, &tid, due, BPF_ANY))
        count(OFF_CPU_OVER, 1);
}

/* Returns when the thread that gets the cpu left it; 0: that is not to be recorded. */
static __always_inline uint64_t off_cpu_left(const struct off_cpu_settings *settings,
                                             const struct task_struct *task, uint32_t tid,
                                             struct off_cpu_ended *wait)
{
    uint64_t began = settings->began, out = 0;
    struct off_cpu_wait *known = bpf_map_lookup_elem(&off_cpu_waits, &tid);
    if (known) {
        out = known->out;
        wait->state = known->state;
        wait->woken = known->woken;
        known->out = 0;
        return out && out < began ? began : out;
    }
    if (!began || !off_cpu_is_recorded(settings, task, tid))
        return 0;
    const struct off_cpu_wait seen = {0};
    if (bpf_map_update_elem(&off_cpu_waits, &tid, &seen, BPF_ANY))
        count(OFF_CPU_OVER, 1);
    return off_cpu_unseen(task, began, &wait->state);
}

static __always_inline void off_cpu_in(const struct off_cpu_settings *settings,
                                       struct task_struct *task, uint64_t now)
{
    uint32_t tid = (uint32_t)task->pid;
    struct off_cpu_ended wait = {0};
    uint64_t out = off_cpu_left(settings, task, tid, &wait);
    if (!out || !settings->began || now <= out)
        return;
    wait.waited = now - out;
    wait.weight = off_cpu_draw(settings->mean, wait.waited);
    count(OFF_CPU_WAITS, 1);
    count(OFF_CPU_NS, wait.waited);
    if (!wait.weight)
        return;
    if (!off_cpu_has_rseq(task))
        count(OFF_CPU_NO_RSEQ, 1);
    if (settings->wakes)
        off_cpu_delay(&wait, now);
    off_cpu_note(settings, task, tid, &wait);
}

SEC("tp_btf/sched_switch")
int off_cpu_switch(uint64_t *ctx)
{
    uint32_t zero = 0;
    const struct off_cpu_settings *settings = bpf_map_lookup_elem(&off_cpu_settings, &zero);
    uint64_t now = bpf_ktime_get_ns();
    if (!settings)
        return 0;
    off_cpu_out(settings, (const struct task_struct *)ctx[1], now);
    off_cpu_in(settings, (struct task_struct *)ctx[2], now);
    return 0;
}

/* ---- who wakes ------------------------------------------------------------------------------- */

/* The kernel's count of nested contexts (include/linux/preempt.h). Interrupts are counted from bit
 * 16 on, since Linux 7 from bit 24 on: below is then how often Rust code has turned them off. */
enum {
    COUNT_SOFTIRQ = 1 << 8,
    COUNT_INTERRUPT = 0x7fff0000,
};

#if defined(__TARGET_ARCH_x86)
struct pcpu_hot {
    int preempt_count;
} RELOCATED;

/* It is a variable of each cpu, or a field of one (Linux 6.2 to 6.14). */
static __always_inline uint32_t off_cpu_context(const struct off_cpu_settings *settings,
                                                uint32_t *nested)
{
    uint64_t at = settings->preempt_count, offset = 0;
    const uint64_t *offsets = (const uint64_t *)settings->cpu_offsets;
    if (!at && settings->pcpu_hot && bpf_core_field_exists(struct pcpu_hot, preempt_count))
        at = settings->pcpu_hot + bpf_core_field_offset(struct pcpu_hot, preempt_count);
    if (!at || !offsets ||
        bpf_probe_read_kernel(&offset, sizeof(offset), offsets + bpf_get_smp_processor_id()) ||
        bpf_probe_read_kernel(nested, sizeof(*nested), (const void *)(at + offset)))
        return 0;
    return OFFCPU_WAKER_CONTEXT;
}
#else
struct thread_info___local {
    uint64_t preempt_count;
} RELOCATED;
struct task_struct___local {
    struct thread_info___local thread_info;
} RELOCATED;

static __always_inline uint32_t off_cpu_context(const struct off_cpu_settings *settings,
                                                uint32_t *nested)
{
    const struct task_struct___local *task = (const void *)bpf_get_current_task();
    (void)settings;
    *nested = (uint32_t)BPF_CORE_READ(task, thread_info.preempt_count);
    return OFFCPU_WAKER_CONTEXT;
}
#endif

/* What can be told without: the idle task wakes nobody by itself, nor does a thread that is in no
 * system call. */
static __always_inline uint32_t off_cpu_guess_context(uint32_t tid)
{
    const struct task_struct *task = (const struct task_struct *)bpf_get_current_task();
    if (tid && (!BPF_CORE_READ(task, mm) || system_call(user_registers_of(task)) >= 0))
        return 0;
    return OFFCPU_WAKER_CONTEXT | OFFCPU_WAKER_INTERRUPT;
}

static __always_inline void off_cpu_note_waker(const struct off_cpu_settings *settings,
                                               struct off_cpu_waker *waker)
{
    uint64_t id = bpf_get_current_pid_tgid();
    uint32_t nested = 0, context = off_cpu_context(settings, &nested);
    if (!context || !(uint32_t)id)
        context = off_cpu_guess_context((uint32_t)id);
    else if (nested & COUNT_INTERRUPT)
        context |= OFFCPU_WAKER_INTERRUPT;
    else if (nested & COUNT_SOFTIRQ)
        context |= OFFCPU_WAKER_SOFTIRQ;
    waker->flags = OFFCPU_WAKER | context;
    waker->pid = (uint32_t)(id >> 32);
    waker->tid = (uint32_t)id;
    bpf_get_current_comm(waker->comm, sizeof(waker->comm));
}

/* Runs in the thread that wakes another one, or in an interrupt. */
SEC("tp_btf/sched_waking")
int off_cpu_wake(uint64_t *ctx)
{
    uint32_t zero = 0, tid = (uint32_t)((const struct task_struct *)ctx[0])->pid;
    struct off_cpu_wait *known = bpf_map_lookup_elem(&off_cpu_waits, &tid);
    if (!known || !known->out || known->woken)
        return 0;
    const struct off_cpu_settings *settings = bpf_map_lookup_elem(&off_cpu_settings, &zero);
    if (settings && settings->wakers)
        off_cpu_note_waker(settings, &known->waker);
    known->woken = bpf_ktime_get_ns();
    return 0;
}

/* Whether the current task has run no user code since the wait. A restarted system call has its
 * instruction still before it. */
static __always_inline int off_cpu_is_still(const struct off_cpu_due *due,
                                            const struct task_struct *task)
{
    const user_registers *regs = user_registers_of(task);
    uint64_t ip = saved(&regs->IP);
    return saved(&regs->SP) == due->sp && (ip == due->ip || ip + SYSCALL_SIZE == due->ip);
}

/* At any raw tracepoint of the waiting thread itself: rseq_update, sys_exit. */
SEC("raw_tp")
int off_cpu_write(void *ctx)
{
    uint32_t tid = (uint32_t)bpf_get_current_pid_tgid();
    struct off_cpu_due *due = bpf_map_lookup_elem(&off_cpu_dues, &tid);
    if (!due)
        return 0;
    if (off_cpu_is_still(due, (const struct task_struct *)bpf_get_current_task())) {
        of_task(ctx, 0);
        long failed =
            bpf_perf_event_output(ctx, &off_cpu_outputs, BPF_F_CURRENT_CPU, due, sizeof(*due));
        if (!failed)
            count(OFF_CPU_SAMPLES, 1);
        else if (failed != -NOT_THERE) /* else this cpu is not recorded (-C) */
            count(OFF_CPU_LOST, 1);
    } else {
        count(OFF_CPU_UNSEEN, 1);
    }
    bpf_map_delete_elem(&off_cpu_dues, &tid);
    return 0;
}

SEC("tp_btf/task_newtask")
int off_cpu_fork(uint64_t *ctx)
{
    uint32_t parent = (uint32_t)bpf_get_current_pid_tgid();
    uint32_t child = (uint32_t)((const struct task_struct *)ctx[0])->pid;
    const uint32_t *recorded = bpf_map_lookup_elem(&off_cpu_threads, &parent);
    if (!recorded)
        return 0;
    uint32_t value = *recorded;
    if (bpf_map_update_elem(&off_cpu_threads, &child, &value, BPF_ANY))
        count(OFF_CPU_OVER, 1);
    return 0;
}

/* The thread that executes a program gets the id of its process. */
SEC("tp_btf/sched_process_exec")
int off_cpu_exec(uint64_t *ctx)
{
    uint32_t before = (uint32_t)ctx[1], now = (uint32_t)bpf_get_current_pid_tgid(), yes = 1;
    if (!bpf_map_lookup_elem(&off_cpu_threads, &before))
        return 0;
    if (before != now)
        bpf_map_delete_elem(&off_cpu_threads, &before);
    bpf_map_update_elem(&off_cpu_threads, &now, &yes, BPF_ANY);
    return 0;
}

/* ---- who waits at the end -------------------------------------------------------------------- */

struct bpf_iter_meta {
    struct seq_file *seq;
} RELOCATED;

/* Returns since when a thread waits; 0: it does not, or is not recorded. One that no cpu has run
 * since the beginning is followed from now on: then its next switch is seen. */
static __always_inline uint64_t off_cpu_waits_since(const struct off_cpu_settings *settings,
                                                    const struct task_struct *task, uint32_t tid,
                                                    uint32_t *state)
{
    const struct off_cpu_wait *known = bpf_map_lookup_elem(&off_cpu_waits, &tid);
    if (known) {
        *state = known->state;
        return known->out && known->out < settings->began ? settings->began : known->out;
    }
    if (!off_cpu_is_recorded(settings, task, tid))
        return 0;
    struct off_cpu_wait wait = {.out = settings->began, .state = OFFCPU_UNKNOWN};
    *state = wait.state;
    return bpf_map_update_elem(&off_cpu_waits, &tid, &wait, BPF_NOEXIST) ? 0 : wait.out;
}

SEC("iter/task")
int off_cpu_list(uint64_t *ctx)
{
    struct bpf_iter_meta *meta = (struct bpf_iter_meta *)ctx[0];
    struct task_struct *task = (struct task_struct *)ctx[1];
    uint32_t zero = 0, tid;
    const struct off_cpu_settings *settings = bpf_map_lookup_elem(&off_cpu_settings, &zero);
    struct off_cpu_thread *t = bpf_map_lookup_elem(&off_cpu_listed, &zero);
    if (!task || !settings || !settings->began || !t)
        return 0;
    tid = (uint32_t)task->pid;
    t->state = 0;
    t->out = off_cpu_runs(task) ? 0 : off_cpu_waits_since(settings, task, tid, &t->state);
    if (!t->out) /* it runs, or is not recorded */
        return 0;
    const user_registers *regs = off_cpu_registers(task);
    t->tid = tid;
    t->pid = (uint32_t)task->tgid;
    t->syscall = system_call(regs);
    t->is_64bit = is_64bit(regs);
    read_registers(regs, t->registers);
    long size = 0;
    if (settings->kernel)
        size = bpf_get_task_stack(task, t->frames, sizeof(t->frames), 0);
    t->nr_frames = size > 0 ? (uint32_t)(size / sizeof(*t->frames)) : 0;
    bpf_seq_write(meta->seq, t, sizeof(*t));
    return 0;
}
