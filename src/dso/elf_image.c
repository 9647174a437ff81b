/* SPDX-License-Identifier: GPL-2.0-only */
/* One ELF file: mapped, its headers read and checked once, its sections returned and inflated. */
#include "dso/elf_image.h"
#include "base/cursor.h"
#include "base/file_map.h"
#include "base/other_file.h"
#include "dso/notes.h"

#include <elf.h>
#include <errno.h>
#ifdef HAVE_LIBDEFLATE
#include <libdeflate.h>
#endif
#include <lzma.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

/* What files really have is far less. Whoever writes a file's headers must not choose how much
 * memory and time they cost. */
enum {
    SECTIONS_MAX = 1 << 16,
    SECTION_NAME_MAX = 256, /* bytes, with the NUL */
    NOTES_MAX = 4 << 20,    /* bytes of notes that are searched for a build id */
    MAX_RATIO = 1100,       /* no compressor in use expands further */
};
static const uint64_t INFLATED_MAX = UINT64_C(1) << 32; /* bytes of one section; DWARF32's limit */

static struct cursor cursor_at(const struct elf_image *e, uint64_t offset, const char *what)
{
    uint64_t at = offset < e->size ? offset : e->size;
    return cursor_make(e->bytes + at, e->size - at, e->swapped, e->path, what, at);
}

static uint64_t word(struct cursor *c, bool is64)
{
    return is64 ? cursor_u64(c) : cursor_u32(c);
}

struct file_header {
    uint64_t phoff, shoff, phnum, shnum, shstrndx;
    uint16_t phentsize, shentsize;
};

static int read_file_header(struct elf_image *e, struct file_header *h, struct error *err)
{
    if (e->size < EI_NIDENT || memcmp(e->bytes, ELFMAG, SELFMAG) != 0)
        return error_set(err, ERROR_FORMAT, "%s: this is not an ELF file", e->path);
    uint8_t class = e->bytes[EI_CLASS], data = e->bytes[EI_DATA];
    if ((class != ELFCLASS32 && class != ELFCLASS64) ||
        (data != ELFDATA2LSB && data != ELFDATA2MSB))
        return error_set(err, ERROR_FORMAT, "%s: its ELF class %u or byte order %u is unknown",
                         e->path, class, data);
    e->is64 = class == ELFCLASS64;
    e->swapped = (data == ELFDATA2LSB) != (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
    struct cursor c = cursor_at(e, EI_NIDENT, "ELF header");
    e->type = cursor_u16(&c);
    e->machine = cursor_u16(&c);
    cursor_skip(&c, 4);
    e->entry = word(&c, e->is64);
    h->phoff = word(&c, e->is64);
    h->shoff = word(&c, e->is64);
    cursor_skip(&c, 6);
    h->phentsize = cursor_u16(&c);
    h->phnum = cursor_u16(&c);
    h->shentsize = cursor_u16(&c);
    h->shnum = cursor_u16(&c);
    h->shstrndx = cursor_u16(&c);
    return c.failed ? cursor_error(&c, err, "it is cut short") : 0;
}

/* Read one section header; `name` gets its offset in the section name table. */
static struct elf_shdr read_section(struct cursor *c, bool is64, uint32_t *name)
{
    struct elf_shdr s = {.name = ""};
    *name = cursor_u32(c);
    s.type = cursor_u32(c);
    s.flags = word(c, is64);
    s.addr = word(c, is64);
    s.offset = word(c, is64);
    s.size = word(c, is64);
    s.link = cursor_u32(c);
    s.info = cursor_u32(c);
    (void)word(c, is64);
    s.entsize = word(c, is64);
    return s;
}

static struct elf_phdr read_segment(struct cursor *c, bool is64)
{
    struct elf_phdr p = {.type = cursor_u32(c)};
    if (is64)
        p.flags = cursor_u32(c);
    p.offset = word(c, is64);
    p.vaddr = word(c, is64);
    (void)word(c, is64);
    p.filesz = word(c, is64);
    p.memsz = word(c, is64);
    if (!is64)
        p.flags = cursor_u32(c);
    return p;
}

static bool in_file(const struct elf_image *e, uint64_t offset, uint64_t size)
{
    return offset <= e->size && size <= e->size - offset;
}

/* Returns how many headers fit into the file. Others are dropped: the rest may still be useful. */
static uint64_t fitting(const struct elf_image *e, uint64_t offset, uint64_t nr, uint64_t entsize)
{
    if (offset == 0 || offset >= e->size || entsize == 0)
        return 0;
    uint64_t room = (e->size - offset) / entsize;
    return nr < room ? nr : room;
}

/* Counts beyond 16 bits are in the first section header. */
static void extend_counts(const struct elf_image *e, struct file_header *h)
{
    if (fitting(e, h->shoff, 1, h->shentsize) == 0)
        return;
    uint32_t name;
    struct cursor c = cursor_at(e, h->shoff, "section header");
    struct elf_shdr first = read_section(&c, e->is64, &name);
    if (c.failed)
        return;
    if (h->shnum == 0)
        h->shnum = first.size;
    if (h->shstrndx == SHN_XINDEX)
        h->shstrndx = first.link;
    if (h->phnum == PN_XNUM)
        h->phnum = first.info;
}

static const char *section_name(const struct elf_image *e, const struct elf_shdr *names,
                                uint32_t offset)
{
    if (!names || names->type == SHT_NOBITS || !in_file(e, names->offset, names->size) ||
        offset >= names->size)
        return "";
    const char *s = (const char *)e->bytes + names->offset + offset;
    uint64_t left = names->size - offset;
    return memchr(s, 0, left < SECTION_NAME_MAX ? left : SECTION_NAME_MAX) ? s : "";
}

static int read_sections(struct elf_image *e, const struct file_header *h)
{
    struct elf_tables *t = e->tables;
    uint64_t nr =
        h->shentsize >= (e->is64 ? 64 : 40) ? fitting(e, h->shoff, h->shnum, h->shentsize) : 0;
    if (nr > SECTIONS_MAX)
        nr = 0;
    t->sections = calloc(nr + 1, sizeof(*t->sections));
    t->inflated = calloc(nr + 1, sizeof(*t->inflated));
    t->inflate_state = calloc(nr + 1, 1);
    uint32_t *names = calloc(nr + 1, sizeof(*names));
    if (!t->sections || !t->inflated || !t->inflate_state || !names) {
        free(names);
        return -1;
    }
    t->nr_sections = (uint32_t)nr;
    for (uint32_t i = 0; i < nr; i++) {
        struct cursor c = cursor_at(e, h->shoff + (uint64_t)i * h->shentsize, "section header");
        t->sections[i] = read_section(&c, e->is64, &names[i]);
    }
    const struct elf_shdr *table = h->shstrndx < nr ? &t->sections[h->shstrndx] : NULL;
    for (uint32_t i = 0; i < nr; i++)
        t->sections[i].name = section_name(e, table, names[i]);
    free(names);
    return 0;
}

static int read_segments(struct elf_image *e, const struct file_header *h)
{
    struct elf_tables *t = e->tables;
    uint64_t nr =
        h->phentsize >= (e->is64 ? 56 : 32) ? fitting(e, h->phoff, h->phnum, h->phentsize) : 0;
    if (nr > UINT16_MAX)
        nr = UINT16_MAX;
    t->segments = calloc(nr + 1, sizeof(*t->segments));
    if (!t->segments)
        return -1;
    t->nr_segments = (uint32_t)nr;
    for (uint32_t i = 0; i < nr; i++) {
        struct cursor c = cursor_at(e, h->phoff + (uint64_t)i * h->phentsize, "program header");
        t->segments[i] = read_segment(&c, e->is64);
    }
    return 0;
}

/* ---- build ids --------------------------------------------------------------------------- */

bool build_id_equal(const struct build_id *a, const struct build_id *b)
{
    /* A recording may hold an id padded with zeros to 20 bytes (old HEADER_BUILD_ID records). */
    size_t size = a->size < b->size ? a->size : b->size;
    const struct build_id *longer = a->size < b->size ? b : a;
    if (size == 0 || memcmp(a->bytes, b->bytes, size) != 0)
        return false;
    for (size_t i = size; i < longer->size; i++)
        if (longer->bytes[i])
            return false;
    return true;
}

/* `left`: bytes of notes that may still be searched. */
static bool find_build_id_note(struct elf_image *e, uint64_t offset, uint64_t size, uint64_t *left)
{
    if (!in_file(e, offset, size))
        return false;
    size = size < *left ? size : *left;
    *left -= size;
    return notes_build_id(cursor_make(e->bytes + offset, size, e->swapped, e->path, "note", offset),
                          &e->build_id);
}

/* Try sections first: in a separate debug file the program headers' offsets are not reliable. */
static void read_build_id(struct elf_image *e)
{
    const struct elf_tables *t = e->tables;
    uint64_t left = NOTES_MAX;
    for (uint32_t i = 0; i < t->nr_sections; i++)
        if (t->sections[i].type == SHT_NOTE &&
            find_build_id_note(e, t->sections[i].offset, t->sections[i].size, &left))
            return;
    for (uint32_t i = 0; i < t->nr_segments; i++)
        if (t->segments[i].type == PT_NOTE &&
            find_build_id_note(e, t->segments[i].offset, t->segments[i].filesz, &left))
            return;
}

/* ---- opening ----------------------------------------------------------------------------- */

static void release_bytes(uint8_t *bytes, size_t size, bool mapped)
{
    if (mapped)
        file_unmap(bytes, size);
    else
        free(bytes);
}

static int image_make(const char *path, uint8_t *bytes, size_t size, bool mapped,
                      struct elf_image **ret, struct error *err)
{
    struct elf_image *e = calloc(1, sizeof(*e));
    struct elf_tables *t = calloc(1, sizeof(*t));
    char *copy = strdup(path);
    if (!e || !t || !copy) {
        free(e);
        free(t);
        free(copy);
        release_bytes(bytes, size, mapped);
        return error_no_memory(err);
    }
    pthread_mutex_init(&t->lock, NULL);
    t->mapped = mapped;
    *e = (struct elf_image){.path = copy, .bytes = bytes, .size = size, .tables = t};
    struct file_header h = {0};
    int failed = read_file_header(e, &h, err);
    if (!failed) {
        extend_counts(e, &h);
        if (read_sections(e, &h) || read_segments(e, &h))
            failed = error_no_memory(err);
    }
    if (failed) {
        elf_image_free(e);
        return -1;
    }
    read_build_id(e);
    *ret = e;
    return 0;
}

int elf_image_open(const char *path, struct elf_image **ret, struct error *err)
{
    int fd = other_file_open(path);
    if (fd < 0 && errno != ENOTSUP)
        return error_system(err, errno, "%s", path);
    return elf_image_take(path, fd, ret, err);
}

int elf_image_take(const char *path, int fd, struct elf_image **ret, struct error *err)
{
    struct stat st;
    if (fd < 0 || fstat(fd, &st) || st.st_size < EI_NIDENT) {
        if (fd >= 0)
            close(fd);
        return error_set(err, ERROR_FORMAT, "%s: this is not an ELF file", path);
    }
    void *bytes = file_map(fd, (size_t)st.st_size);
    int why = errno;
    close(fd);
    if (!bytes)
        return error_system(err, why, "%s", path);
    if (image_make(path, bytes, (size_t)st.st_size, true, ret, err) < 0)
        return -1;
    if (!elf_image_was_cut(*ret))
        return 0;
    elf_image_free(*ret);
    return error_set(err, ERROR_FORMAT, "%s: it was cut short while it was read", path);
}

int elf_image_adopt(const char *path, uint8_t *bytes, size_t size, struct elf_image **ret,
                    struct error *err)
{
    return image_make(path, bytes, size, false, ret, err);
}

bool elf_image_was_cut(const struct elf_image *image)
{
    return image->tables->mapped && file_map_was_cut(image->bytes);
}

void elf_image_free(struct elf_image *image)
{
    if (!image)
        return;
    struct elf_tables *t = image->tables;
    for (uint32_t i = 0; t->inflated && i < t->nr_sections; i++)
        free((void *)t->inflated[i].bytes);
    free(t->inflated);
    free(t->inflate_state);
    free(t->sections);
    free(t->segments);
    pthread_mutex_destroy(&t->lock);
    release_bytes((uint8_t *)image->bytes, image->size, t->mapped);
    free(t);
    free((void *)image->path);
    free(image);
}

/* ---- sections ---------------------------------------------------------------------------- */

#ifdef HAVE_LIBDEFLATE
/* Returns true only when the whole input is there and fills `to`. */
static bool inflate_zlib(const uint8_t *from, size_t size, uint8_t *to, size_t to_size)
{
    struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
    bool whole = d && libdeflate_zlib_decompress(d, from, size, to, to_size, NULL) == 0;
    libdeflate_free_decompressor(d);
    return whole;
}
#else
static bool inflate_zlib(const uint8_t *from, size_t size, uint8_t *to, size_t to_size)
{
    z_stream z = {.next_in = (uint8_t *)from, .next_out = to};
    if (inflateInit(&z) != Z_OK)
        return false;
    int status = Z_OK;
    while (status == Z_OK) {
        size_t in_left = size - (size_t)(z.next_in - from);
        size_t out_left = to_size - (size_t)(z.next_out - to);
        z.avail_in = in_left < UINT32_MAX ? (uInt)in_left : UINT32_MAX;
        z.avail_out = out_left < UINT32_MAX ? (uInt)out_left : UINT32_MAX;
        status = inflate(&z, Z_NO_FLUSH);
    }
    bool whole = status == Z_STREAM_END && z.next_out == to + to_size;
    inflateEnd(&z);
    return whole;
}
#endif

/* Decompress a section that has SHF_COMPRESSED's header or the older ".zdebug_" form ("ZLIB" and
 * the size, big-endian). */
static bool inflate_section(const struct elf_image *e, const struct elf_shdr *s,
                            struct elf_section *ret)
{
    struct cursor c =
        cursor_make(e->bytes + s->offset, s->size, e->swapped, e->path, s->name, s->offset);
    uint64_t size;
    uint32_t type = ELFCOMPRESS_ZLIB;
    if (s->flags & SHF_COMPRESSED) {
        type = cursor_u32(&c);
        if (e->is64)
            cursor_skip(&c, 4);
        size = word(&c, e->is64);
        (void)word(&c, e->is64);
    } else {
        const uint8_t *magic = cursor_bytes(&c, 4);
        if (!magic || memcmp(magic, "ZLIB", 4) != 0)
            return false;
        const uint8_t *p = cursor_bytes(&c, 8);
        size = p ? load_u64(p, __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) : 0;
    }
    size_t left = cursor_left(&c);
    if (c.failed || size == 0 || size / MAX_RATIO > left || size > INFLATED_MAX)
        return false;
    uint8_t *to = malloc(size);
    if (!to)
        return false;
    bool ok = type == ELFCOMPRESS_ZLIB ? inflate_zlib(c.at, left, to, size)
              : type == 2              ? ZSTD_decompress(to, size, c.at, left) == size
                                       : false;
    if (!ok) {
        free(to);
        return false;
    }
    ret->bytes = to;
    ret->size = size;
    return true;
}

static bool inflated(const struct elf_image *e, uint32_t index, struct elf_section *ret)
{
    struct elf_tables *t = e->tables;
    pthread_mutex_lock(&t->lock);
    if (!t->inflate_state[index])
        t->inflate_state[index] =
            inflate_section(e, &t->sections[index], &t->inflated[index]) ? 1 : 2;
    bool ok = t->inflate_state[index] == 1;
    if (ok) {
        ret->bytes = t->inflated[index].bytes;
        ret->size = t->inflated[index].size;
    }
    pthread_mutex_unlock(&t->lock);
    return ok;
}

bool elf_image_section_at(const struct elf_image *image, uint32_t index, struct elf_section *ret)
{
    const struct elf_tables *t = image->tables;
    if (index == 0 || index >= t->nr_sections)
        return false;
    const struct elf_shdr *s = &t->sections[index];
    *ret = (struct elf_section){.size = s->size,
                                .address = s->addr,
                                .offset = s->offset,
                                .link = s->link,
                                .type = s->type,
                                .index = index};
    if (s->type == SHT_NOBITS)
        return true;
    if (!in_file(image, s->offset, s->size))
        return false;
    if (s->flags & SHF_COMPRESSED || strncmp(s->name, ".zdebug_", 8) == 0)
        return inflated(image, index, ret);
    ret->bytes = image->bytes + s->offset;
    return true;
}

/* ".debug_x" also matches ".zdebug_x". */
static bool named(const struct elf_shdr *s, const char *name)
{
    return strcmp(s->name, name) == 0 ||
           (strncmp(s->name, ".zdebug_", 8) == 0 && strncmp(name, ".debug_", 7) == 0 &&
            strcmp(s->name + 8, name + 7) == 0);
}

bool elf_image_section(const struct elf_image *image, const char *name, struct elf_section *ret)
{
    const struct elf_tables *t = image->tables;
    for (uint32_t i = 1; i < t->nr_sections; i++)
        if (named(&t->sections[i], name))
            return elf_image_section_at(image, i, ret);
    return false;
}

bool elf_image_has(const struct elf_image *image, const char *name)
{
    const struct elf_tables *t = image->tables;
    for (uint32_t i = 1; i < t->nr_sections; i++)
        if (named(&t->sections[i], name))
            return t->sections[i].type != SHT_NOBITS && t->sections[i].size;
    return false;
}

/* For files without program headers (perf inject's one-function files): use the sections. */
static bool section_offset_to_vaddr(const struct elf_tables *t, uint64_t offset, uint64_t *vaddr)
{
    for (uint32_t i = 1; i < t->nr_sections; i++) {
        const struct elf_shdr *s = &t->sections[i];
        if (s->flags & SHF_EXECINSTR && s->type != SHT_NOBITS && offset >= s->offset &&
            offset - s->offset < s->size) {
            *vaddr = offset - s->offset + s->addr;
            return true;
        }
    }
    return false;
}

bool elf_image_holds(const struct elf_image *image, const struct elf_phdr *segment)
{
    return segment->offset <= image->size && segment->filesz <= image->size - segment->offset;
}

/* Where two segments share a file page, does the first one count? The executable one does, else
 * that which comes first. */
static bool wins(const struct elf_phdr *one, const struct elf_phdr *other)
{
    bool runs = one->flags & PF_X, other_runs = other->flags & PF_X;
    return runs != other_runs ? runs : one < other;
}

/* Returns the segment that has the byte at `offset` of the file; NULL: none has. */
static const struct elf_phdr *find_loaded(const struct elf_tables *t, uint64_t offset)
{
    const struct elf_phdr *found = NULL;
    for (uint32_t i = 0; i < t->nr_segments; i++) {
        const struct elf_phdr *p = &t->segments[i];
        if (p->type == PT_LOAD && offset >= p->offset && offset - p->offset < p->filesz &&
            (!found || wins(p, found)))
            found = p;
    }
    return found;
}

bool elf_image_offset_to_vaddr(const struct elf_image *image, uint64_t offset, uint64_t *vaddr)
{
    const struct elf_tables *t = image->tables;
    if (t->nr_segments == 0)
        return section_offset_to_vaddr(t, offset, vaddr);
    const struct elf_phdr *p = find_loaded(t, offset);
    if (p)
        *vaddr = offset - p->offset + p->vaddr;
    return p != NULL;
}

bool elf_image_loaded_around(const struct elf_image *image, uint64_t offset, uint64_t *first,
                             uint64_t *end)
{
    const struct elf_tables *t = image->tables;
    const struct elf_phdr *p = find_loaded(t, offset);
    if (!p)
        return false;
    *first = p->offset;
    *end = p->filesz > UINT64_MAX - p->offset ? UINT64_MAX : p->offset + p->filesz;
    for (uint32_t i = 0; i < t->nr_segments; i++) {
        const struct elf_phdr *other = &t->segments[i];
        if (other->type != PT_LOAD || other->filesz == 0 || !wins(other, p))
            continue;
        if (other->offset > offset)
            *end = other->offset < *end ? other->offset : *end;
        else if (other->offset + other->filesz > *first) /* it does not reach up to `offset` */
            *first = other->offset + other->filesz;
    }
    return true;
}

/* ---- MiniDebugInfo ----------------------------------------------------------------------- */

enum { MINI_MAX = 256 << 20 };

struct elf_image *elf_image_minidebuginfo(const struct elf_image *image)
{
    struct elf_section s;
    struct elf_image *mini = NULL;
    if (!elf_image_section(image, ".gnu_debugdata", &s) || !s.bytes)
        return NULL;
    lzma_stream z = LZMA_STREAM_INIT;
    uint8_t *to = NULL;
    size_t size = 0, cap = 0;
    lzma_ret status = lzma_stream_decoder(&z, 128 << 20, 0);
    z.next_in = s.bytes;
    z.avail_in = s.size;
    while (status == LZMA_OK && cap < MINI_MAX) {
        uint8_t *more = realloc(to, cap = cap ? cap * 2 : 64 * 1024 + s.size * 4);
        if (!more)
            break;
        to = more;
        z.next_out = to + size;
        z.avail_out = cap - size;
        while (status == LZMA_OK && z.avail_out)
            status = lzma_code(&z, LZMA_FINISH);
        size = cap - z.avail_out;
    }
    lzma_end(&z);
    if (status != LZMA_STREAM_END || elf_image_adopt(image->path, to, size, &mini, NULL)) {
        if (status != LZMA_STREAM_END)
            free(to);
        return NULL;
    }
    return mini;
}
