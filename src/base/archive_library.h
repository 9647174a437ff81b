/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * libarchive is loaded only when a tar is written or a packed file is read. It loads a dozen other
 * libraries, which would cost every start of the program some milliseconds.
 */
#ifndef BASE_ARCHIVE_LIBRARY_H
#define BASE_ARCHIVE_LIBRARY_H

#include "base/error.h"

#include <archive.h>
#include <archive_entry.h>

#define ARCHIVE_FUNCTIONS(X)                   \
    X(archive_write_new)                       \
    X(archive_write_free)                      \
    X(archive_write_fail)                      \
    X(archive_write_close)                     \
    X(archive_write_header)                    \
    X(archive_write_data)                      \
    X(archive_write_open_fd)                   \
    X(archive_write_set_format_pax_restricted) \
    X(archive_read_new)                        \
    X(archive_read_free)                       \
    X(archive_read_support_filter_gzip)        \
    X(archive_read_support_filter_bzip2)       \
    X(archive_read_support_filter_xz)          \
    X(archive_read_support_filter_zstd)        \
    X(archive_read_support_format_raw)         \
    X(archive_read_support_format_tar)         \
    X(archive_read_open_fd)                    \
    X(archive_read_next_header)                \
    X(archive_read_data)                       \
    X(archive_error_string)                    \
    X(archive_format)                          \
    X(archive_entry_new)                       \
    X(archive_entry_free)                      \
    X(archive_entry_clear)                     \
    X(archive_entry_pathname)                  \
    X(archive_entry_filetype)                  \
    X(archive_entry_hardlink)                  \
    X(archive_entry_set_pathname)              \
    X(archive_entry_set_size)                  \
    X(archive_entry_set_filetype)              \
    X(archive_entry_set_perm)                  \
    X(archive_entry_set_mtime)

/* The functions of libarchive by their own names. */
struct archive_library {
    void *handle; /* of dlopen(); NULL: not loaded */
#define ARCHIVE_POINTER(name) __typeof__(name) *name;
    ARCHIVE_FUNCTIONS(ARCHIVE_POINTER)
#undef ARCHIVE_POINTER
};

/* Load it. archive_library_close() is called in any case; `lib` begins as zeros. */
int archive_library_load(struct archive_library *lib, struct error *err);
void archive_library_close(struct archive_library *lib);

#endif
