/* The demo shop: a made-up database, large or small, that has what real ones have.
 *
 * Eight tables with integer, text and composite keys; three of them refer to themselves. Nulls; a few
 * products and customers with very many orders; names and sentences; columns that are known only later
 * (when a parcel arrives, whether it comes back); foreign keys that lead nowhere. And causes: a slow
 * carrier is late, a late parcel and a poor product are rated badly, a customer who lapses stops ordering:
 * so that there is something to learn.
 *
 * Every row is a function of (scale, table, row number) by Philox and integer arithmetic: the same rows on
 * every machine. */
#ifndef WEIR_CLI_DEMO_SHOP_H
#define WEIR_CLI_DEMO_SHOP_H

#include "cli.h"

enum {
    DEMO_CATEGORIES,
    DEMO_STORES,
    DEMO_EMPLOYEES,
    DEMO_CUSTOMERS,
    DEMO_PRODUCTS,
    DEMO_ORDERS,
    DEMO_ORDER_ITEMS,
    DEMO_REVIEWS,
    DEMO_TABLES
};

#define DEMO_SCALE_MIN UINT64_C(1000)
#define DEMO_SCALE_MAX UINT64_C(1000000000)

/* How far the database is; called a few times per second. */
typedef void (*demo_progress)(void *context, uint64_t done, uint64_t total);

typedef struct demo_counts {
    uint64_t rows[DEMO_TABLES];
    uint64_t total;
} demo_counts;

extern const char *const demo_table_names[DEMO_TABLES];

/* Whether a file is at `path`, and IO_ERROR if it is there and is not a demo shop. */
WEIR_CHECKED weir_status demo_shop_check(const char *path, bool *is_there, weir_error *error);

/* Writes a shop of about `scale` rows to a SQLite file, which is replaced if it is a demo shop already.
 * IO_ERROR if it is something else or cannot be written. */
WEIR_CHECKED weir_status demo_shop_write(const char *path, uint64_t scale, demo_progress progress,
                                         void *context, demo_counts *counts, weir_error *error);

/* The shop's schema (demo_schema.json): what its columns mean, what is known when, and five tasks. Not
 * terminated. */
extern const unsigned char cli_demo_schema[];
extern const size_t cli_demo_schema_size;

/* ---- Words (demo_words.c) ---------------------------------------------------------------------------------
 * Each gives a text by random numbers, in `out` if it is put together. */

/* A stream of random numbers of one row. */
typedef struct demo_draws {
    weir_seed seed;
    uint32_t domain;
    uint64_t next; /* the number of the next Philox block */
    uint32_t words[4];
    unsigned left; /* words that are not used yet */
} demo_draws;

/* The draws of a table's row. Rows of different tables and rows never share any. */
demo_draws demo_draws_of(unsigned table, uint64_t row);
uint32_t demo_draw(demo_draws *draws);                      /* 32 bits */
uint32_t demo_below(demo_draws *draws, uint32_t range);     /* from 0 to range - 1 */
bool demo_chance(demo_draws *draws, uint32_t per_thousand); /* true so many times in a thousand */

enum { DEMO_TEXT_MAX = 256, DEMO_CATEGORY_COUNT = 36, DEMO_CITY_COUNT = 16, DEMO_CARRIER_COUNT = 4 };

typedef struct demo_category {
    const char *name;
    const char *parent; /* NULL: none */
    const char *description;
} demo_category;

extern const demo_category demo_categories[DEMO_CATEGORY_COUNT];
extern const char *const demo_cities[DEMO_CITY_COUNT];
extern const char *const demo_carriers[DEMO_CARRIER_COUNT];

const char *demo_person(demo_draws *draws, char out[DEMO_TEXT_MAX]);
const char *demo_product_name(demo_draws *draws, char out[DEMO_TEXT_MAX]);
const char *demo_product_description(demo_draws *draws, char out[DEMO_TEXT_MAX]);
const char *demo_review_title(demo_draws *draws, int rating);
const char *demo_review_body(demo_draws *draws, int rating, bool was_late, char out[DEMO_TEXT_MAX]);

#endif
