/* Attention for float16 and bfloat16 on tensor cores (mma.sync, processors from 8.0 on), with sums in float.
 * Compiled by NVRTC for one pass (PASS), one head size (HEAD_SIZE) and one type (BFLOAT16: 1 or 0), after
 * records_kernel.h, pass_kernel.h, instructions.cu and scores.cu; MANY: see the end.
 *
 * All three passes are one loop: 16 cells stay in a warp's registers, what they see comes by in steps of 16
 * through shared memory, copied ahead (cp.async) of the step that is computed. Records are taken by
 *   - one warp, if its cells see at most 80 others: a few heads, one after the other. They may be cells of
 * several rows, and each has a range of what comes by;
 *   - four warps, each every fourth step, if up to 16 cells see many (hubs): their sums are added in the
 * order of the warps;
 *   - four warps of 16 cells each that share what comes by, if many cells see many (columns).
 * Every sum has one order and every output one writer: the same bits every time. */

enum {
    D = HEAD_SIZE,
    PITCH = D + 8, /* of rows in shared memory: 16 bytes more, so that no banks collide */
    DEPTHS = D / 16,
    COLUMNS = D / 8,
    PIECES = D / 8,           /* of 16 bytes in a row */
    TURNS = 16 * PIECES / 32, /* pieces of 16 rows, by lane */
    STAGE = 64,               /* keys that four warps share */
    HEADS_PER_WARP = 2,
    STAYING = PASS == FORWARD   ? 1
              : PASS == QUERIES ? 3
                                : 2 /* tensors of the cells that stay */
};

/* The score of what a row does not see: far below LEAST, so that its weight is 0 also in a row that has seen
 * nothing yet. */
#define HIDDEN -1e32f

typedef uint16_t rows16[16][PITCH];

/* ---- Matrices ------------------------------------------------------------------------------------- */

/* c (16 x 16) += a (16 x D) x^T */
SHARED void times_transposed(float c[2][4], const uint32_t a[DEPTHS][4], const rows16 x, int lane) {
    uint32_t at = shared_address(&x[(lane / 16) * 8 + lane % 8][(lane / 8 % 2) * 8]);
#pragma unroll
    for (int k = 0; k < DEPTHS; k++) {
        uint32_t f[4];
        load_matrices(f, at + 32 * k);
        multiply(c[0], a[k], f[0], f[1]);
        multiply(c[1], a[k], f[2], f[3]);
    }
}

/* sum (16 x D) += p (16 x 16) x */
SHARED void times(float sum[COLUMNS][4], const uint32_t p[4], const rows16 x, int lane) {
    uint32_t at = shared_address(&x[(lane / 8 % 2) * 8 + lane % 8][(lane / 16) * 8]);
#pragma unroll
    for (int n = 0; n < COLUMNS; n += 2) {
        uint32_t f[4];
        load_matrices_transposed(f, at + 16 * n);
        multiply(sum[n], p, f[0], f[1]);
        multiply(sum[n + 1], p, f[2], f[3]);
    }
}

SHARED void load_rows(uint32_t a[DEPTHS][4], const rows16 x, int lane) {
    uint32_t at = shared_address(&x[(lane / 8 % 2) * 8 + lane % 8][(lane / 16) * 8]);
#pragma unroll
    for (int k = 0; k < DEPTHS; k++)
        load_matrices(a[k], at + 32 * k);
}

/* 16 rows; lanes 0 to 15 have their positions. */
SHARED void fetch_rows(rows16 to, const uint16_t *from, int64_t stride, uint32_t position, int lane) {
#pragma unroll
    for (int i = 0; i < TURNS; i++) {
        int at = i * 32 + lane, row = at / PIECES, piece = at % PIECES;
        uint32_t p = __shfl_sync(WARP, position, row);
        copy16(shared_address(&to[row][piece * 8]), from + (p == NOTHING ? 0 : p * stride) + piece * 8,
               p != NOTHING);
    }
}

/* Through shared memory, so that rows are written whole. */
SHARED void put_rows(rows16 by, const float sum[COLUMNS][4], float factor0, float factor1, uint16_t *to,
                     int64_t stride, uint32_t position, int lane) {
    int r = lane / 4, c = lane % 4;
#pragma unroll
    for (int n = 0; n < COLUMNS; n++) {
        *(uint32_t *)&by[r][8 * n + 2 * c] = pack(sum[n][0] * factor0, sum[n][1] * factor0);
        *(uint32_t *)&by[r + 8][8 * n + 2 * c] = pack(sum[n][2] * factor1, sum[n][3] * factor1);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < TURNS; i++) {
        int at = i * 32 + lane, row = at / PIECES, piece = at % PIECES;
        uint32_t p = __shfl_sync(WARP, position, row);
        if (p != NOTHING)
            *(uint4 *)(to + p * stride + piece * 8) = *(const uint4 *)&by[row][piece * 8];
    }
}

/* The product of each of 16 rows with another: row i's in lanes i and i + 16. */
SHARED float row_products(const rows16 x, const rows16 y, int lane) {
    float sum = 0;
#pragma unroll
    for (int piece = 0; piece < PIECES / 2; piece++) {
        int at = (lane / 16 * (PIECES / 2) + piece) * 8;
        uint4 a = *(const uint4 *)&x[lane % 16][at], b = *(const uint4 *)&y[lane % 16][at];
        sum +=
            dot_of_pairs(a.x, b.x) + dot_of_pairs(a.y, b.y) + dot_of_pairs(a.z, b.z) + dot_of_pairs(a.w, b.w);
    }
    return sum + __shfl_xor_sync(WARP, sum, 16);
}

/* ---- 16 cells ------------------------------------------------------------------------------------- */

/* What a warp keeps of them: for QUERIES and FORWARD q (and o's gradient), for KEYS k and v. */
struct cells16 {
    uint32_t a[DEPTHS][4], b[PASS == FORWARD ? 1 : DEPTHS][4];
    float sum[COLUMNS][4], sum2[PASS == KEYS ? COLUMNS : 1][4];
    float most0, most1, lse0, lse1, delta0, delta1;
};

SHARED void fetch_cells(rows16 *to, int step, const weir_attention__arguments &a, int b, int h, uint32_t mine,
                        int lane) {
    const weir_attention__strided &t0 = PASS == KEYS ? a.k : a.q, &t1 = PASS == KEYS ? a.v : a.g;
    fetch_rows(to[0], head_of(t0, b, h), t0.s, mine, lane);
    if (PASS != FORWARD)
        fetch_rows(to[step], head_of(t1, b, h), t1.s, mine, lane);
    if (PASS == QUERIES)
        fetch_rows(to[2 * step], head_of(a.o, b, h), a.o.s, mine, lane);
}

SHARED void begin_head(cells16 &w, rows16 *x, int step, const weir_attention__arguments &a, int64_t base,
                       uint32_t mine, bool keeps, float lse, int lane) {
    load_rows(w.a, x[0], lane);
    if (PASS != FORWARD)
        load_rows((uint32_t(*)[4])w.b, x[step], lane);
    w.most0 = w.most1 = LEAST;
    w.lse0 = w.lse1 = 0;
    if (PASS == QUERIES) {
        float delta = row_products(x[step], x[2 * step], lane);
        if (keeps && mine != NOTHING)
            ((float *)a.delta)[base + mine] = delta;
        w.delta0 = __shfl_sync(WARP, delta, lane / 4);
        w.delta1 = __shfl_sync(WARP, delta, lane / 4 + 8);
        w.lse0 = __shfl_sync(WARP, lse, lane / 4);
        w.lse1 = __shfl_sync(WARP, lse, lane / 4 + 8);
    }
#pragma unroll
    for (int k = 0; k < COLUMNS; k++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            w.sum[k][e] = 0;
            if (PASS == KEYS)
                w.sum2[PASS == KEYS ? k : 0][e] = 0;
        }
}

/* What a lane's two rows see of a step: from its row `first` on, `count`; or all of it. */
struct sight16 {
    int first0, first1;
    uint32_t count0, count1;
    bool is_all;
};

/* That all see what is left. */
SHARED sight16 sight_of_rest(int left) {
    return {0, 0, (uint32_t)left, (uint32_t)left, left >= 16};
}

/* Puts `hidden` where a row does not see. */
SHARED void hide(float x[2][4], const sight16 &sight, float hidden, int c) {
    if (sight.is_all)
        return;
#pragma unroll
    for (int k = 0; k < 2; k++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int j = 8 * k + 2 * c + (e & 1);
            bool sees = e < 2 ? (uint32_t)(j - sight.first0) < sight.count0
                              : (uint32_t)(j - sight.first1) < sight.count1;
            x[k][e] = sees ? x[k][e] : hidden;
        }
}

SHARED void weigh_forward(cells16 &w, float x[2][4], const sight16 &sight, float scale, int c) {
    hide(x, sight, HIDDEN, c);
    float most0 = fmaxf(w.most0, row_most(fmaxf(fmaxf(x[0][0], x[0][1]), fmaxf(x[1][0], x[1][1]))));
    float most1 = fmaxf(w.most1, row_most(fmaxf(fmaxf(x[0][2], x[0][3]), fmaxf(x[1][2], x[1][3]))));
    take_scores<2, COLUMNS>(w, x, most0, most1, scale);
}

/* 16 rows that come by. lse and delta: of lanes 0 to 15, for KEYS. */
SHARED void take_step(cells16 &w, const rows16 sx, const rows16 sy, const sight16 &sight, float scale,
                      float lse, float delta, int lane) {
    int c = lane % 4;
    float x[2][4] = {}, y[2][4] = {};
    uint32_t p[4];
    times_transposed(x, w.a, sx, lane);
    if (PASS != FORWARD)
        times_transposed(y, (uint32_t(*)[4])w.b, sy, lane);
    if (PASS == FORWARD) {
        weigh_forward(w, x, sight, scale, c);
        pack_square(p, x);
        times(w.sum, p, sy, lane);
    } else if (PASS == QUERIES) {
#pragma unroll
        for (int k = 0; k < 2; k++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                float weight = power_of_2(x[k][e] * scale - (e < 2 ? w.lse0 : w.lse1));
                x[k][e] = weight * (y[k][e] - (e < 2 ? w.delta0 : w.delta1));
            }
        hide(x, sight, 0, c);
        pack_square(p, x);
        times(w.sum, p, sx, lane);
    } else {
#pragma unroll
        for (int k = 0; k < 2; k++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float l = __shfl_sync(WARP, lse, 8 * k + 2 * c + e),
                      d = __shfl_sync(WARP, delta, 8 * k + 2 * c + e);
                x[k][e] = power_of_2(x[k][e] * scale - l);
                x[k][e + 2] = power_of_2(x[k][e + 2] * scale - l);
                y[k][e] = x[k][e] * (y[k][e] - d);
                y[k][e + 2] = x[k][e + 2] * (y[k][e + 2] - d);
            }
        hide(x, sight, 0, c);
        hide(y, sight, 0, c);
        pack_square(p, y);
        times(w.sum, p, sx, lane);
        pack_square(p, x);
        times((float(*)[4])w.sum2, p, sy, lane);
    }
}

SHARED void end_head(cells16 &w, rows16 by, rows16 by2, const weir_attention__arguments &a, int b, int h,
                     int64_t base, uint32_t mine, float scale, int lane) {
    float factor0 = scale, factor1 = scale;
    if (PASS == FORWARD) {
        float sum0 = row_sum(w.lse0), sum1 = row_sum(w.lse1);
        float lse0 = w.most0 * scale * LOG2E + __log2f(sum0), lse1 = w.most1 * scale * LOG2E + __log2f(sum1);
        float mine0 = __shfl_sync(WARP, lse0, lane % 8 * 4), mine1 = __shfl_sync(WARP, lse1, lane % 8 * 4);
        factor0 = 1 / sum0;
        factor1 = 1 / sum1;
        if (mine != NOTHING)
            ((float *)a.lse)[base + mine] = lane < 8 ? mine0 : mine1;
    }
    const weir_attention__strided &t = PASS == FORWARD ? a.o : PASS == QUERIES ? a.dq : a.dk;
    put_rows(by, w.sum, factor0, factor1, head_of(t, b, h), t.s, mine, lane);
    if (PASS == KEYS)
        put_rows(by2, (float(*)[4])w.sum2, 1, 1, head_of(a.dv, b, h), a.dv.s, mine, lane);
}

/* Cells that see nothing: zeros (or not a number: see RECORD_AT). */
SHARED void put_nothing(const weir_attention__arguments &a, int b, int h, uint32_t mine, uint32_t bits,
                        int lane) {
    uint32_t both = bits ? NOT_A_NUMBER : 0;
#pragma unroll
    for (int set = 0; set < (PASS == KEYS ? 2 : 1); set++) {
        const weir_attention__strided &t = PASS == FORWARD ? a.o : PASS == QUERIES ? a.dq : set ? a.dv : a.dk;
#pragma unroll
        for (int i = 0; i < TURNS; i++) {
            int at = i * 32 + lane;
            uint32_t p = __shfl_sync(WARP, mine, at / PIECES);
            if (p != NOTHING)
                *(uint4 *)(head_of(t, b, h) + p * t.s + at % PIECES * 8) = make_uint4(both, both, both, both);
        }
    }
}

/* A record of cells that see nothing, all heads: one warp. */
SHARED void take_blind(const weir_attention__arguments &a, const uint32_t *record) {
    int lane = threadIdx.x % 32;
    uint32_t mine = NOTHING;
    if (lane < record[RECORD_ROWS])
        mine = ((const uint16_t *)(record + RECORD_CELLS))[lane];
    for (int h = 0; h < a.heads; h++)
        put_nothing(a, record[RECORD_SEQUENCE], h, mine, record[RECORD_AT], lane);
}

/* ---- Up to 16 cells: one warp, or four (W) --------------------------------------------------------- */

struct small_room {
    rows16 cells[STAYING], x[2], y[2];
};

/* The sums of four warps, added in their order, where the rows lay. */
template <int W>
SHARED void add_warps(cells16 &w, const weir_attention__arguments &a, const uint32_t *record, int h,
                      float scale, unsigned char *shared) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, c = lane % 4, r0 = warp * 16 + lane / 4;
    int b = record[RECORD_SEQUENCE], rows = record[RECORD_ROWS];
    float *sums = (float *)shared, *most = sums + W * 16 * D, *lse = most + W * 16;
#pragma unroll
    for (int set = 0; set < (PASS == KEYS ? 2 : 1); set++) {
        __syncthreads();
#pragma unroll
        for (int k = 0; k < COLUMNS; k++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                sums[(r0 + e / 2 * 8) * D + 8 * k + 2 * c + (e & 1)] =
                    set ? w.sum2[PASS == KEYS ? k : 0][e] : w.sum[k][e];
        if (PASS == FORWARD) {
            float sum0 = row_sum(w.lse0), sum1 = row_sum(w.lse1);
            if (c == 0) {
                most[r0] = w.most0;
                most[r0 + 8] = w.most1;
                lse[r0] = sum0;
                lse[r0 + 8] = sum1;
            }
        }
        __syncthreads();
        for (int at = threadIdx.x; at < rows * D / 2; at += W * 32) {
            int r = at / (D / 2), e = at % (D / 2) * 2;
            float low = 0, high = 0, top = LEAST, sum = 0;
            for (int k = 0; PASS == FORWARD && k < W; k++)
                top = fmaxf(top, most[k * 16 + r]);
            for (int k = 0; k < W; k++) {
                float part = PASS == FORWARD ? power_of_2((most[k * 16 + r] - top) * scale * LOG2E) : 1;
                if (PASS == FORWARD)
                    sum += part * lse[k * 16 + r];
                low += part * sums[(k * 16 + r) * D + e];
                high += part * sums[(k * 16 + r) * D + e + 1];
            }
            float factor = PASS == FORWARD ? 1 / sum : set ? 1 : scale;
            uint32_t p = ((const uint16_t *)(record + RECORD_CELLS))[r];
            const weir_attention__strided &t = PASS == FORWARD   ? a.o
                                               : PASS == QUERIES ? a.dq
                                               : set             ? a.dv
                                                                 : a.dk;
            *(uint32_t *)(head_of(t, b, h) + p * t.s + e) = pack(low * factor, high * factor);
            if (PASS == FORWARD && e == 0)
                ((float *)a.lse)[((int64_t)b * a.heads + h) * a.at.length + p] =
                    top * scale * LOG2E + __log2f(sum);
        }
    }
}

template <int W>
SHARED void take_small(const weir_attention__arguments &a, const uint32_t *record, int first_head, int heads,
                       unsigned char *shared) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    small_room &s = ((small_room *)shared)[warp];
    uint32_t word = record[lane], word2 = W == 1 ? record[32 + lane] : 0;
    int b = __shfl_sync(WARP, word, RECORD_SEQUENCE), rows = __shfl_sync(WARP, word, RECORD_ROWS);
    int count = __shfl_sync(WARP, word, RECORD_KEYS);
    uint32_t mine = __shfl_sync(WARP, word, RECORD_CELLS + lane / 2 % 8) >> lane % 2 * 16 & 0xffff;
    uint32_t see0 = __shfl_sync(WARP, word, RECORD_SIGHTS + lane / 8) >> lane / 4 % 2 * 16 & 0xffff;
    uint32_t see1 = __shfl_sync(WARP, word, RECORD_SIGHTS + 4 + lane / 8) >> lane / 4 % 2 * 16 & 0xffff;
    bool is_shared = W == 1 && __shfl_sync(WARP, word, RECORD_SHARED);
    if (lane >= rows)
        mine = NOTHING;
    int all = (count + 15) / 16, steps = W == 1 ? all : (all - warp + W - 1) / W, n = heads * steps;
    const weir_attention__strided &tx = PASS == KEYS ? a.q : a.k, &ty = PASS == KEYS ? a.g : a.v;
    const float *all_lse = (const float *)a.lse, *all_delta = (const float *)a.delta;
    float scale = (float)a.scale, scale2 = scale * LOG2E;
    cells16 w;
    auto sight_of = [&](int k) { /* of a step */
                                 sight16 sight = sight_of_rest(count - (W == 1 ? k : k * W + warp) * 16);
                                 if (is_shared)
                                     sight = {(int)(see0 & 255) - 16 * k, (int)(see1 & 255) - 16 * k,
                                              (see0 >> 8) - (see0 & 255), (see1 >> 8) - (see1 & 255), false};
                                 return sight;
    };
    auto seen = [&](int i) { /* the positions of a step, in lanes 0 to 15 */
                             int j = (W == 1 ? i : i * W + warp) * 16 + lane % 16;
                             uint32_t p = NOTHING;
                             if (W == 1) {
                                 int at = RECORD_INLINE + j / 2;
                                 p = __shfl_sync(WARP, i < 1 ? word : word2, at % 32) >> lane % 2 * 16 &
                                     0xffff;
                             } else if (j < count) {
                                 p = key_of_record(&a.at, a.words, a.is_column, record, j);
                             }
                             return lane < 16 && j < count ? p : NOTHING;
    };
    uint32_t now = seen(0), next = now;
    int64_t base = ((int64_t)b * a.heads + first_head) * a.at.length;
    float lse = -LEAST, delta = 0, lse_next = -LEAST, delta_next = 0;
    fetch_cells(s.cells, 1, a, b, first_head, mine, lane);
    fetch_rows(s.x[0], head_of(tx, b, first_head), tx.s, now, lane);
    fetch_rows(s.y[0], head_of(ty, b, first_head), ty.s, now, lane);
    commit_copies();
    if (PASS == KEYS && now != NOTHING) {
        lse_next = all_lse[base + now];
        delta_next = all_delta[base + now];
    }
    if (PASS == QUERIES && mine != NOTHING)
        lse_next = all_lse[base + mine];
    for (int i = 0, h = first_head, k = 0; i < n; i++) {
        await_copies();
        __syncwarp();
        if (PASS == KEYS) {
            lse = lse_next;
            delta = delta_next;
        }
        if (k == 0) {
            begin_head(w, s.cells, 1, a, base, mine, W == 1 || warp == 0, lse_next, lane);
            __syncwarp();
        }
        bool ends = k + 1 >= steps;
        if (i + 1 < n) {
            int next_head = ends ? h + 1 : h;
            int64_t next_base = ends ? base + a.at.length : base;
            next = steps <= 1 ? now : seen(ends ? 0 : k + 1);
            if (ends)
                fetch_cells(s.cells, 1, a, b, next_head, mine, lane);
            fetch_rows(s.x[(i + 1) & 1], head_of(tx, b, next_head), tx.s, next, lane);
            fetch_rows(s.y[(i + 1) & 1], head_of(ty, b, next_head), ty.s, next, lane);
            commit_copies();
            if (PASS == KEYS) {
                lse_next = -LEAST;
                if (next != NOTHING) {
                    lse_next = all_lse[next_base + next];
                    delta_next = all_delta[next_base + next];
                }
            }
            if (PASS == QUERIES && ends && mine != NOTHING)
                lse_next = all_lse[next_base + mine];
        }
        take_step(w, s.x[i & 1], s.y[i & 1], sight_of(k), scale2, lse, delta, lane);
        if (ends) {
            __syncwarp();
            if (W == 1)
                end_head(w, s.x[i & 1], s.y[i & 1], a, b, h, base, mine, scale, lane);
            h++;
            k = 0;
            base += a.at.length;
        } else {
            k++;
        }
        now = next;
    }
    if (W > 1)
        add_warps<W>(w, a, record, first_head, scale, shared);
}

/* ---- Up to 64 cells that see many: four warps share what comes by ----------------------------------- */

struct large_room {
    rows16 cells[STAYING][4], x[2][4], y[2][4];
    float lse[2][STAGE], delta[2][STAGE];
};

/* Cells `skipped` and on of a record. */
SHARED void take_large(const weir_attention__arguments &a, const uint32_t *record, int skipped,
                       int first_head, int heads, unsigned char *shared) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    large_room &s = *(large_room *)shared;
    int b = record[RECORD_SEQUENCE], rows = record[RECORD_ROWS], count = record[RECORD_KEYS];
    int steps = (count + STAGE - 1) / STAGE, n = heads * steps;
    uint32_t mine = NOTHING;
    bool has_cells = skipped + 16 * warp < rows; /* other warps copy, and wait */
    if (lane < 16 && skipped + 16 * warp + lane < rows)
        mine = cell_of_record(&a.at, a.words, a.is_column, record, skipped + 16 * warp + lane);
    const weir_attention__strided &tx = PASS == KEYS ? a.q : a.k, &ty = PASS == KEYS ? a.g : a.v;
    float scale = (float)a.scale, scale2 = scale * LOG2E, lse_next = -LEAST;
    int64_t base = ((int64_t)b * a.heads + first_head) * a.at.length;
    cells16 w;
    auto stream =
        [&](int into, int h,
            int k) { /* each warp a quarter of the stage */
                     int j = k * STAGE + warp * 16 + lane;
                     uint32_t p = lane < 16 && j < count
                                      ? key_of_record(&a.at, a.words, a.is_column, record, j)
                                      : NOTHING;
                     fetch_rows(s.x[into][warp], head_of(tx, b, h), tx.s, p, lane);
                     fetch_rows(s.y[into][warp], head_of(ty, b, h), ty.s, p, lane);
                     if (PASS == KEYS && lane < 16) {
                         int64_t at = ((int64_t)b * a.heads + h) * a.at.length + (p == NOTHING ? 0 : p);
                         copy4(&s.lse[into][warp * 16 + lane], (const float *)a.lse + at, p != NOTHING);
                         copy4(&s.delta[into][warp * 16 + lane], (const float *)a.delta + at, p != NOTHING);
                     }
        };
    fetch_cells(&s.cells[0][warp], 4, a, b, first_head, mine, lane);
    stream(0, first_head, 0);
    commit_copies();
    if (PASS == QUERIES && mine != NOTHING)
        lse_next = ((const float *)a.lse)[base + mine];
    for (int i = 0, h = first_head, k = 0; i < n; i++) {
        await_copies();
        __syncthreads();
        if (k == 0 && has_cells) {
            begin_head(w, &s.cells[0][warp], 4, a, base, mine, true, lse_next, lane);
            __syncwarp();
        }
        bool ends = k + 1 == steps;
        if (i + 1 < n) {
            if (ends)
                fetch_cells(&s.cells[0][warp], 4, a, b, h + 1, mine, lane);
            stream((i + 1) & 1, ends ? h + 1 : h, ends ? 0 : k + 1);
            commit_copies();
            if (PASS == QUERIES && ends && mine != NOTHING)
                lse_next = ((const float *)a.lse)[base + a.at.length + mine];
        }
#pragma unroll 1
        for (int z = 0; has_cells && z < STAGE / 16 && k * STAGE + 16 * z < count; z++) {
            int left = count - k * STAGE - 16 * z;
            float lse = -LEAST, delta = 0;
            if (PASS == KEYS && lane < 16 && lane < left) {
                lse = s.lse[i & 1][16 * z + lane];
                delta = s.delta[i & 1][16 * z + lane];
            }
            take_step(w, s.x[i & 1][z], s.y[i & 1][z], sight_of_rest(left), scale2, lse, delta, lane);
        }
        if (ends) {
            __syncthreads(); /* all are done with the stage: it serves to write the rows */
            if (has_cells)
                end_head(w, s.x[i & 1][warp], s.y[i & 1][warp], a, b, h, base, mine, scale, lane);
            h++;
            k = 0;
            base += a.at.length;
        } else {
            k++;
        }
    }
}

/* ---- A column of up to 64 cells: all gradients at once ------------------------------------------------ */

/* A column is its own transpose: what it sees is what sees it. So QUERIES makes all three gradients of one
 * that fits a block, and KEYS has nothing left to do. */
SHARED bool is_square(const weir_attention__arguments &a, const uint32_t *record) {
    return D >= ROWS_LARGE && a.is_column && record[RECORD_KEYS] <= ROWS_LARGE;
}

/* A warp's 16 queries: q's gradient; weights and changes stay in shared memory, with a row for each query. */
SHARED void take_queries(large_room &s, const weir_attention__arguments &a, int b, int h, int rows,
                         uint32_t mine, float lse) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, r = lane / 4, c = lane % 4;
    float scale = (float)a.scale, scale2 = scale * LOG2E;
    cells16 w;
    begin_head(w, &s.cells[0][warp], 4, a, 0, mine, false, lse, lane);
#pragma unroll 1
    for (int z = 0; 16 * z < rows; z++) {
        float x[2][4] = {}, y[2][4] = {};
        uint32_t p[4];
        sight16 sight = sight_of_rest(rows - 16 * z);
        sight.count0 = 16 * warp + r < rows ? sight.count0 : 0;
        sight.count1 = 16 * warp + r + 8 < rows ? sight.count1 : 0;
        sight.is_all = sight.is_all && 16 * warp + 16 <= rows;
        times_transposed(x, w.a, s.x[0][z], lane);
        times_transposed(y, (uint32_t(*)[4])w.b, s.y[0][z], lane);
#pragma unroll
        for (int k = 0; k < 2; k++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                x[k][e] = power_of_2(x[k][e] * scale2 - (e < 2 ? w.lse0 : w.lse1));
                y[k][e] = x[k][e] * (y[k][e] - (e < 2 ? w.delta0 : w.delta1));
            }
        hide(x, sight, 0, c);
        hide(y, sight, 0, c);
        pack_square(p, x);
#pragma unroll
        for (int i = 0; i < 4; i++)
            *(uint32_t *)&s.x[1][warp][r + i % 2 * 8][16 * z + i / 2 * 8 + 2 * c] = p[i];
        pack_square(p, y);
#pragma unroll
        for (int i = 0; i < 4; i++)
            *(uint32_t *)&s.y[1][warp][r + i % 2 * 8][16 * z + i / 2 * 8 + 2 * c] = p[i];
        times(w.sum, p, s.x[0][z], lane);
    }
    __syncwarp();
    put_rows(s.cells[STAYING - 1][warp], w.sum, scale, scale, head_of(a.dq, b, h), a.dq.s, mine, lane);
}

/* A warp's 16 keys: the gradients of k and v, of all queries' changes and weights. */
SHARED void take_keys(large_room &s, const weir_attention__arguments &a, int b, int h, int rows,
                      uint32_t mine) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int row = lane / 16 * 8 + lane % 8, column = 16 * warp + lane / 8 % 2 * 8;
    float dk[COLUMNS][4] = {}, dv[COLUMNS][4] = {}, scale = (float)a.scale;
#pragma unroll 1
    for (int z = 0; 16 * z < rows; z++) {
        uint32_t p[4];
        load_matrices_transposed(p, shared_address(&s.y[1][z][row][column]));
        times(dk, p, s.cells[0][z], lane);
        load_matrices_transposed(p, shared_address(&s.x[1][z][row][column]));
        times(dv, p, s.cells[STAYING > 1][z], lane);
    }
    put_rows(s.x[0][warp], dk, scale, scale, head_of(a.dk, b, h), a.dk.s, mine, lane);
    put_rows(s.y[0][warp], dv, 1, 1, head_of(a.dv, b, h), a.dv.s, mine, lane);
}

SHARED void take_square(const weir_attention__arguments &a, const uint32_t *record, int first_head, int heads,
                        unsigned char *shared) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    large_room &s = *(large_room *)shared;
    int b = record[RECORD_SEQUENCE], rows = record[RECORD_ROWS];
    bool has_cells = 16 * warp < rows;
    uint32_t mine = NOTHING;
    if (lane < 16 && 16 * warp + lane < rows)
        mine = cell_of_record(&a.at, a.words, true, record, 16 * warp + lane);
    for (int h = first_head; h < first_head + heads; h++) {
        float lse = 0;
        if (h > first_head)
            __syncthreads(); /* all are done with the last head */
        if (has_cells) {
            fetch_cells(&s.cells[0][warp], 4, a, b, h, mine, lane);
            fetch_rows(s.x[0][warp], head_of(a.k, b, h), a.k.s, mine, lane);
            fetch_rows(s.y[0][warp], head_of(a.v, b, h), a.v.s, mine, lane);
            commit_copies();
            if (mine != NOTHING)
                lse = ((const float *)a.lse)[((int64_t)b * a.heads + h) * a.at.length + mine];
            await_copies();
        }
        __syncthreads();
        if (has_cells)
            take_queries(s, a, b, h, rows, mine, lse);
        __syncthreads();
        if (has_cells)
            take_keys(s, a, b, h, rows, mine);
    }
}

/* ---- All records ----------------------------------------------------------------------------------- */

/* How many blocks a processor should hold: fewer, with more registers each, if heads are large. */
#define BLOCKS (HEAD_SIZE > 96 ? 1 : HEAD_SIZE > 64 ? 2 : PASS == FORWARD ? 4 : 3)

/* Units of work in the order of the records: a wide record's head, two heads of half a long one's cells or of
 * a large one's, of four small ones', four blind ones. */
struct work_units {
    const uint32_t *records;
    uint32_t wide, longs, large, small, blind, turns, wide_end, long_end, large_end, small_end, end;
};

SHARED void take_unit(const weir_attention__arguments &a, const work_units &u, uint32_t block,
                      unsigned char *shared) {
    if (block < u.wide_end) {
        take_small<4>(a, u.records + block / a.heads * RECORD_WORDS, block % a.heads, 1, shared);
    } else if (block < u.large_end) {
        bool is_long = block < u.long_end;
        uint32_t unit = block - (is_long ? u.wide_end : u.long_end), h = unit % u.turns * HEADS_PER_WARP;
        uint32_t part = unit / u.turns, number = u.wide + (is_long ? part / 2 : u.longs + part);
        const uint32_t *record = u.records + number * RECORD_WORDS;
        int heads = min(HEADS_PER_WARP, a.heads - h);
        if (PASS == FORWARD || !is_square(a, record))
            take_large(a, record, is_long ? part % 2 * ROWS_LARGE : 0, h, heads, shared);
        else if (PASS == QUERIES)
            take_square(a, record, h, heads, shared);
    } else if (block < u.small_end) {
        uint32_t unit = (block - u.large_end) * 4 + threadIdx.x / 32, h = unit % u.turns * HEADS_PER_WARP;
        if (unit / u.turns < u.small)
            take_small<1>(a, u.records + (u.wide + u.longs + u.large + unit / u.turns) * RECORD_WORDS, h,
                          min(HEADS_PER_WARP, a.heads - h), shared);
    } else {
        uint32_t unit = (block - u.small_end) * 4 + threadIdx.x / 32;
        if (unit < u.blind)
            take_blind(a, u.records + (u.wide + u.longs + u.large + u.small + unit) * RECORD_WORDS);
    }
}

SHARED work_units units_of(const weir_attention__arguments &a) {
    const uint32_t *counts = a.words + a.counts;
    work_units u;
    u.records = a.words + a.records;
    u.wide = counts[WIDE];
    u.longs = counts[LONG];
    u.large = counts[LARGE];
    u.small = counts[SMALL];
    u.blind = counts[BLIND];
    u.turns = (a.heads + HEADS_PER_WARP - 1) / HEADS_PER_WARP;
    u.wide_end = u.wide * a.heads;
    u.long_end = u.wide_end + (a.skips_long ? 0 : u.longs * 2 * u.turns);
    u.large_end = u.long_end + u.large * u.turns;
    u.small_end = u.large_end + (u.small * u.turns + 3) / 4;
    u.end = u.small_end + (u.blind + 3) / 4;
    return u;
}

/* One block, one unit; with MANY, what is left over from the first `done` ones: a loop around everything
 * costs registers, so it is a kernel of its own, which seldom has anything to do. */
extern "C" __global__ void __launch_bounds__(128, BLOCKS) weir_attention(const weir_attention__arguments a) {
    extern __shared__ __align__(16) unsigned char shared[];
    static_assert(sizeof(small_room) * 4 <= SHARED_BYTES && sizeof(large_room) <= SHARED_BYTES &&
                      (4 * 16 * D + 2 * 4 * 16) * sizeof(float) <= SHARED_BYTES,
                  "the host asks for too little shared memory");
    work_units u = units_of(a);
#if MANY
    for (uint32_t block = a.done + blockIdx.x; block < u.end; block += gridDim.x) {
        take_unit(a, u, block, shared);
        __syncthreads(); /* the next one uses the same shared memory */
    }
#else
    if (blockIdx.x < u.end)
        take_unit(a, u, blockIdx.x, shared);
#endif
}
