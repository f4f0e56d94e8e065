/* Attention of long columns for float16 and bfloat16 on the tensor cores of Hopper (wgmma, compute
 * capability 9.0), with sums in float: tensor_cores.cu's third way, for records of up to 128 cells. Compiled
 * by NVRTC for one pass (PASS), heads of 64 and one type (BFLOAT16: 1 or 0), after records_kernel.h,
 * pass_kernel.h, instructions.cu and scores.cu.
 *
 * A block has a record's cells of one head: two groups of four warps, 64 cells each. What the cells see comes
 * by in stages of 64 rows that both groups share, copied ahead (cp.async). A row of a head is 128 bytes and
 * lies in shared memory as the instructions want it, with its pieces of 16 bytes swapped by the row's number
 * (the swizzle of 128 bytes). In all passes what stays is the left matrix: first its products with what comes
 * by, from shared memory; then the weights that are made of these, from registers, times what comes by. Every
 * sum has one order and every output one writer: the same bits every time. */

enum {
    D = HEAD_SIZE,
    COLUMNS = D / 8,
    GROUP_ROWS = 64, /* cells of a group of warps; rows of a stage */
    TILE_BYTES = GROUP_ROWS * D * 2,
    STAYING = PASS == FORWARD ? 1 : 2, /* tensors of the cells that stay */
    STAGES = 3,
    AHEAD = STAGES - 1, /* stages that are copied ahead */
    STEP = PASS == KEYS
               ? 32
               : 64, /* rows that come by at once: registers are few, and two blocks share a processor */
};

static_assert(D == 64, "a row must have 128 bytes");

struct long_room {
    uint8_t stays[STAYING][2][TILE_BYTES], x[STAGES][TILE_BYTES], y[STAGES][TILE_BYTES];
    float lse[STAGES][GROUP_ROWS], delta[STAGES][GROUP_ROWS], own_delta[2][GROUP_ROWS];
};

/* ---- Instructions --------------------------------------------------------------------------------- */

/* A matrix in shared memory: its address, 1,024 bytes from eight rows to the next eight, the swizzle of 128
 * bytes. */
SHARED uint64_t matrix_at(uint32_t address) {
    return (uint64_t)(address >> 4 & 0x3fff) | (uint64_t)1 << 16 | (uint64_t)(1024 >> 4) << 32 |
           (uint64_t)1 << 62;
}

SHARED void begin_products() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

SHARED void commit_products() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

SHARED void await_products() {
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

/* Sums that products are being added to stay in their registers. */
template <int N> SHARED void hold(float (&c)[N][4]) {
#pragma unroll
    for (int i = 0; i < N; i++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            asm volatile("" : "+f"(c[i][e])::"memory");
}

#define SUMS(c, i)  "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3])
#define SUMS_32(c)  SUMS(c, 0), SUMS(c, 1), SUMS(c, 2), SUMS(c, 3)
#define SUMS_64(c)  SUMS_32(c), SUMS(c, 4), SUMS(c, 5), SUMS(c, 6), SUMS(c, 7)
#define NAMES_32    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define NAMES_64    NAMES_32 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define MULTIPLY(n) "wgmma.mma_async.sync.aligned.m64n" n "k16.f32." MMA_TYPES " "

/* c (64 x N) = a (64 x 16) b^T, or += */
SHARED void multiply_group(float (&c)[8][4], uint64_t a, uint64_t b, int adds) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, %34, 0; " MULTIPLY("64") "{" NAMES_64
                                                                         "}, %32, %33, p, 1, 1, 0, 0;}"
                 : SUMS_64(c)
                 : "l"(a), "l"(b), "r"(adds));
}

SHARED void multiply_group(float (&c)[4][4], uint64_t a, uint64_t b, int adds) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, %18, 0; " MULTIPLY("32") "{" NAMES_32
                                                                         "}, %16, %17, p, 1, 1, 0, 0;}"
                 : SUMS_32(c)
                 : "l"(a), "l"(b), "r"(adds));
}

/* c (64 x 64) += p (64 x 16) b */
SHARED void add_group(float (&c)[8][4], const uint32_t (&p)[4], uint64_t b) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, 1, 0; " MULTIPLY(
                     "64") "{" NAMES_64 "}, {%32,%33,%34,%35}, %36, p, 1, 1, 1;}"
                 : SUMS_64(c)
                 : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "l"(b));
}

/* s (64 x STEP) = a x^T, both with a row for each cell */
SHARED void begin_square(float (&s)[STEP / 8][4], uint32_t a, uint32_t x) {
#pragma unroll
    for (int k = 0; k < D / 16; k++)
        multiply_group(s, matrix_at(a + 32 * k), matrix_at(x + 32 * k), k > 0);
}

/* sum (64 x D) += p (64 x STEP) x */
SHARED void begin_sum(float (&sum)[COLUMNS][4], const uint32_t (&p)[STEP / 16][4], uint32_t x) {
#pragma unroll
    for (int k = 0; k < STEP / 16; k++)
        add_group(sum, p[k], matrix_at(x + 16 * 128 * k));
}

/* ---- Rows ----------------------------------------------------------------------------------------- */

/* Where a thread's piece of a tile's row is; the tile's row 32 further is GROUP_ROWS / 2 rows further. */
SHARED uint32_t place_of(int row, int piece) {
    return (uint32_t)(row * 128 + ((piece ^ (row & 7)) << 4));
}

/* 64 rows: a block's threads copy two pieces each, of the rows thread / 8 and 32 further. */
SHARED void copy_tile(uint8_t *to, const uint16_t *head, int64_t stride, uint32_t p0, uint32_t p1) {
    int row = threadIdx.x / 8, piece = threadIdx.x % 8;
    uint32_t at = shared_address(to) + place_of(row, piece);
    copy16(at, head + (p0 == NOTHING ? 0 : p0 * stride) + piece * 8, p0 != NOTHING);
    copy16(at + GROUP_ROWS / 2 * 128, head + (p1 == NOTHING ? 0 : p1 * stride) + piece * 8, p1 != NOTHING);
}

/* A warp's 16 rows, through its part of a tile, so that rows are written whole. */
SHARED void put_tile(uint8_t *tile, const float (&sum)[COLUMNS][4], float factor0, float factor1,
                     const weir_attention__strided &t, int b, int h, uint32_t mine0, uint32_t mine1) {
    int lane = threadIdx.x % 32, first = threadIdx.x / 32 % 4 * 16, r = first + lane / 4, c = lane % 4;
#pragma unroll
    for (int n = 0; n < COLUMNS; n++) {
        *(uint32_t *)(tile + place_of(r, n) + 4 * c) = pack(sum[n][0] * factor0, sum[n][1] * factor0);
        *(uint32_t *)(tile + place_of(r + 8, n) + 4 * c) = pack(sum[n][2] * factor1, sum[n][3] * factor1);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int row = i * 4 + lane / 8, piece = lane % 8;
        uint32_t p = __shfl_sync(WARP, i < 2 ? mine0 : mine1, row % 8 * 4);
        if (p != NOTHING)
            *(uint4 *)(head_of(t, b, h) + p * t.s + piece * 8) =
                *(const uint4 *)(tile + place_of(first + row, piece));
    }
}

/* o's gradient times o, of a group's 64 cells: two threads have a row. */
SHARED void find_deltas(const weir_attention__arguments &a, int b, int h, uint32_t cell, float *to) {
    int half = threadIdx.x % 2;
    float sum = 0;
    if (cell != NOTHING) {
        const uint4 *g = (const uint4 *)(head_of(a.g, b, h) + cell * a.g.s + half * (D / 2));
        const uint4 *o = (const uint4 *)(head_of(a.o, b, h) + cell * a.o.s + half * (D / 2));
#pragma unroll
        for (int i = 0; i < D / 16; i++) {
            uint4 x = g[i], y = o[i];
            sum += dot_of_pairs(x.x, y.x) + dot_of_pairs(x.y, y.y) + dot_of_pairs(x.z, y.z) +
                   dot_of_pairs(x.w, y.w);
        }
    }
    sum += __shfl_xor_sync(WARP, sum, 1);
    if (half == 0)
        to[threadIdx.x % 128 / 2] = sum;
    if (half == 0 && cell != NOTHING)
        ((float *)a.delta)[((int64_t)b * a.heads + h) * a.at.length + cell] = sum;
}

/* ---- 64 cells ------------------------------------------------------------------------------------- */

/* What a thread has of its group's cells: of two rows, eight apart, in each sum. */
struct cells64 {
    float sum[COLUMNS][4], sum2[COLUMNS][4]; /* the second for KEYS */
    float most0, most1, lse0, lse1, delta0, delta1;
};

SHARED void hold_sums(cells64 &w) {
    hold(w.sum);
    if (PASS == KEYS)
        hold(w.sum2);
}

SHARED void weigh_forward(cells64 &w, float (&x)[STEP / 8][4], int left, float scale, int c) {
    if (left < STEP)
#pragma unroll
        for (int k = 0; k < STEP / 8; k++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (8 * k + 2 * c + (e & 1) >= left)
                    x[k][e] = LEAST;
    float most0 = w.most0, most1 = w.most1;
#pragma unroll
    for (int k = 0; k < STEP / 8; k++) {
        most0 = fmaxf(most0, fmaxf(x[k][0], x[k][1]));
        most1 = fmaxf(most1, fmaxf(x[k][2], x[k][3]));
    }
    most0 = row_most(most0);
    most1 = row_most(most1);
    take_scores<STEP / 8, COLUMNS>(w, x, most0, most1, scale);
}

/* In the place of x and y: for QUERIES the changes in x; for KEYS the weights in x and the changes in y. */
SHARED void weigh_backward(const cells64 &w, float (&x)[STEP / 8][4], float (&y)[STEP / 8][4], int left,
                           float scale, const float *lse, const float *delta, int c) {
#pragma unroll
    for (int k = 0; k < STEP / 8; k++) {
        float2 l = {}, d = {};
        if (PASS == KEYS) {
            l = *(const float2 *)(lse + 8 * k + 2 * c);
            d = *(const float2 *)(delta + 8 * k + 2 * c);
        }
#pragma unroll
        for (int e = 0; e < 4; e++) {
            float off = PASS == QUERIES ? (e < 2 ? w.lse0 : w.lse1) : e & 1 ? l.y : l.x;
            float less = PASS == QUERIES ? (e < 2 ? w.delta0 : w.delta1) : e & 1 ? d.y : d.x;
            float weight = power_of_2(x[k][e] * scale - off);
            if (PASS == QUERIES)
                x[k][e] = weight * (y[k][e] - less);
            else { /* rows that are not there are zeros, and add nothing */
                y[k][e] = weight * (y[k][e] - less);
                x[k][e] = weight;
            }
        }
    }
    if (PASS == QUERIES && left < STEP)
#pragma unroll
        for (int k = 0; k < STEP / 8; k++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (8 * k + 2 * c + (e & 1) >= left)
                    x[k][e] = 0;
}

SHARED void pack_squares(uint32_t (&p)[STEP / 16][4], const float (&x)[STEP / 8][4]) {
#pragma unroll
    for (int k = 0; k < STEP / 16; k++)
        pack_square(p[k], x + 2 * k);
}

/* STEP rows that come by, of which `left` count. */
SHARED void take_rows(cells64 &w, uint8_t *(&stays)[2], uint32_t sx, uint32_t sy, int left, float scale,
                      const float *lse, const float *delta) {
    int c = threadIdx.x % 4;
    float x[STEP / 8][4], y[STEP / 8][4];
    uint32_t p[STEP / 16][4], p2[STEP / 16][4];
    begin_products();
    begin_square(x, shared_address(stays[0]), sx);
    if (PASS != FORWARD)
        begin_square(y, shared_address(stays[1]), sy);
    commit_products();
    await_products();
    hold(x);
    if (PASS != FORWARD)
        hold(y);
    hold_sums(w);
    if (PASS == FORWARD) {
        weigh_forward(w, x, left, scale, c);
        pack_squares(p, x);
    } else {
        weigh_backward(w, x, y, left, scale, lse, delta, c);
        pack_squares(p, x);
        if (PASS == KEYS)
            pack_squares(p2, y);
    }
    hold_sums(w);
    begin_products();
    if (PASS == FORWARD)
        begin_sum(w.sum, p, sy);
    else if (PASS == QUERIES)
        begin_sum(w.sum, p, sx);
    else {
        begin_sum(w.sum, p2, sx);
        begin_sum(w.sum2, p, sy);
    }
    commit_products();
    await_products();
    hold_sums(w);
}

SHARED void begin_cells(cells64 &w) {
#pragma unroll
    for (int k = 0; k < COLUMNS; k++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            w.sum[k][e] = 0;
            if (PASS == KEYS)
                w.sum2[k][e] = 0;
        }
    w.most0 = w.most1 = LEAST;
    w.lse0 = w.lse1 = w.delta0 = w.delta1 = 0;
}

SHARED void end_cells(cells64 &w, const weir_attention__arguments &a, uint8_t *(&stays)[2], int b, int h,
                      int64_t base, uint32_t mine0, uint32_t mine1) {
    float factor0 = (float)a.scale, factor1 = factor0;
    asm volatile("bar.sync %0, 128;" ::"r"(1 + threadIdx.x / 128)
                 : "memory"); /* the group is done with what stays */
    if (PASS == FORWARD) {
        float sum0 = row_sum(w.lse0), sum1 = row_sum(w.lse1), scale = factor0 * LOG2E;
        if (threadIdx.x % 4 == 0 && mine0 != NOTHING)
            ((float *)a.lse)[base + mine0] = w.most0 * scale + __log2f(sum0);
        if (threadIdx.x % 4 == 0 && mine1 != NOTHING)
            ((float *)a.lse)[base + mine1] = w.most1 * scale + __log2f(sum1);
        factor0 = 1 / sum0;
        factor1 = 1 / sum1;
    }
    put_tile(stays[0], w.sum, factor0, factor1,
             PASS == FORWARD   ? a.o
             : PASS == QUERIES ? a.dq
                               : a.dk,
             b, h, mine0, mine1);
    if (PASS == KEYS)
        put_tile(stays[1], w.sum2, 1, 1, a.dv, b, h, mine0, mine1);
}

/* ---- A record ------------------------------------------------------------------------------------- */

/* What a thread copies of a stage: the positions of two rows and, for KEYS, of one whose sum it copies. They
 * are read a step before they are used. */
struct positions {
    uint32_t p0, p1, sum;
};

/* Of the stage of rows `first` and on of the column. */
SHARED positions find_positions(const uint16_t *column, int first, int count) {
    int j = first + threadIdx.x / 8, i = first + threadIdx.x % GROUP_ROWS;
    positions p;
    p.p0 = j < count ? column[j] : NOTHING;
    p.p1 = j + GROUP_ROWS / 2 < count ? column[j + GROUP_ROWS / 2] : NOTHING;
    p.sum = PASS == KEYS && i < count ? column[i] : NOTHING;
    return p;
}

SHARED void copy_stage(long_room &s, int into, const weir_attention__arguments &a, int b, int h,
                       const positions &p) {
    const weir_attention__strided &tx = PASS == KEYS ? a.q : a.k, &ty = PASS == KEYS ? a.g : a.v;
    copy_tile(s.x[into], head_of(tx, b, h), tx.s, p.p0, p.p1);
    copy_tile(s.y[into], head_of(ty, b, h), ty.s, p.p0, p.p1);
    if (PASS == KEYS && threadIdx.x < 2 * GROUP_ROWS) {
        int i = threadIdx.x % GROUP_ROWS;
        bool is_there = p.sum != NOTHING, is_delta = threadIdx.x >= GROUP_ROWS;
        int64_t at = ((int64_t)b * a.heads + h) * a.at.length + (is_there ? p.sum : 0);
        copy4(is_delta ? &s.delta[into][i] : &s.lse[into][i],
              (const float *)(is_delta ? a.delta : a.lse) + at, is_there);
    }
}

SHARED void take_long(const weir_attention__arguments &a, const uint32_t *record, int h, long_room &s) {
    int group = __shfl_sync(WARP, threadIdx.x / 128, 0); /* the compiler sees that a warp agrees */
    int row = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
    int b = record[RECORD_SEQUENCE], rows = record[RECORD_ROWS], count = record[RECORD_KEYS];
    const uint16_t *order = order_of(&a.at, a.words, b), *column = order + record[RECORD_AT];
    const uint16_t *cells = order + record[RECORD_FIRST];
    const weir_attention__strided &t0 = PASS == KEYS ? a.k : a.q, &t1 = PASS == KEYS ? a.v : a.g;
    int64_t base = ((int64_t)b * a.heads + h) * a.at.length;
    int steps = (count + GROUP_ROWS - 1) / GROUP_ROWS;
    bool has_cells = group * GROUP_ROWS < rows;
    float scale = (float)a.scale * LOG2E;
    uint8_t *stays[2] = {s.stays[0][group], s.stays[STAYING - 1][group]};
    auto cell = [&](int i) { return i < rows ? (uint32_t)cells[i] : NOTHING; };
    uint32_t mine0 = cell(group * GROUP_ROWS + row), mine1 = cell(group * GROUP_ROWS + row + 8);
    cells64 w;
#pragma unroll
    for (int k = 0; k < 2; k++) {
        int i = k * GROUP_ROWS + threadIdx.x / 8;
        copy_tile(s.stays[0][k], head_of(t0, b, h), t0.s, cell(i), cell(i + GROUP_ROWS / 2));
        if (PASS != FORWARD)
            copy_tile(s.stays[STAYING - 1][k], head_of(t1, b, h), t1.s, cell(i), cell(i + GROUP_ROWS / 2));
    }
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
        copy_stage(s, i, a, b, h, find_positions(column, i * GROUP_ROWS, count));
        commit_copies();
    }
    positions next = find_positions(column, AHEAD * GROUP_ROWS, count);
    begin_cells(w);
    if (PASS == QUERIES) {
        find_deltas(a, b, h, cell(group * GROUP_ROWS + threadIdx.x % 128 / 2), s.own_delta[group]);
        w.lse0 = mine0 != NOTHING ? ((const float *)a.lse)[base + mine0] : 0;
        w.lse1 = mine1 != NOTHING ? ((const float *)a.lse)[base + mine1] : 0;
    }
    for (int i = 0; i < steps; i++) {
        int at = i % STAGES;
        asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD - 1) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::
                         : "memory"); /* what was copied is read by tensor cores */
        __syncthreads();
        if (i + AHEAD < steps)
            copy_stage(s, (i + AHEAD) % STAGES, a, b, h, next);
        commit_copies();
        next = find_positions(column, (i + AHEAD + 1) * GROUP_ROWS, count);
        if (!has_cells)
            continue;
        if (PASS == QUERIES && i == 0) {
            w.delta0 = s.own_delta[group][row];
            w.delta1 = s.own_delta[group][row + 8];
        }
#pragma unroll 1
        for (int z = 0; z < GROUP_ROWS && i * GROUP_ROWS + z < count; z += STEP)
            take_rows(w, stays, shared_address(s.x[at]) + z * 128, shared_address(s.y[at]) + z * 128,
                      count - i * GROUP_ROWS - z, scale, s.lse[at] + z, s.delta[at] + z);
    }
    if (has_cells)
        end_cells(w, a, stays, b, h, base, mine0, mine1);
}

extern "C" __global__ void __launch_bounds__(256, 2) weir_attention_long(const weir_attention__arguments a) {
    extern __shared__ unsigned char shared[];
    static_assert(sizeof(long_room) + 1024 <= SHARED_BYTES, "the host asks for too little shared memory");
    const uint32_t *counts = a.words + a.counts;
    uint32_t unit = blockIdx.x / a.heads;
    long_room &s = *(long_room *)(shared + (-shared_address(shared) & 1023));
    if (unit < counts[LONG])
        take_long(a, a.words + a.records + (uint64_t)(counts[WIDE] + unit) * RECORD_WORDS,
                  blockIdx.x % a.heads, s);
}
