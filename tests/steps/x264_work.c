/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Work for test_code_steps: encodes small noisy frames with libx264, most of whose time is spent in
 * assembly without CFI. Built by tests/steps/run.
 */
#include <stddef.h>
#include <stdint.h>
#include <x264.h>

int work(void);

static void draw(x264_picture_t *picture, unsigned *random, int number)
{
    enum { WIDTH = 96, HEIGHT = 64 };
    for (int plane = 0; plane < 3; plane++) {
        int shift = plane > 0;
        for (int y = 0; y < HEIGHT >> shift; y++)
            for (int x = 0; x < WIDTH >> shift; x++) {
                *random = *random * 1103515245 + 12345;
                picture->img.plane[plane][y * picture->img.i_stride[plane] + x] =
                    (uint8_t)(x * 3 + y + number * 5 + (int)(*random >> 28));
            }
    }
    picture->i_pts = number;
}

static x264_t *encoder;
static x264_picture_t picture;
static int drawn;

static int encode_one(void)
{
    static unsigned random = 1;
    x264_picture_t out;
    x264_nal_t *units;
    int nr_units;
    draw(&picture, &random, drawn++);
    return x264_encoder_encode(encoder, &units, &nr_units, &picture, &out);
}

/* What only happens once is not stepped through. */
static __attribute__((constructor)) void prepare(void)
{
    x264_param_t parameters;
    if (x264_param_default_preset(&parameters, "medium", NULL) < 0)
        return;
    parameters.i_width = 96;
    parameters.i_height = 64;
    parameters.i_csp = X264_CSP_I420;
    parameters.i_threads = 1;
    parameters.i_lookahead_threads = 1;
    parameters.i_sync_lookahead = 0;
    parameters.rc.i_lookahead = 4;
    parameters.i_log_level = X264_LOG_NONE;
    encoder = x264_encoder_open(&parameters);
    if (encoder && x264_picture_alloc(&picture, X264_CSP_I420, 96, 64) < 0)
        encoder = NULL;
    for (int i = 0; encoder && i < 20; i++)
        encode_one();
}

int work(void)
{
    int sum = 0;
    while (encoder)
        sum += encode_one();
    return sum;
}
