/* One record of attention on the host, for one type: included once for each, with REAL the type of sums,
 * STORED that of tensors, READ and WRITE between the two, EXP and LOG, and NAME(x). What a record's cells see
 * comes by in tiles of 32; all three passes are one loop with another middle.
 *
 * The order of every sum is that of the source: dot products have sixteen parts, whatever the machine has. */

enum { NAME(LANES) = 16, NAME(TILE_KEYS) = 32, NAME(SIZE_MAX) = 128 };

typedef REAL NAME(row)[NAME(SIZE_MAX)];

typedef struct NAME(room) {
    NAME(row) a1[ROWS_SMALL], a2[ROWS_SMALL];         /* what stays: q and o's gradient, or k and v */
    NAME(row) sum[ROWS_SMALL], sum2[ROWS_SMALL];      /* what is made */
    NAME(row) x[NAME(TILE_KEYS)], y[NAME(TILE_KEYS)]; /* what comes by: k and v, or q and o's gradient */
    REAL lse[ROWS_SMALL], delta[ROWS_SMALL], most[ROWS_SMALL];
    REAL key_lse[NAME(TILE_KEYS)], key_delta[NAME(TILE_KEYS)];
    uint32_t cells[ROWS_SMALL];
} NAME(room);

static inline REAL NAME(dot)(const REAL *a, const REAL *b, uint32_t size) {
    REAL parts[NAME(LANES)] = {0};
    for (uint32_t i = 0; i < size; i += NAME(LANES))
        for (uint32_t k = 0; k < NAME(LANES); k++)
            parts[k] += a[i + k] * b[i + k];
    for (uint32_t half = NAME(LANES) / 2; half > 0; half /= 2)
        for (uint32_t k = 0; k < half; k++)
            parts[k] += parts[k + half];
    return parts[0];
}

static inline void NAME(add)(REAL *sum, REAL factor, const REAL *x, uint32_t size) {
    for (uint32_t i = 0; i < size; i++)
        sum[i] += factor * x[i];
}

static inline STORED *NAME(place)(const weir_attention__strided *t, uint32_t b, uint32_t h,
                                  uint32_t position) {
    return (STORED *)t->data + (int64_t)b * t->b + (int64_t)h * t->h + (int64_t)position * t->s;
}

static void NAME(read)(const weir_attention__strided *t, uint32_t b, uint32_t h, uint32_t position,
                       uint32_t size, REAL *out) {
    const STORED *from = NAME(place)(t, b, h, position);
    for (uint32_t i = 0; i < size; i++)
        out[i] = READ(from[i]);
}

static void NAME(write)(const weir_attention__strided *t, uint32_t b, uint32_t h, uint32_t position,
                        uint32_t size, const REAL *from, REAL factor) {
    STORED *to = NAME(place)(t, b, h, position);
    for (uint32_t i = 0; i < size; i++)
        to[i] = WRITE(from[i] * factor);
}

static void NAME(begin)(NAME(room) * m, weir_attention__pass pass, const weir_attention__arguments *a,
                        uint32_t b, uint32_t h, uint32_t rows, uint32_t size) {
    const REAL *lse = (const REAL *)a->lse + ((size_t)b * a->heads + h) * a->at.length;
    REAL *delta = (REAL *)a->delta + ((size_t)b * a->heads + h) * a->at.length;
    bool is_keys = pass == WEIR_ATTENTION__KEYS;
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t cell = m->cells[i];
        memset(m->sum[i], 0, sizeof m->sum[i]);
        memset(m->sum2[i], 0, sizeof m->sum2[i]);
        NAME(read)(is_keys ? &a->k : &a->q, b, h, cell, size, m->a1[i]);
        m->lse[i] = 0;
        m->most[i] = -INFINITY;
        if (pass == WEIR_ATTENTION__FORWARD)
            continue;
        NAME(read)(is_keys ? &a->v : &a->g, b, h, cell, size, m->a2[i]);
        if (is_keys)
            continue;
        NAME(read)(&a->o, b, h, cell, size, m->x[0]);
        m->lse[i] = lse[cell];
        delta[cell] = m->delta[i] = NAME(dot)(m->a2[i], m->x[0], size);
    }
}

/* A tile of `count` keys for one of the cells. */
static void NAME(step)(NAME(room) * m, weir_attention__pass pass, uint32_t i, uint32_t count, uint32_t size,
                       REAL scale) {
    REAL s[NAME(TILE_KEYS)], most = m->most[i];
    for (uint32_t j = 0; j < count; j++)
        s[j] = NAME(dot)(m->a1[i], m->x[j], size) * scale;
    if (pass == WEIR_ATTENTION__FORWARD) {
        for (uint32_t j = 0; j < count; j++)
            most = s[j] > most ? s[j] : most;
        REAL shrink = EXP(m->most[i] - most);
        m->most[i] = most;
        m->lse[i] *= shrink;
        for (uint32_t k = 0; k < size; k++)
            m->sum[i][k] *= shrink;
    }
    for (uint32_t j = 0; j < count; j++) {
        bool is_keys = pass == WEIR_ATTENTION__KEYS, is_forward = pass == WEIR_ATTENTION__FORWARD;
        REAL p = EXP(s[j] - (is_forward ? most : is_keys ? m->key_lse[j] : m->lse[i]));
        if (is_forward) {
            m->lse[i] += p;
            NAME(add)(m->sum[i], p, m->y[j], size);
            continue;
        }
        REAL change = p * (NAME(dot)(m->a2[i], m->y[j], size) - (is_keys ? m->key_delta[j] : m->delta[i]));
        NAME(add)(m->sum[i], change, m->x[j], size);
        if (is_keys)
            NAME(add)(m->sum2[i], p, m->y[j], size);
    }
}

static void NAME(end)(NAME(room) * m, weir_attention__pass pass, const weir_attention__arguments *a,
                      uint32_t b, uint32_t h, uint32_t rows, uint32_t size) {
    REAL *lse = (REAL *)a->lse + ((size_t)b * a->heads + h) * a->at.length;
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t cell = m->cells[i];
        if (pass == WEIR_ATTENTION__FORWARD) {
            lse[cell] = m->most[i] + LOG(m->lse[i]);
            NAME(write)(&a->o, b, h, cell, size, m->sum[i], m->lse[i] > 0 ? 1 / m->lse[i] : 0);
        } else if (pass == WEIR_ATTENTION__QUERIES) {
            NAME(write)(&a->dq, b, h, cell, size, m->sum[i], (REAL)a->scale);
        } else {
            NAME(write)(&a->dk, b, h, cell, size, m->sum[i], (REAL)a->scale);
            NAME(write)(&a->dv, b, h, cell, size, m->sum2[i], 1);
        }
    }
}

static void NAME(cells)(NAME(room) * m, weir_attention__pass pass, const weir_attention__arguments *a,
                        const uint32_t *record, uint32_t h, uint32_t rows, attention_sight sight,
                        uint32_t size) {
    uint32_t b = record[RECORD_SEQUENCE];
    bool is_keys = pass == WEIR_ATTENTION__KEYS;
    const REAL *lse = (const REAL *)a->lse + ((size_t)b * a->heads + h) * a->at.length;
    const REAL *delta = (const REAL *)a->delta + ((size_t)b * a->heads + h) * a->at.length;
    NAME(begin)(m, pass, a, b, h, rows, size);
    for (uint32_t first = sight.first; first < sight.end; first += NAME(TILE_KEYS)) {
        uint32_t count = sight.end - first < NAME(TILE_KEYS) ? sight.end - first : NAME(TILE_KEYS);
        for (uint32_t j = 0; j < count; j++) {
            uint32_t key = key_of_record(&a->at, a->words, a->is_column, record, first + j);
            NAME(read)(is_keys ? &a->q : &a->k, b, h, key, size, m->x[j]);
            NAME(read)(is_keys ? &a->g : &a->v, b, h, key, size, m->y[j]);
            m->key_lse[j] = is_keys ? lse[key] : 0;
            m->key_delta[j] = is_keys ? delta[key] : 0;
        }
        for (uint32_t i = 0; i < rows; i++)
            NAME(step)(m, pass, i, count, size, (REAL)a->scale);
    }
    NAME(end)(m, pass, a, b, h, rows, size);
}

/* Cells that see the same are taken together. */
static void NAME(record)(uint32_t size, weir_attention__pass pass, const weir_attention__arguments *a,
                         const uint32_t *record, uint32_t h, NAME(room) * m) {
    uint32_t all = record[RECORD_ROWS];
    for (uint32_t first = 0, rows; first < all; first += rows) {
        attention_sight sight = sight_of_record(record, first), next = sight;
        for (rows = 0; rows < ROWS_SMALL && first + rows < all && next.first == sight.first; rows++) {
            m->cells[rows] = cell_of_record(&a->at, a->words, a->is_column, record, first + rows);
            if (first + rows + 1 < all)
                next = sight_of_record(record, first + rows + 1);
        }
        NAME(cells)(m, pass, a, record, h, rows, sight, size);
    }
}
