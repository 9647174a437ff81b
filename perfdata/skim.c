/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reads a file's records without their stale bytes. A 64 KiB stack copy holds a few useful KiB.
 * Touching them in a mapping costs one page fault per sample, which maps and later unmaps sixteen
 * pages (4 us, where unwinding ten frames takes 1). A read of just these bytes costs 0.8 us. So
 * each read begins at the end of one sample's copy, where its dyn_size is, and takes the head and
 * the stack of the next sample. The bytes stay where they were read, in a chunk.
 *
 * This holds for small pages and copies far apart. If one fault maps many samples (copies of 16
 * KiB; a page cache of large pages), the mapping costs less than copying the needed bytes. So now
 * and then we count the faults for some places ahead, and compare their cost with that of reading.
 *
 * Only samples are skimmed. With split_stacks, as much of a stack is read as walks were said to
 * need, and the rest stays in the mapping. Deep stacks and unusual records stay there as a whole.
 */
#include "perfdata/perfdata_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    SKIMMED_FILE = 8 << 20, /* bytes: the mapping of a smaller file costs next to nothing */
    AHEAD_MIN = 1 << 10,    /* for a record and what follows: enough for its head */
    AHEAD_MAX = 12 << 10,   /* a sample with more live bytes stays in the mapping */
    SKIMMED_MIN = 4 << 10,  /* bytes: smaller samples are read whole */
    AHEAD_DECAY = 64,       /* `ahead` shrinks by 1/AHEAD_DECAY of the excess */
    HEAD_ROOM = 512,        /* not skimmed if fewer bytes were read: the head may be longer */
    LONG_HEAD = 2 << 10,    /* registers and the longest callchain */
    TAIL_MAX = 256,         /* dyn_size and the fields behind it */
    WINDOW_MAX = CHUNK_SIZE - CHUNK_HEAD - TAIL_MAX - 8,
    ASKED = 16,
    WILL_NEED_MIN = 256 << 10, /* bytes to request from a disk if single pages are missing */
    WILL_NEED_MAX = 8 << 20,   /* bytes to request if all pages are missing */
    CHUNKS_MAX = 32, /* with more chunks in use (records that wait to be delivered), use the
                        mapping for everything: then an order in which half of the file must
                        wait takes no memory */
    /* Measured, and expressed in bytes copied: 0.2 us per KiB, 0.4 us per read, 4.4 us per fault
     * that maps 16 pages. */
    READ_COST = 2 << 10,
    FAULT_COST = 24 << 10,
    FAULT_PAGES = 64 << 10, /* the most that one fault maps with small pages */
    JUDGED = 1 << 20,       /* costs are for this many bytes of the file */
    PROBED = 128 << 10,     /* checked first while reading is in use */
    READ_ON_MIN = 4 << 20,  /* read on this far when first found cheaper than mapping */
    READ_ON_MAX = 32 << 20, /* read on this far when found cheaper some times in a row */
    MAPPED_ON = 64 << 20,   /* measure the cost of reading again after this much */
};

void skim_start(struct stream *s, int fd)
{
    if (s->map_size < SKIMMED_FILE) {
        if (fd > STDIN_FILENO)
            close(fd);
        return;
    }
    s->skim = (struct skim){
        .on = true, .fd = fd, .ahead = AHEAD_MIN, .run = AHEAD_MIN, .read_on = READ_ON_MIN};
}

void skim_wanted(struct stream *s, size_t bytes)
{
    struct skim *k = &s->skim;
    if (!k->wanted)
        k->ahead = AHEAD_MIN; /* until now whole stacks were read */
    k->wanted = bytes;
}

void skim_stop(struct stream *s)
{
    struct skim *k = &s->skim;
    if (!k->on)
        return;
    if (k->chunk)
        chunk_unref(s->pd, k->chunk, 1);
    if (k->fd > STDIN_FILENO)
        close(k->fd);
    *k = (struct skim){0};
}

/* ---- reading or the mapping ---------------------------------------------------------------- */

static bool is_cached(const struct skim *k, uint64_t offset)
{
    uint8_t byte;
    struct iovec v = {&byte, sizeof(byte)};
    return preadv2(k->fd, &v, 1, (off_t)offset, RWF_NOWAIT) == 1;
}

static long faults_so_far(void)
{
    struct rusage u;
    return getrusage(RUSAGE_THREAD, &u) < 0 ? 0 : u.ru_minflt + u.ru_majflt;
}

/* Touch the mapping after `from`. Returns the number of faults. */
static uint64_t map_touch(const struct stream *s, uint64_t from, uint64_t size)
{
    const volatile uint8_t *p = s->map + from;
    long before = faults_so_far();
    for (uint64_t at = FAULT_PAGES; at <= size; at += FAULT_PAGES)
        (void)p[at];
    return (uint64_t)(faults_so_far() - before);
}

/* Returns whether using the mapping's next JUDGED bytes costs less than reading them (k->cost is
 * the cost of reading as many). Pages that are not in the page cache are read, because reading
 * requests them from the disk ahead. While reading is in use, as few pages as possible are touched:
 * no fault means large pages, and one fault may be that of the next large page. */
static bool map_is_cheap(const struct stream *s)
{
    const struct skim *k = &s->skim;
    if (s->end - s->at <= JUDGED || !is_cached(k, s->at) || !is_cached(k, s->at + JUDGED))
        return false;
    uint64_t probed = k->mapped ? 0 : PROBED, faults = 0;
    if (!k->mapped) {
        (void)*(const volatile uint8_t *)(s->map + s->at); /* with large pages, the only fault */
        faults = map_touch(s, s->at, PROBED);
        if (faults != 1)
            return faults == 0 || faults * FAULT_COST * (JUDGED / PROBED) < k->cost;
    }
    faults += map_touch(s, s->at + probed, JUDGED - probed);
    return faults * FAULT_COST < k->cost;
}

/* Choose at k->judged how to go on. The mapping is touched only where it will soon be used. Too
 * much is read for a comparison until the need of walks is known, and until the judgement after
 * that. */
static void judge(struct stream *s)
{
    struct skim *k = &s->skim;
    bool unknown = s->pd->options.split_stacks && !k->wanted;
    bool again = k->mapped && s->at - k->since >= MAPPED_ON;
    bool ready = k->measured && !unknown && !again;
    if (ready && !k->mapped)
        k->cost = k->cost * JUDGED / (s->at - k->since);
    bool mapped = ready && map_is_cheap(s), refused = ready && !mapped;
    if (!mapped || !k->mapped)
        k->since = s->at;
    k->cost = mapped ? k->cost : 0;
    k->mapped = mapped;
    k->measured = !unknown;
    k->judged = s->at + (refused ? k->read_on : JUDGED);
    if (mapped)
        k->read_on = READ_ON_MIN;
    else if (refused && k->read_on < READ_ON_MAX)
        k->read_on *= 2;
}

/* ---- the window ---------------------------------------------------------------------------- */

/* Ask the disk for the surroundings of a page that is not in the page cache. The more misses there
 * were in a row, the larger the range. Asking costs time too if nearly everything is cached (8 MiB:
 * 0.15 ms). */
static void advise(struct skim *k, uint64_t offset)
{
    uint64_t end = k->advised_end, start = offset;
    bool on_its_way = offset < end && end - offset <= k->advised;
    if (on_its_way && end - offset > k->advised / 2)
        return;
    if (on_its_way || (k->advised && offset - end < WILL_NEED_MIN)) {
        start = end;
        k->advised = k->advised < WILL_NEED_MAX ? k->advised * 2 : WILL_NEED_MAX;
    } else {
        k->advised = WILL_NEED_MIN;
    }
    k->advised_end = start + k->advised;
    posix_fadvise(k->fd, (off_t)start, (off_t)k->advised, POSIX_FADV_WILLNEED);
}

/* Read without waiting if the page cache has the bytes. While it has them, only one read in ASKED
 * asks whether it does, because asking costs a tenth more. */
static ssize_t read_at(struct skim *k, void *to, size_t size, uint64_t offset)
{
    struct iovec v = {to, size};
    if (!k->unasked && k->cached++ % ASKED == 0) {
        ssize_t n = preadv2(k->fd, &v, 1, (off_t)offset, RWF_NOWAIT);
        if (n == (ssize_t)size)
            return n;
        k->cached = 0;
        if (n >= 0 || errno == EAGAIN)
            advise(k, offset);
        else
            k->unasked = true; /* the file system has no RWF_NOWAIT */
    }
    ssize_t n;
    for (size_t got = 0;; got += (size_t)n) {
        n = pread(k->fd, (char *)to + got, size - got, (off_t)(offset + got));
        if (n <= 0 || got + (size_t)n == size)
            return n < 0 ? -1 : (ssize_t)(got + (size_t)n);
    }
}

/* Move the window to file offset `from`, with `size` bytes if the file has them. `gap` bytes of the
 * chunk stay free before it. Returns false if it cannot be read. */
static bool window_move(struct stream *s, uint64_t from, size_t size, size_t gap)
{
    struct skim *k = &s->skim;
    if (size > s->end - from)
        size = (size_t)(s->end - from);
    size_t at = k->chunk ? (k->used + gap + 7) & ~(size_t)7 : 0;
    if (!k->chunk || at + size > CHUNK_SIZE - TAIL_MAX) {
        struct chunk *c = chunk_create(s->pd);
        if (!c)
            return false;
        if (k->chunk)
            chunk_unref(s->pd, k->chunk, 1);
        k->chunk = c;
        at = CHUNK_HEAD;
    }
    uint8_t *to = (uint8_t *)k->chunk + at;
    k->size = 0; /* the old window's chunk may be gone, with or without a new one */
    k->cost += size + READ_COST;
    if (read_at(k, to, size, from) != (ssize_t)size)
        return false;
    k->bytes = to;
    k->offset = from;
    k->size = size;
    k->used = at + size;
    return true;
}

/* Returns the bytes from `from` on, at least `want`. NULL: not available. */
static const uint8_t *window_at(struct stream *s, uint64_t from, size_t want)
{
    struct skim *k = &s->skim;
    uint64_t skip = from - k->offset;
    if (skip <= k->size && k->size - skip >= want)
        return k->bytes + skip;
    if (skip > k->size) { /* a jump */
        k->run = k->ahead;
    } else if (k->run < WINDOW_MAX / 2) {
        k->run *= 2;
    }
    size_t size = k->run > want ? k->run : want;
    return window_move(s, from, size, 0) && k->size >= want ? k->bytes : NULL;
}

static void ahead_learn(struct skim *k, size_t needed)
{
    if (needed > AHEAD_MAX) {
        k->ahead = k->wanted ? AHEAD_MIN : k->ahead;
        return;
    }
    if (needed > k->ahead)
        k->ahead = (needed + 255) & ~(size_t)255;
    else
        k->ahead -= (k->ahead - needed) / AHEAD_DECAY;
    if (k->ahead < AHEAD_MIN)
        k->ahead = AHEAD_MIN;
}

/* Skim a sample that begins at `p`, of which `have` bytes were read. True: rec has its live bytes.
 * False: nothing was changed except the window. */
static bool sample_skim(struct stream *s, struct record *rec, uint8_t *p, size_t have)
{
    struct skim *k = &s->skim;
    size_t stack_at;
    uint64_t stack_size, dyn;
    if (have < HEAD_ROOM || !sample_stack_at(s->pd, rec, have, &stack_at, &stack_size)) {
        k->ahead = k->ahead < LONG_HEAD ? LONG_HEAD : k->ahead; /* perhaps a long callchain */
        return false;
    }
    if (stack_size > rec->size || stack_at + stack_size + 8 > rec->size)
        return false;
    size_t tail = rec->size - stack_at - (size_t)stack_size;
    if (tail > TAIL_MAX || stack_at + stack_size <= have)
        return false;
    struct chunk *chunk = k->chunk;
    if (!window_move(s, rec->offset + stack_at + stack_size, tail + k->ahead, tail) ||
        k->size < tail)
        return false;
    dyn = load_u64(k->bytes, s->pd->swap);
    if (dyn > stack_size)
        return false;
    bool split = k->wanted && k->wanted < dyn;
    ahead_learn(k, stack_at + (split ? k->wanted : dyn));
    if (stack_at + dyn > have) {
        if (!s->pd->options.split_stacks || (k->wanted && stack_at + k->wanted > AHEAD_MAX))
            return false;
        dyn = have - stack_at; /* take only this part */
    }
    memcpy(p + stack_at + dyn, k->bytes, tail);
    rec->data = p;
    rec->size = (uint32_t)(stack_at + dyn + tail);
    chunk_ref(s->pd, chunk);
    return true;
}

/* Try to skim a sample. Its chunk must outlive the move of the window. */
static bool try_sample(struct stream *s, struct record *rec, const uint8_t *p)
{
    struct chunk *chunk = s->skim.chunk;
    size_t have = s->skim.size - (size_t)(p - s->skim.bytes);
    chunk_ref(s->pd, chunk);
    rec->data = p;
    record_locate(s->pd, rec);
    bool done = sample_skim(s, rec, (uint8_t *)p, have);
    chunk_unref(s->pd, chunk, 1);
    return done;
}

int skim_next(struct stream *s, struct record *rec)
{
    uint64_t left = s->end - s->at;
    if (s->at >= s->skim.judged)
        judge(s);
    if (s->skim.mapped)
        return 0;
    const uint8_t *p = left < RECORD_HEADER ? NULL : window_at(s, s->at, RECORD_HEADER);
    if (!p)
        return 0;
    rec->offset = s->at;
    rec->stream = s->number;
    rec->type = load_u32(p, s->pd->swap);
    rec->misc = load_u16(p + 4, s->pd->swap);
    rec->size = load_u16(p + 6, s->pd->swap);
    bool plain = rec->type < PERF_RECORD_USER_TYPE_START || rec->type == PERF_RECORD_FINISHED_ROUND;
    if (!plain || rec->size < RECORD_HEADER || rec->size > left)
        return 0;
    uint32_t size = rec->size;
    size_t have = s->skim.size - (size_t)(s->at - s->skim.offset);
    bool full = atomic_load_explicit(&s->pd->live_chunks, memory_order_relaxed) > CHUNKS_MAX;
    if (full || rec->type == PERF_RECORD_FINISHED_ROUND) {
        rec->data = s->map + s->at; /* the data of a FINISHED_ROUND is never read or released */
    } else if (size > have && size > SKIMMED_MIN && rec->type == PERF_RECORD_SAMPLE) {
        if (have < s->skim.ahead)
            p = window_move(s, s->at, s->skim.ahead, 0) ? s->skim.bytes : NULL;
        if (!p || !try_sample(s, rec, p)) {
            rec->data = s->map + s->at;
            rec->size = size;
            s->skim.cost += (uint64_t)size * FAULT_COST / FAULT_PAGES;
        }
    } else {
        p = window_at(s, s->at, size);
        if (!p)
            return 0;
        rec->data = p;
        chunk_ref(s->pd, s->skim.chunk);
    }
    s->at += size;
    return 1;
}
