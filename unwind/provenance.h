/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The times that decide how far a reading of memory is proven (enum provenance). docs/provenance.md
 * explains each. All of them are ns between the sample and a reading, or between two readings.
 */
#ifndef UNWIND_PROVENANCE_H
#define UNWIND_PROVENANCE_H

#include <stdint.h>

/* An object that does not change while it lives, and that the sample's stack names, is exact when
 * it was read this soon after the sample. */
#define PROOF_OBJECT_AFTER_NS UINT64_C(200000000)

/* The same, before or after the sample, for a reader that knows that the object was alive. */
#define PROOF_KEPT_OBJECT_NS UINT64_C(1000000000)

/* A reader that compares the readings before and after the sample takes none from further away. */
#define PROOF_SIDE_NS UINT64_C(1000000000)

/* Plain memory of an object that was alive is exact when it was read this near: the recorder reads
 * each 10 ms. */
#define PROOF_NEAR_NS UINT64_C(20000000)

/* Of two readings that differ, the later one counts when it was made within this time. */
#define PROOF_LATER_READING_NS UINT64_C(10000000)

/* Another content at the same address within this time makes a reading doubtful. */
#define PROOF_OTHER_CONTENT_NS UINT64_C(1000000000)

/* A single reading proves an object from no further away, if the sample itself says that it is this
 * object. */
#define PROOF_ONLY_FAR_NS UINT64_C(2000000000)

/* A text is put together from readings within this time. */
#define PROOF_TEXT_NS UINT64_C(2000000000)

/* Memory that becomes executable within this time after it was mapped was new code. */
#define PROOF_CODE_RENEWED_NS UINT64_C(100000000)

#endif
