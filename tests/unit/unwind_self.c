/* SPDX-License-Identifier: GPL-2.0-only */
#include "unwind_self.h"
#include "unwind/arch_aarch64.h"
#include "unwind/arch_x86_64.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#if defined(__aarch64__)
#define OWN_ARCH (&arch_aarch64)
#else
#define OWN_ARCH (&arch_x86_64)
#endif

struct part {
    uint64_t start, end, bias;
    bool executable;
    struct cfi *cfi;
    uint32_t id;
    char name[64];
};

struct self {
    struct part parts[256];
    size_t nr;
    struct cfi *cfis[64];
    uint32_t nr_cfis;
    struct cfi *empty; /* of all modules, once they are stripped */
};

static bool self_read(void *context, const struct memory_query *q, void *to,
                      struct memory_answer *answer)
{
    (void)context, (void)answer;
    struct iovec local = {to, q->size}, remote = {(void *)(uintptr_t)q->address, q->size};
    ssize_t n = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
    if (n >= 0 || errno != ENOSYS)
        return n == (ssize_t)q->size;
    int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC); /* an emulator's way */
    n = fd >= 0 ? pread(fd, to, q->size, (off_t)q->address) : -1;
    if (fd >= 0)
        close(fd);
    return n == (ssize_t)q->size;
}

/* The header has the section's address but not its size: take the bytes up to the segment's end. */
static struct cfi *load_cfi(const struct dl_phdr_info *info, const ElfW(Phdr) * hdr, uint32_t id)
{
    const uint8_t *header = (const uint8_t *)info->dlpi_addr + hdr->p_vaddr;
    int32_t to_frame;
    memcpy(&to_frame, header + 4, 4);
    uint64_t frame = hdr->p_vaddr + 4 + (uint64_t)(int64_t)to_frame;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || frame - p->p_vaddr >= p->p_memsz)
            continue;
        const struct cfi_source source = {
            .arch = OWN_ARCH,
            .name = info->dlpi_name,
            .eh_frame = {(const uint8_t *)info->dlpi_addr + frame, p->p_vaddr + p->p_memsz - frame,
                         frame},
            .eh_frame_hdr = {header, hdr->p_memsz, hdr->p_vaddr},
            .id = id,
        };
        struct cfi *cfi;
        return cfi_create(&source, &cfi, NULL) ? NULL : cfi;
    }
    return NULL;
}

static int add_module(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    struct self *s = context;
    struct cfi *cfi = NULL;
    uint32_t id = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_GNU_EH_FRAME || s->nr_cfis == 64)
            continue;
        cfi = load_cfi(info, &info->dlpi_phdr[i], s->nr_cfis + 1);
        if (cfi) {
            s->cfis[s->nr_cfis++] = cfi;
            id = s->nr_cfis;
        }
    }
    for (int i = 0; i < info->dlpi_phnum && s->nr < 256; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD)
            continue;
        struct part *part = &s->parts[s->nr++];
        *part = (struct part){info->dlpi_addr + p->p_vaddr,
                              info->dlpi_addr + p->p_vaddr + p->p_memsz,
                              info->dlpi_addr,
                              p->p_flags & PF_X,
                              cfi,
                              id,
                              ""};
        snprintf(part->name, sizeof(part->name), "%s", info->dlpi_name);
    }
    return 0;
}

struct self *self_create(void)
{
    struct self *s = calloc(1, sizeof(*s));
    if (s)
        dl_iterate_phdr(add_module, s);
    return s;
}

void self_strip(struct self *s)
{
    const struct cfi_source none = {.arch = OWN_ARCH, .name = "stripped", .id = 1};
    if (!s->empty && cfi_create(&none, &s->empty, NULL) < 0)
        return;
    for (size_t i = 0; i < s->nr; i++)
        s->parts[i].cfi = s->empty;
}

void self_free(struct self *s)
{
    cfi_free(s->empty);
    for (uint32_t i = 0; i < s->nr_cfis; i++)
        cfi_free(s->cfis[i]);
    free(s);
}

static bool self_lookup(void *context, uint64_t pc, uint64_t time, struct code *ret)
{
    (void)time;
    const struct self *s = context;
    for (size_t i = 0; i < s->nr; i++) {
        const struct part *p = &s->parts[i];
        if (pc - p->start >= p->end - p->start)
            continue;
        *ret = (struct code){CODE_ELF, p->start, p->end,        p->bias,
                             p->cfi,   p->id,    p->executable, p->name};
        return true;
    }
    *ret = (struct code){.owner = CODE_NONE};
    return false;
}

struct codemap self_codemap(struct self *s)
{
    return (struct codemap){.lookup = self_lookup, .context = s};
}

struct memory_layer self_memory(void)
{
    return (struct memory_layer){.read = self_read};
}

#if defined(__aarch64__)
struct registers self_registers(const ucontext_t *uc)
{
    struct registers r = {.arch = &arch_aarch64, .known = arch_all_registers(&arch_aarch64.reg)};
    for (unsigned i = 0; i < AARCH64_SP; i++)
        r.value[i] = uc->uc_mcontext.regs[i];
    r.value[AARCH64_SP] = uc->uc_mcontext.sp;
    r.value[AARCH64_PC] = uc->uc_mcontext.pc;
    return r;
}
#else
/* greg: the DWARF registers in the order of asm/sigcontext.h. */
struct registers self_registers(const ucontext_t *uc)
{
    static const uint8_t greg[DWARF_NR] = {13, 12, 14, 11, 9, 8, 10, 15, 0,
                                           1,  2,  3,  4,  5, 6, 7,  16};
    struct registers r = {.arch = &arch_x86_64, .known = (1u << DWARF_NR) - 1};
    for (unsigned i = 0; i < DWARF_NR; i++)
        r.value[i] = (uint64_t)uc->uc_mcontext.gregs[greg[i]];
    return r;
}
#endif

uint8_t *self_stack(uint64_t sp, size_t max, size_t *size)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long start, end;
    uint8_t *copy = NULL;
    char line[4096];
    while (maps && !copy && fgets(line, sizeof(line), maps)) {
        if (sscanf(line, "%lx-%lx", &start, &end) != 2 || sp < start || sp >= end)
            continue;
        *size = end - sp < max ? end - sp : max;
        copy = malloc(*size);
        const struct memory_query q = {.address = sp, .size = *size};
        if (copy && !self_read(NULL, &q, copy, NULL)) {
            free(copy);
            copy = NULL;
        }
        break;
    }
    if (maps)
        fclose(maps);
    return copy;
}
