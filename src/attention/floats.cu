/* Attention for float32: no tensor cores, so that nothing is rounded to fewer bits. Compiled by NVRTC for one
 * pass (PASS) and one head size (HEAD_SIZE), after records_kernel.h and pass_kernel.h.
 *
 * A block takes a record of one head; a warp takes its cells one after the other. What a cell sees comes by
 * 32 at a time: each lane computes the products with one of them; the sums are taken with a lane for every
 * 32nd number of a head. */

#define FORWARD WEIR_ATTENTION__FORWARD
#define QUERIES WEIR_ATTENTION__QUERIES
#define KEYS    WEIR_ATTENTION__KEYS
#define WARP    0xffffffffu
#define LEAST   -1e30f

enum { D = HEAD_SIZE, PARTS = (D + 31) / 32, WARPS = 4 };

SHARED float *head_of(const weir_attention__strided &t, int b, int h) {
    return (float *)t.data + b * t.b + h * t.h;
}

SHARED float warp_sum(float x) {
#pragma unroll
    for (int n = 16; n > 0; n /= 2)
        x += __shfl_xor_sync(WARP, x, n);
    return x;
}

SHARED float warp_most(float x) {
#pragma unroll
    for (int n = 16; n > 0; n /= 2)
        x = fmaxf(x, __shfl_xor_sync(WARP, x, n));
    return x;
}

/* Of a row in shared memory and one of a tensor. */
SHARED float product(const float *a, const float *x) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < D; i += 4) {
        float4 y = *(const float4 *)(x + i);
        sum += a[i] * y.x + a[i + 1] * y.y + a[i + 2] * y.z + a[i + 3] * y.w;
    }
    return sum;
}

SHARED void put(const weir_attention__strided &t, int b, int h, uint32_t cell, const float sum[PARTS],
                float factor, int lane) {
#pragma unroll
    for (int k = 0; k < PARTS; k++)
        if (32 * k + lane < D)
            head_of(t, b, h)[cell * t.s + 32 * k + lane] = sum[k] * factor;
}

SHARED void take_cell(const weir_attention__arguments &a, const uint32_t *record, int h, uint32_t number,
                      float *mine, float *mine2, int lane) {
    uint32_t cell = cell_of_record(&a.at, a.words, a.is_column, record, number);
    attention_sight sight = sight_of_record(record, number);
    int b = record[RECORD_SEQUENCE], count = sight.end;
    const weir_attention__strided &t0 = PASS == KEYS ? a.k : a.q, &t1 = PASS == KEYS ? a.v : a.g;
    const weir_attention__strided &tx = PASS == KEYS ? a.q : a.k, &ty = PASS == KEYS ? a.g : a.v;
    const float *x = head_of(tx, b, h), *y = head_of(ty, b, h);
    int64_t base = ((int64_t)b * a.heads + h) * a.at.length;
    float *lse = (float *)a.lse + base, *delta = (float *)a.delta + base;
    float sum[PARTS] = {}, sum2[PARTS] = {}, most = LEAST, total = 0, my_lse = 0, my_delta = 0;
    float scale = (float)a.scale;
    for (int i = lane; i < D; i += 32) {
        mine[i] = head_of(t0, b, h)[cell * t0.s + i];
        if (PASS != FORWARD)
            mine2[i] = head_of(t1, b, h)[cell * t1.s + i];
        if (PASS == QUERIES)
            my_delta += mine2[i] * head_of(a.o, b, h)[cell * a.o.s + i];
    }
    __syncwarp();
    if (PASS == QUERIES) {
        my_delta = warp_sum(my_delta);
        my_lse = lse[cell];
        if (lane == 0)
            delta[cell] = my_delta;
    }
    for (int first = sight.first; first < count; first += 32) {
        bool is_there = first + lane < count;
        uint32_t key = is_there ? key_of_record(&a.at, a.words, a.is_column, record, first + lane) : 0;
        float s = is_there ? product(mine, x + key * tx.s) * scale : LEAST, weight, change = 0;
        if (PASS == FORWARD) {
            float top = fmaxf(most, warp_most(s)), shrink = expf(most - top);
            weight = expf(s - top);
            total = total * shrink + warp_sum(weight);
            most = top;
#pragma unroll
            for (int k = 0; k < PARTS; k++)
                sum[k] *= shrink;
        } else {
            weight = is_there ? expf(s - (PASS == KEYS ? lse[key] : my_lse)) : 0;
            if (is_there)
                change = weight * (product(mine2, y + key * ty.s) - (PASS == KEYS ? delta[key] : my_delta));
        }
        for (int j = 0; j < 32 && first + j < count; j++) {
            uint32_t other = __shfl_sync(WARP, key, j);
            float w = __shfl_sync(WARP, weight, j), c = __shfl_sync(WARP, change, j);
#pragma unroll
            for (int k = 0; k < PARTS; k++) {
                int i = 32 * k + lane;
                if (i >= D)
                    continue;
                if (PASS == FORWARD)
                    sum[k] += w * y[other * ty.s + i];
                else
                    sum[k] += c * x[other * tx.s + i];
                if (PASS == KEYS)
                    sum2[k] += w * y[other * ty.s + i];
            }
        }
    }
    bool sees_any = sight.first < sight.end;
    float nothing = sees_any ? 1 : __uint_as_float(record[RECORD_AT]); /* see RECORD_AT */
    if (PASS == FORWARD) {
        if (lane == 0)
            lse[cell] = most + logf(total);
        put(a.o, b, h, cell, sum, sees_any ? 1 / total : nothing, lane);
    } else {
        put(PASS == QUERIES ? a.dq : a.dk, b, h, cell, sum, scale * nothing, lane);
        if (PASS == KEYS)
            put(a.dv, b, h, cell, sum2, nothing, lane);
    }
    __syncwarp(); /* the next cell uses the same shared memory */
}

extern "C" __global__ void __launch_bounds__(128) weir_attention(const weir_attention__arguments a) {
    __shared__ __align__(16) float mine[WARPS][2][D];
    const uint32_t *counts = a.words + a.counts, *records = a.words + a.records;
    uint64_t end =
        ((uint64_t)counts[WIDE] + counts[LONG] + counts[LARGE] + counts[SMALL] + counts[BLIND]) * a.heads;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (uint64_t block = blockIdx.x; block < end; block += gridDim.x) {
        const uint32_t *record = records + block / a.heads * RECORD_WORDS;
        for (int i = warp; i < record[RECORD_ROWS]; i += WARPS)
            take_cell(a, record, block % a.heads, i, mine[warp][0], mine[warp][1], lane);
    }
}
